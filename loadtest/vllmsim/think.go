package vllmsim

// thinks is where an engine puts the thoughts that come before an answer, without a flag of its own.
type thinks uint8

const (
	thinksInText      thinks = iota // <think>…</think> in the answer's text: nothing parses it
	thinksInReasoning               // in a member of their own
)

// thought is what a model thinks before it answers, for the hazard thinks_first.
const thought = "The question is clear. I read it again, compare it with what I know and write the answer."

// thinkScript is the thought as tokens that are forced.
func (s *Server) thinkScript() []scripted {
	where, own := thinksInText, partText
	if s.face != nil {
		where = s.face.thinks
	}
	tags := partText
	if where == thinksInReasoning {
		own, tags = partThink, partHidden
	}
	var out []scripted
	for _, p := range []struct {
		text string
		part part
	}{{"<think>\n", tags}, {thought, own}, {"\n</think>\n\n", tags}} {
		for _, id := range s.tok.Encode(p.text) {
			out = append(out, scripted{id: id, p: 0.97, part: p.part})
		}
	}
	return out
}

// thinking reports whether the answer to a request begins with thoughts.
func (s *Server) thinking(w *wireRequest, r *request, h Hazards) bool {
	return h.has(HazardThinksFirst) && r.chat && !w.ContinueFinalMessage && !w.quiet(s.opts.Engine)
}

// quiet reports whether a request turns thinking off in the way that the engine knows.
func (w *wireRequest) quiet(engine string) bool {
	effort := w.ReasoningEffort != nil && *w.ReasoningEffort == "none"
	template := w.Template != nil && w.Template.EnableThinking != nil && !*w.Template.EnableThinking
	switch engine {
	case engineVLLM, engineLlamaCpp:
		return template
	case engineSGLang:
		return template || effort
	case engineOllama:
		return effort
	}
	return false
}
