package messages

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foregate/foregate/gateway/clientapi"
)

// FuzzEncoder checks that a stream cut in two says what the whole answer says.
func FuzzEncoder(f *testing.F) {
	f.Add("some text", "thoughts", `{"a":1}`, 3)
	f.Add("", "", "", 0)
	f.Fuzz(func(t *testing.T, text, reasoning, arguments string, cut int) {
		if !utf8.ValidString(text) || !utf8.ValidString(reasoning) || !utf8.ValidString(arguments) {
			return
		}
		cut = min(max(cut, 0), len(text))
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		e := &encoder{id: "1"}
		var out []byte
		for _, p := range []clientapi.Part{
			{Model: "m", Reasoning: reasoning}, {Text: text[:cut]}, {Text: text[cut:]},
			{Calls: []clientapi.CallPart{{ID: "c", Name: "f", Arguments: arguments}}}, {Finish: "tool_calls"},
		} {
			out, _ = e.Part(out, &p)
		}
		out, _ = e.End(out)
		said := map[string]string{}
		for line := range strings.SplitSeq(string(out), "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var event struct{ Delta map[string]any }
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			for _, name := range []string{"text", "thinking", "partial_json", "stop_reason"} {
				if s, ok := event.Delta[name].(string); ok {
					said[name] += s
				}
			}
		}
		whole, _ := (&encoder{id: "1"}).Whole(nil, &clientapi.Part{
			Model: "m", Text: text, Reasoning: reasoning, Finish: "tool_calls", Calls: []clientapi.CallPart{{ID: "c", Name: "f", Arguments: arguments}},
		})
		var answer struct {
			Content    []struct{ Text, Thinking string }
			StopReason string `json:"stop_reason"`
		}
		if err := json.Unmarshal(whole, &answer); err != nil {
			t.Fatalf("%q: %v", whole, err)
		}
		var wholeText, wholeThinking string
		for _, b := range answer.Content {
			wholeText, wholeThinking = wholeText+b.Text, wholeThinking+b.Thinking
		}
		if said["text"] != wholeText || said["thinking"] != wholeThinking || said["stop_reason"] != answer.StopReason || said["partial_json"] != arguments {
			t.Errorf("the stream says %q, the whole answer is %s", said, whole)
		}
	})
}
