package clientapi

import "strings"

// HeldText is the text and the reasoning that come behind a tool call. They are held back until the calls have ended: neither
// of the other APIs goes back to what it has begun before.
type HeldText struct {
	Bound *Bound

	text, reasoning, refusal strings.Builder
}

// Add adds what a part says.
func (h *HeldText) Add(p *Part) error {
	h.text.WriteString(p.Text)
	h.reasoning.WriteString(p.Reasoning)
	h.refusal.WriteString(p.Refusal)
	return h.Bound.Keep(len(p.Text) + len(p.Reasoning) + len(p.Refusal))
}

// Empty reports whether there is none.
func (h *HeldText) Empty() bool { return h.text.Len()+h.reasoning.Len()+h.refusal.Len() == 0 }

// Part is all of it.
func (h *HeldText) Part() *Part {
	return &Part{Text: h.text.String(), Reasoning: h.reasoning.String(), Refusal: h.refusal.String()}
}
