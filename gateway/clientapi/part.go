package clientapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/openai"
)

// Part is what a chat completion, or one chunk of its stream, says. Neither of the other APIs has several choices.
type Part struct {
	Created   int64 // Unix seconds
	Model     string
	Text      string
	Reasoning string // separated from the text by the engine
	Refusal   string
	Calls     []CallPart
	Finish    string          // finish_reason; "" while the answer goes on
	Stop      string          // the stop string that ended it; "" for none
	Usage     *Usage          // nil until it is told
	Extra     json.RawMessage // the object "foregate"; nil for none
}

// CallPart is a part of a tool call. ID and Name come with its first part.
type CallPart struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// Usage counts the tokens of an answer. Cached are those of the prompt that cost nothing.
type Usage struct{ Prompt, Completion, Cached, Reasoning int }

// ErrChoices says that an answer has more than one choice.
var ErrChoices = errors.New("the answer has more than one choice")

// ParsePart reads a chat completion or one chunk of its stream.
func ParsePart(raw []byte) (*Part, error) {
	w, err := openai.ParseReply(raw)
	if err != nil {
		return nil, fmt.Errorf("a part of the answer: %w", err)
	}
	p := &Part{Created: w.Created, Model: w.Model, Extra: json.RawMessage(w.Extra)}
	if w.Usage != nil {
		var u openai.Usage
		w.Usage.AddTo(&u)
		p.Usage = &Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, Reasoning: w.Usage.Reasoning()}
	}
	if len(w.Choices) > 1 {
		return nil, ErrChoices
	}
	for i := range w.Choices {
		p.add(&w.Choices[i])
	}
	return p, nil
}

// add adds what the choice says.
func (p *Part) add(c *openai.ReplyChoice) {
	p.Finish = c.Finish
	for _, stop := range [...][]byte{c.Stop, c.Matched} {
		_ = json.Unmarshal(stop, &p.Stop) // a token id is no stop string
	}
	m := cmp.Or(c.Delta, c.Message)
	if m == nil {
		return
	}
	p.Text, p.Refusal, p.Reasoning = m.Content, m.Refusal, cmp.Or(m.Reasoning, m.ReasoningContent)
	for i := range m.Calls {
		k := &m.Calls[i]
		part := CallPart{ID: k.ID, Name: k.Function.Name, Arguments: k.Function.Arguments}
		if k.Index != nil {
			part.Index = int(*k.Index)
		}
		p.Calls = append(p.Calls, part)
	}
}

// Note keeps what the end of an answer needs of another part of it: how it ended, its usage and the gateway's own member.
func (p *Part) Note(next *Part) {
	if next.Finish != "" {
		p.Finish, p.Stop = next.Finish, next.Stop
	}
	if next.Usage != nil {
		p.Usage = next.Usage
	}
	if len(next.Extra) > 0 {
		p.Extra = bytes.Clone(next.Extra)
	}
}

// Recode appends the frames of a chat stream to dst, as enc writes them: whole frames, as the cascade writes them. ended says that
// the chat has ended: [Encoder.End] is left to the caller.
func Recode(dst, frames []byte, enc Encoder) (_ []byte, ended bool, err error) {
	for frame := range bytes.SplitSeq(frames, []byte("\n\n")) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(frame), []byte("data: "))
		if !ok {
			continue // the empty rest, and comments
		}
		if string(data) == openai.Done {
			return dst, true, nil
		}
		p, err := ParsePart(data)
		if err == nil {
			dst, err = enc.Part(dst, p)
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}

// Bound limits what the parts of an encoder keep of an answer together. nil is no limit.
type Bound struct {
	max  int64 // bytes
	kept int64
}

// ErrTooLarge is in the error of an answer of which more must be kept than a Bound allows.
var ErrTooLarge = errors.New("which must be kept until its end")

// NewBound returns a Bound; 0 bytes are no limit.
func NewBound(maxBytes int64) *Bound {
	if maxBytes == 0 {
		return nil
	}
	return &Bound{max: maxBytes}
}

// Keep counts bytes that are kept from now on.
func (b *Bound) Keep(bytes int) error {
	if b == nil {
		return nil
	}
	if b.kept += int64(bytes); b.kept > b.max {
		return fmt.Errorf("an answer of more than %d bytes, %w", b.max, ErrTooLarge)
	}
	return nil
}
