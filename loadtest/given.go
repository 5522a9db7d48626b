package loadtest

import "time"

// Given is one request of a trace. It is sent at its time, whatever became of those before it.
type Given struct {
	At             time.Duration // from the start; a case's load divides it
	Prompt, Output int           // tokens, 1 … 200,000; the answer is exactly so long
	Words          int           // requests with the same number and the same Prompt ask the same, word for word
	Prefix, Shared int           // the prompt's first Shared tokens are those of all with the same Prefix; 0 … Prompt
}

// given returns request i of a trace as a conversation of one turn.
func (w *Workload) given(i int) *Session {
	g, k := w.s.Given[i], w.kinds[0]
	s := &Session{number: i, kind: k, place: w.at(i), words: w.seed.of(drawOwn, uint64(g.Words)), tenant: w.tenants[0].ID, priority: "normal", turns: 1}
	s.output, s.limit = min(max(1, g.Output), maxTokens), k.MaxTokens
	shared := min(g.Shared, g.Prompt, maxTokens)
	if shared > 0 {
		s.messages = append(s.messages, Message{"system", text(k.place.of(drawSystem), uint64(g.Prefix), shared)})
	}
	own := min(max(1, g.Prompt-shared), maxTokens)
	s.messages = append(s.messages, Message{"user", text(s.words.of(drawQuestion), 0, own)})
	return s
}
