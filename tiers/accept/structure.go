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
}

const (
	leastGram, mostGram = 4, 32 // tokens of a repeated phrase
	mostRepeats         = 4     // so many times in a row is running in circles
)

// fault names the first structural check that the draft fails, "" for none. They
// are cheap and always on: a confident model is most confident in a loop.
func (d Draft) fault() string {
	switch {
	case d.Finish != "stop" && d.Finish != "length":
		return ReasonCut
	case len(bytes.TrimSpace(d.Text)) == 0:
		return ReasonEmpty
	case d.WantJSON && d.Finish == "stop" && !json.Valid(d.Text):
		return ReasonInvalid
	case d.WantJSON && d.Finish == "length":
		return ReasonCut
	case Repeats(d.IDs):
		return ReasonRepetition
	}
	return ""
}

// Repeats reports whether the ids end in the same phrase of 4 to 32 tokens four
// times over. It looks at the end only, where loops stay; O(gram lengths × 96).
func Repeats(ids []int32) bool {
	for gram := leastGram; gram <= mostGram && gram*mostRepeats <= len(ids); gram++ {
		tail := ids[len(ids)-gram*mostRepeats:]
		same := true
		for i := gram; i < len(tail) && same; i++ {
			same = tail[i] == tail[i-gram]
		}
		if same {
			return true
		}
	}
	return false
}
