package agents

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sdkAnswer is what a script of the folder sdk tells of an answer.
type sdkAnswer struct {
	API    string   `json:"api"`
	Name   string   `json:"name"`
	Stream bool     `json:"stream"`
	Error  string   `json:"error"`
	End    string   `json:"end"`
	Text   string   `json:"text"`
	Calls  []string `json:"calls"`
}

// sdkEnds are how an answer of each API may end.
var sdkEnds = map[string][]string{
	"chat": {"stop", "length", "tool_calls"}, "responses": {"completed", "incomplete"}, "messages": {"end_turn", "max_tokens", "tool_use", "stop_sequence"},
}

// TestOfficialSDKs sends what the SDKs of OpenAI and Anthropic send, whole and as streams: none is refused, and each answer is as its
// SDK expects it. Python's need an interpreter that has them: FOREGATE_SDK_PYTHON.
func TestOfficialSDKs(t *testing.T) {
	g := simulated(t, nil)
	scripts := map[string][]string{"node": {"node", "sdk/sdk.mjs"}}
	if python := os.Getenv("FOREGATE_SDK_PYTHON"); python != "" {
		scripts["python"] = []string{python, "sdk/sdk.py"}
	} else {
		t.Log("left out: the SDKs for Python (FOREGATE_SDK_PYTHON names an interpreter with openai and anthropic)")
	}
	raw, err := os.ReadFile("sdk/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for name, args := range scripts {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], g.URL, "sdk/cases.json")...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			answers := 0
			for line := range strings.Lines(string(out)) {
				var a sdkAnswer
				if err := json.Unmarshal([]byte(line), &a); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				answers++
				if a.Error != "" || !slices.Contains(sdkEnds[a.API], a.End) || a.Text == "" && len(a.Calls) == 0 {
					t.Errorf("%s, %s, stream %t: %.400s", a.API, a.Name, a.Stream, line)
				}
			}
			if answers != 2*len(cases) {
				t.Errorf("%d answers to %d cases", answers, len(cases))
			}
			t.Logf("%d requests", answers)
		})
	}
}
