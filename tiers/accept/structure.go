package accept

import (
	"bytes"
	"encoding/json"
)

// Draft is what the structural checks need to know of a finished draft.
type Draft struct {
	Text     []byte
	IDs      []int32 // may be nil
	Finish   string  // finish_reason
	WantJSON bool    // the client asked for JSON

	Calls   int  // tool calls in it; whether they are sound is for tiers/schema
	Stopped bool // a stop string of the client's ended it: what is open there is meant to be

	// Each of these checks is off in its zero value.
	Refusals   bool   // an answer that opens as a refusal does is not kept; not for routes where a refusal may be right
	PromptText []byte // as the model read it, without JSON's escapes: an answer that mostly copies it is not kept
	Question   []byte // the user's last message: an answer in another script is not kept
}

// Why a draft's structure does not hold, beside the reasons in verdict.go.
const (
	ReasonCompressible = "compressible"   // its last 512 bytes say what fits in 64
	ReasonFence        = "open_fence"     // a fenced block of code has no end
	ReasonRefusal      = "refusal"        // it opens as refusals do
	ReasonEcho         = "prompt_echo"    // more than half of it is the prompt's
	ReasonLanguage     = "other_language" // it is written in another script than the question
)

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
	case Repeats(d.IDs):
		return ReasonRepetition
	case isCompressible(d.Text):
		return ReasonCompressible
	case d.Finish == "stop" && !d.Stopped && !d.WantJSON && fenceOpen(d.Text):
		return ReasonFence
	case d.Refusals && isRefusal(d.Text):
		return ReasonRefusal
	case isEcho(d.Text, d.PromptText):
		return ReasonEcho
	case otherScript(d.Text, d.Question):
		return ReasonLanguage
	}
	return ""
}
