package messages

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foregate/foregate/gateway/clientapi"
)

// FuzzEncoder checks that a stream cut in two says what the whole answer says, or that both are errors.
func FuzzEncoder(f *testing.F) {
	f.Add("some text", "thoughts", `{"a":1}`, 3, false)
	f.Add("", "", "", 0, false)
	f.Add("", "", "{", 1, true)
	f.Add("", "", `{"path": "/tmp/x"`, 1, false)
	f.Add("x", "", ` {"a":[1,"}"]}`, 3, true)
	f.Fuzz(func(t *testing.T, text, reasoning, arguments string, cut int, limit bool) {
		if !utf8.ValidString(text) || !utf8.ValidString(reasoning) || !utf8.ValidString(arguments) {
			return
		}
		finish := "tool_calls"
		if limit {
			finish = "length"
		}
		text, more := cutAt(text, cut)
		begun, rest := cutAt(arguments, cut)
		stream, streamErr := streamOf([]clientapi.Part{
			{Model: "m", Reasoning: reasoning}, {Text: text}, {Text: more},
			{Calls: []clientapi.CallPart{{ID: "c", Name: "f", Arguments: begun}}}, {Calls: []clientapi.CallPart{{Arguments: rest}}}, {Finish: finish},
		})
		whole, wholeErr := (&encoder{id: "1"}).Whole(nil, &clientapi.Part{
			Model: "m", Text: text + more, Reasoning: reasoning, Finish: finish, Calls: []clientapi.CallPart{{ID: "c", Name: "f", Arguments: arguments}},
		})
		if (streamErr == nil) != (wholeErr == nil) {
			t.Fatalf("the stream ends by %v, the whole answer by %v", streamErr, wholeErr)
		}
		if wholeErr != nil {
			return
		}
		said := saidBy(t, stream)
		var answer struct {
			Content []struct {
				Text, Thinking string
				Input          json.RawMessage
			}
			StopReason string `json:"stop_reason"`
		}
		if err := json.Unmarshal(whole, &answer); err != nil {
			t.Fatalf("%q: %v", whole, err)
		}
		var wholeText, wholeThinking, input string
		for _, b := range answer.Content {
			wholeText, wholeThinking, input = wholeText+b.Text, wholeThinking+b.Thinking, input+string(b.Input)
		}
		if said["text"] != wholeText || said["thinking"] != wholeThinking || said["stop_reason"] != answer.StopReason || inputOf(said["partial_json"], limit) != input {
			t.Errorf("the stream says %q, the whole answer is %s", said, whole)
		}
	})
}

// cutAt cuts a text between two characters, at a byte or behind it.
func cutAt(text string, at int) (before, behind string) {
	at = min(max(at, 0), len(text))
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[:at], text[at:]
}

// streamOf is the stream of an answer.
func streamOf(parts []clientapi.Part) (out []byte, err error) {
	e := &encoder{id: "1"}
	for i := range parts {
		if out, err = e.Part(out, &parts[i]); err != nil {
			return out, err
		}
	}
	return e.End(out)
}

// saidBy joins the deltas of a stream, by their member.
func saidBy(t *testing.T, stream []byte) map[string]string {
	t.Helper()
	said := map[string]string{}
	for line := range strings.SplitSeq(string(stream), "\n") {
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
	return said
}

// inputOf is what a client makes of the parts of a call's input.
func inputOf(partial string, limit bool) string {
	if partial == "" || limit && (partial[0] != '{' || !json.Valid([]byte(partial))) {
		return "{}"
	}
	return string(clientapi.AppendCompact(nil, json.RawMessage(partial)))
}
