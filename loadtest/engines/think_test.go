package engines

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// thinkingPrompt has examples of thoughts, which the small model follows: its template begins each answer with <think>.
const thinkingPrompt = "Answer.<|im_end|>\n<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n<think>\nTwo and two.\n</think>\n\n4<|im_end|>\n" +
	"<|im_start|>user\nWhat is 3+3?<|im_end|>\n<|im_start|>assistant\n<think>\nThree and three.\n</think>\n\n6"

// thinkingBodies are the members of a request by its API; %s is the prompt.
var thinkingBodies = map[string]string{
	"chat":      `"max_tokens":40,"messages":[{"role":"system","content":%s},{"role":"user","content":"What is 4+4?"}]`,
	"messages":  `"max_tokens":40,"thinking":{"type":"adaptive"},"system":%s,"messages":[{"role":"user","content":"What is 4+4?"}]`,
	"responses": `"max_output_tokens":40,"reasoning":{"summary":"auto"},"instructions":%s,"input":"What is 4+4?"`,
}

// thoughtParts find the thoughts in a whole answer and in a stream.
var thoughtParts = map[string]map[bool]*regexp.Regexp{
	"chat":      {false: regexp.MustCompile(`"reasoning_content":(".*?[^\\]")`), true: regexp.MustCompile(`"reasoning_content":(".*?[^\\]")`)},
	"messages":  {false: regexp.MustCompile(`"thinking":(".*?[^\\]")`), true: regexp.MustCompile(`"thinking_delta","thinking":(".*?[^\\]")`)},
	"responses": {false: regexp.MustCompile(`"summary_text","text":(".*?[^\\]")`), true: regexp.MustCompile(`reasoning_summary_text\.delta".*"delta":(".*?[^\\]")`)},
}

// TestThoughtsOfAnEngineReachTheClientInEachAPI has a real engine that thinks as draft and as target: a draft ends with its first
// thought, and the target answers with thoughts of its own, which are those that it has when it is asked directly.
func TestThoughtsOfAnEngineReachTheClientInEachAPI(t *testing.T) {
	Need(t, LlamaCpp)
	repository, err := root()
	if err != nil {
		t.Fatal(err)
	}
	e := Start(t, Options{Kind: LlamaCpp, Model: LlamaTarget, Flags: []string{"--template", filepath.Join(repository, ".ci", "engines", "thinks.jinja")}})
	r := serve(t, pair{LlamaCpp, e, e}, setup{})
	prompt, err := json.Marshal(thinkingPrompt)
	if err != nil {
		t.Fatal(err)
	}
	var own struct {
		Choices []struct {
			Message struct {
				Content string
				Thought string `json:"reasoning_content"`
			}
		}
	}
	if err := askJSON(t.Context(), http.MethodPost, e.URL+paths["chat"], fmt.Sprintf(`{"model":%q,"temperature":0,`+thinkingBodies["chat"]+`}`, e.Model, prompt), &own); err != nil {
		t.Fatal(err)
	}
	want := own.Choices[0].Message
	if want.Thought == "" || want.Content == "" {
		t.Fatalf("the engine does not think: %+v", want)
	}
	for _, route := range []string{"off", "m"} {
		for api, members := range thinkingBodies {
			for _, stream := range []bool{false, true} {
				body := fmt.Sprintf(`{"model":%q,"temperature":0,"stream":%v,`+members+`}`, route, stream, prompt)
				a, err := ask(t.Context(), http.MethodPost, r.URL+paths[api], body)
				if err != nil || a.status != http.StatusOK {
					t.Fatalf("%s %s: %d, %v, %s", route, api, a.status, err, a.body)
				}
				said, err := read(api, a.body)
				if thought := thoughtIn(t, thoughtParts[api][stream], a.body); err != nil || said.Text != want.Content || thought != want.Thought {
					t.Errorf("%s %s, stream %v: it thinks %q and says %q, want %q and %q (%v)\n%s", route, api, stream, thought, said.Text, want.Thought, want.Content, err, a.body)
				}
				if drafted := strings.Contains(a.body, `"reason":"not_plain_text"`); drafted != (route == "m") {
					t.Errorf("%s %s, stream %v: %s", route, api, stream, a.body)
				}
			}
		}
	}
	for _, route := range []string{"off", "m"} {
		quiet := strings.Replace(thinkingBodies["messages"], "adaptive", "disabled", 1)
		a, err := ask(t.Context(), http.MethodPost, r.URL+paths["messages"], fmt.Sprintf(`{"model":%q,"temperature":0,`+quiet+`}`, route, prompt))
		if thought := thoughtIn(t, thoughtParts["messages"][false], a.body); err != nil || a.status != http.StatusOK || thought != "" {
			t.Errorf("%s, with thinking disabled: %d, %v, %s", route, a.status, err, a.body)
		}
		if bypassed := strings.Contains(a.body, `"acceptance":"bypassed"`); bypassed != (route == "off") {
			t.Errorf("%s, with thinking disabled: %s", route, a.body)
		}
	}
}

// thoughtIn joins the JSON strings that a pattern finds.
func thoughtIn(t *testing.T, parts *regexp.Regexp, body string) (all string) {
	t.Helper()
	for _, m := range parts.FindAllStringSubmatch(body, -1) {
		var part string
		if err := json.Unmarshal([]byte(m[1]), &part); err != nil {
			t.Fatalf("%v: %s", err, m[1])
		}
		all += part
	}
	return all
}
