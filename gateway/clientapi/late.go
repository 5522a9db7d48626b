package clientapi

import "strings"

// Late keeps the text and the reasoning that come behind a tool call, until the calls have ended: neither of the other APIs
// goes back to what it has begun before.
type Late struct{ text, reasoning, refusal strings.Builder }

// Add adds what a part says.
func (l *Late) Add(p *Part) {
	l.text.WriteString(p.Text)
	l.reasoning.WriteString(p.Reasoning)
	l.refusal.WriteString(p.Refusal)
}

// Part is all of it.
func (l *Late) Part() *Part {
	return &Part{Text: l.text.String(), Reasoning: l.reasoning.String(), Refusal: l.refusal.String()}
}
