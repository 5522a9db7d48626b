package clientapi

import "strings"

// Sequence puts what an answer says into sequence: its texts, then its calls one after the other, then the texts that came behind a
// call. Neither of the other APIs goes back to what it has begun before.
type Sequence struct {
	Last  Part   // how the answer ended, its usage and the gateway's own member, so far
	Bound *Bound // of what is kept

	calls                    Calls
	text, reasoning, refusal strings.Builder // that came behind a call
}

// Writer writes what an answer says: texts, and calls one after the other.
type Writer interface {
	// Texts writes what a part says in text.
	Texts(p *Part) error
	// BeginCall begins a call with its name.
	BeginCall(c *CallPart)
	// MoreOfCall adds to its arguments.
	MoreOfCall(arguments string)
	// EndCall ends it; c has all of its arguments. The answer ends with the last call: a limit may have cut that one.
	EndCall(c *CallPart, last bool) error
}

// NewSequence returns a Sequence that keeps at most maxBytes; 0 is no limit.
func NewSequence(maxBytes int64) Sequence {
	b := NewBound(maxBytes)
	return Sequence{Bound: b, calls: Calls{Bound: b}}
}

// Add writes what can go out of the next part.
func (s *Sequence) Add(p *Part, w Writer) error {
	s.Last.Note(p)
	err := s.texts(p, w)
	for i := 0; i < len(p.Calls) && err == nil; i++ {
		err = s.calls.Add(&p.Calls[i], w)
	}
	return err
}

// texts writes what a part says in text, or keeps it.
func (s *Sequence) texts(p *Part, w Writer) error {
	if !s.calls.Any() {
		return w.Texts(p)
	}
	s.text.WriteString(p.Text)
	s.reasoning.WriteString(p.Reasoning)
	s.refusal.WriteString(p.Refusal)
	return s.Bound.Keep(len(p.Text) + len(p.Reasoning) + len(p.Refusal))
}

// KeepsText reports whether texts came behind a call.
func (s *Sequence) KeepsText() bool { return s.text.Len()+s.reasoning.Len()+s.refusal.Len() > 0 }

// Finish writes the rest.
func (s *Sequence) Finish(w Writer) error {
	if err := s.calls.End(w); err != nil {
		return err
	}
	return w.Texts(&Part{Text: s.text.String(), Reasoning: s.reasoning.String(), Refusal: s.refusal.String()})
}
