package vllmsim

// thought is what a model thinks before it answers, for the hazard thinks_first.
const thought = "The question is clear. I read it again, compare it with what I know and write the answer."

// thinkScript is the thought as tokens that are forced.
func (s *Server) thinkScript() []scripted {
	var out []scripted
	for _, text := range []string{"<think>\n", thought, "\n</think>\n\n"} { // nothing parses it
		for _, id := range s.tok.Encode(text) {
			out = append(out, scripted{id: id, p: 0.97, part: partText})
		}
	}
	return out
}

// thinking reports whether the answer to a request begins with thoughts.
func (s *Server) thinking(w *wireRequest, r *request, h Hazards) bool {
	return h.ThinksFirst && r.chat && !w.ContinueFinalMessage && !w.quiet(s.opts.Engine)
}

// quiet reports whether a request turns thinking off in the way that the engine knows.
func (w *wireRequest) quiet(engine string) bool {
	effort := w.ReasoningEffort != nil && *w.ReasoningEffort == "none"
	template := w.Template != nil && w.Template.EnableThinking != nil && !*w.Template.EnableThinking
	switch engine {
	case engineVLLM:
		return template
	case engineSGLang:
		return template || effort
	}
	return false
}
