package openai

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wholeDraft is what a ChunkParser reads of a whole draft besides the chunk.
type wholeDraft struct {
	calls          []Call
	contentMembers int // number of members with content: message, text, delta
}

// draftCall is an element of tool_calls.
type draftCall struct {
	ID       string  `json:"id"`
	Type     *string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments string  `json:"arguments"`
		More      members `json:",embed"`
	} `json:"function"`
	Index jsontext.Value `json:"index"`
	More  members        `json:",embed"`
}

// members are those of an object that have no field.
type members map[string]jsontext.Value

// harmless reports whether none of them means anything.
func (m members) harmless() bool {
	for _, raw := range m {
		if !harmless(raw) {
			return false
		}
	}
	return true
}

// readCalls reads the calls of a message, which are valid JSON, and reports whether it understood everything.
func (w *wholeDraft) readCalls(raw []byte) bool {
	var read []draftCall
	if json.Unmarshal(raw, &read) != nil || len(w.calls) > 0 || len(read) > maxCalls {
		return false
	}
	for i := range read {
		k := &read[i]
		if k.ID == "" || k.Function.Name == "" || k.Type != nil && *k.Type != "function" || !k.More.harmless() || !k.Function.More.harmless() {
			return false
		}
		w.calls = append(w.calls, Call{ID: k.ID, Type: "function", Name: k.Function.Name, Arguments: k.Function.Arguments})
	}
	return true
}
