package accept

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Draft is what the structural checks need to know of a finished draft.
type Draft struct {
	Text     []byte
	IDs      []int32 // may be nil
	Finish   string  // finish_reason
	WantJSON bool    // the client asked for JSON
	Calls    int     // tool calls in it; whether they are sound is for tiers/schema
}

// fault names the first structural check that the draft fails, "" for none. They
// are cheap and always on: a confident model is most confident in a loop.
func (d Draft) fault() string {
	called := d.Calls > 0
	switch {
	case d.Finish != "stop" && d.Finish != "length" && (d.Finish != "tool_calls" || !called):
		return ReasonCut
	case called && d.Finish == "length":
		return ReasonCut
	case !called && len(bytes.TrimSpace(d.Text)) == 0:
		return ReasonEmpty
	case d.WantJSON && d.Finish == "length":
		return ReasonCut
	case d.WantJSON && !called && !json.Valid(d.Text):
		return ReasonInvalid
	case Repeats(d.IDs), len(d.IDs) == 0 && IsCompressible(d.Text):
		return ReasonRepetition
	}
	return ""
}

// BeginsJSON reports whether a text may become JSON, by its first byte that is not white space.
func BeginsJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) == 0 || strings.IndexByte(`{["-0123456789tfn`, text[0]) >= 0
}
