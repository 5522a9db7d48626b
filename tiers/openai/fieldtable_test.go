package openai

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/golden"
)

// TestTheVerdictOfEachField is the list of what is decided, to be read by people: a change of it is a change of what
// clients may send.
func TestTheVerdictOfEachField(t *testing.T) {
	var b strings.Builder
	for _, f := range FieldTable {
		fmt.Fprintf(&b, "%s: %s (%s): it %s\n", f.Name, f.Verdict, f.Engines, f.Effect)
	}
	b.WriteString("\nA route may list: " + strings.Join(AllowableFields(), ", ") + "\n")
	const file = "testdata/fields.txt"
	golden.Check(t, file, b.String())
}

func TestEachFieldIsListedOnceWithAllThatIsSaidOfIt(t *testing.T) {
	if len(fieldByName) != len(FieldTable) {
		t.Errorf("the table has %d lines of %d fields", len(FieldTable), len(fieldByName))
	}
	for _, f := range FieldTable {
		if f.Verdict == FieldForwarded || f.Engines == "" || f.Effect == "" || strings.HasSuffix(f.Effect, ".") {
			t.Errorf("%+v says too little, or too much", f)
		}
		if _, part := PartTypes[f.Name]; part {
			t.Errorf("%s is the type of a content part, too: a route could not list one of them alone", f.Name)
		}
	}
	for typ, p := range PartTypes {
		if !slices.Contains(p.Keys, "type") || slices.Contains(p.Keys, "uuid") {
			t.Errorf("%s has the keys %q", typ, p.Keys)
		}
	}
}

// TestEachFieldOfRealEnginesIsDecided reads the names that engines take, as recorded: vllm.txt from the schemas of chats and completions in
// /openapi.json of vLLM 0.32 (a test of loadtest/engines compares it with the engine), llamacpp.txt from llama.cpp b11549, which has none.
func TestEachFieldOfRealEnginesIsDecided(t *testing.T) {
	for _, file := range []string{"vllm.txt", "llamacpp.txt"} {
		names, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(string(names)) {
			if _, listed := fieldByName[name]; !listed && !PortableField(name) && !slices.Contains(KeptFields, name) {
				t.Errorf("%s: nobody has decided about %s: add it to the table", file, name)
			}
		}
	}
}

func TestARouteMayListWhatIsRefusedAndNothingElse(t *testing.T) {
	for _, f := range FieldTable {
		err := FieldAllowable(f.Name)
		if allowed := f.Verdict == FieldRefused && f.Name != Kwargs; (err == nil) != allowed {
			t.Errorf("%s is %s: %v", f.Name, f.Verdict, err)
		}
		if err != nil && f.Verdict != FieldRefused && !strings.Contains(err.Error(), f.Effect) {
			t.Errorf("%s: the error does not say why: %v", f.Name, err)
		}
	}
	for name, allowed := range map[string]bool{
		"image_url": true, "input_audio": true, "text": false, "tool_result": false, "temperature": false, "": false,
		Kwargs + ".style": true, Kwargs + ".": false, Kwargs + ".a.b": false,
		Kwargs + ".enable_thinking": false, Kwargs + ".chat_template": false,
	} {
		if err := FieldAllowable(name); (err == nil) != allowed {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsRankedIsNoRefusedField(t *testing.T) {
	for path, want := range map[string]FieldVerdict{"/v1/rerank": FieldForwarded, "/v1/score": FieldForwarded, "/v1/responses": FieldRefused, "/v1/chat/completions": FieldRefused} {
		if got := LookupFieldIn(path, "documents").Verdict; got != want {
			t.Errorf("%s: documents are %s, want %s", path, got, want)
		}
	}
}

func TestAnEngineThatNobodyKnowsIsSentOnlyWhatOpenAIsAPIHas(t *testing.T) {
	for name, want := range map[string]bool{
		"model": true, "messages": true, "prompt": true, "max_completion_tokens": true, "response_format": true, "tools": true, "reasoning_effort": true,
		"top_k": false, "min_p": false, "repetition_penalty": false, "ignore_eos": false, "min_tokens": false, "stop_token_ids": false,
		"include_stop_str_in_output": false, Kwargs: false, "return_token_ids": false, "continuous_usage_stats": false, "anything": false, "": false,
		"guided_json": true, "structured_outputs": true, "continue_final_message": true, // without them the answer would be another one
	} {
		if got := PortableField(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, f := range FieldTable {
		if f.Verdict == FieldStripped && PortableField(f.Name) {
			t.Errorf("%s is never forwarded", f.Name)
		}
	}
}
