package fields

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestTheVerdictOfEachField is the list of what is decided, to be read by people: a change of it is a change of what
// clients may send.
func TestTheVerdictOfEachField(t *testing.T) {
	var b strings.Builder
	for _, f := range Table {
		fmt.Fprintf(&b, "%s: %s (%s): it %s\n", f.Name, f.Verdict, f.Engines, f.Effect)
	}
	b.WriteString("\nA route may list: " + strings.Join(Allowed(), ", ") + "\n")
	const golden = "testdata/fields.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEachFieldIsListedOnceWithAllThatIsSaidOfIt(t *testing.T) {
	if len(byName) != len(Table) {
		t.Errorf("the table has %d lines of %d fields", len(Table), len(byName))
	}
	for _, f := range Table {
		if f.Verdict == Forwarded || f.Engines == "" || f.Effect == "" || strings.HasSuffix(f.Effect, ".") {
			t.Errorf("%+v says too little, or too much", f)
		}
		if _, part := Parts[f.Name]; part {
			t.Errorf("%s is the type of a content part, too: a route could not list one of them alone", f.Name)
		}
	}
	for typ, p := range Parts {
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
			if _, listed := byName[name]; !listed && !Portable(name) && !slices.Contains(Kept, name) {
				t.Errorf("%s: nobody has decided about %s: add it to the table", file, name)
			}
		}
	}
}

func TestARouteMayListWhatIsRefusedAndNothingElse(t *testing.T) {
	for _, f := range Table {
		err := Allowable(f.Name)
		if allowed := f.Verdict == Refused && f.Name != Kwargs; (err == nil) != allowed {
			t.Errorf("%s is %s: %v", f.Name, f.Verdict, err)
		}
		if err != nil && f.Verdict != Refused && !strings.Contains(err.Error(), f.Effect) {
			t.Errorf("%s: the error does not say why: %v", f.Name, err)
		}
	}
	for name, allowed := range map[string]bool{
		"image_url": true, "input_audio": true, "text": false, "tool_result": false, "temperature": false, "": false,
		Kwargs + ".style": true, Kwargs + ".": false, Kwargs + ".a.b": false,
		Kwargs + ".enable_thinking": false, Kwargs + ".chat_template": false,
	} {
		if err := Allowable(name); (err == nil) != allowed {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsRankedIsNoRefusedField(t *testing.T) {
	for path, want := range map[string]Verdict{"/v1/rerank": Forwarded, "/v1/score": Forwarded, "/v1/responses": Refused, "/v1/chat/completions": Refused} {
		if got := LookupIn(path, "documents").Verdict; got != want {
			t.Errorf("%s: documents are %s, want %s", path, got, want)
		}
	}
}
