package trial

import (
	"bytes"
	"encoding/json"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/strategy"
	"github.com/foregate/foregate/tiers/verify"
)

// maxText bounds the bytes of an answer that the target in force is asked about.
const maxText = 256 << 10

// answer collects an answer on its way to the client. It implements [strategy.Observer].
type answer struct {
	next strategy.Observer // nil: none

	text    []byte
	body    []byte // of an answer that a backend gave in one piece, as JSON
	end     openai.Ending
	strange bool // it is more than text, or too long
}

// Text implements [strategy.Observer].
func (a *answer) Text(text []byte) {
	a.keep(&a.text, text)
	if a.next != nil {
		a.next.Text(text)
	}
}

// Chunk implements [strategy.Observer].
func (a *answer) Chunk(chunk []byte) {
	a.strange = true
	if a.next != nil {
		a.next.Chunk(chunk)
	}
}

// Body implements [strategy.Observer].
func (a *answer) Body(body []byte) {
	a.keep(&a.body, body)
	if a.next != nil {
		a.next.Body(body)
	}
}

// End implements [strategy.Observer].
func (a *answer) End(e openai.Ending) {
	a.end = openai.Ending{Finish: e.Finish, Stop: bytes.Clone(e.Stop)}
	if a.next != nil {
		a.next.End(e)
	}
}

func (a *answer) keep(to *[]byte, more []byte) {
	if a.strange = a.strange || len(*to)+len(more) > maxText; a.strange {
		a.text, a.body = nil, nil
		return
	}
	*to = append(*to, more...)
}

// draft returns the answer as a target is asked about it. It reports false if that is not possible: it is more than text,
// or was not ended by the model, a stop string or the length.
func (a *answer) draft(includesStop bool) (verify.Draft, bool) {
	if a.strange {
		return verify.Draft{}, false
	}
	if a.body == nil {
		return question(a.text, a.end.Finish, a.end.Stop, includesStop)
	}
	whole, err := openai.ParseDraftAnswer(a.body, false)
	if err != nil {
		return verify.Draft{}, false
	}
	return questionOf(&whole, includesStop)
}

// questionOf is draft for an answer in one piece.
func questionOf(whole *openai.DraftAnswer, includesStop bool) (verify.Draft, bool) {
	if whole.Choices != 1 || !whole.Plain || whole.Foreign || len(whole.Calls) > 0 {
		return verify.Draft{}, false
	}
	return question(whole.Text, whole.Finish, whole.Stop, includesStop)
}

// question is draft for the text of an answer with its finish_reason and stop_reason.
func question(text []byte, finish string, stop []byte, includesStop bool) (verify.Draft, bool) {
	d := verify.Draft{Text: text, AtLimit: finish == "length"}
	if len(text) == 0 || finish != "length" && finish != "stop" {
		return d, false
	}
	if finish != "stop" {
		return d, true
	}
	if len(stop) == 0 || string(stop) == "null" {
		d.Ended = true
		return d, true
	}
	var word string
	if !includesStop && json.Unmarshal(stop, &word) == nil { // else it is the id of a token
		d.StopWord = []byte(word)
	}
	return d, true
}
