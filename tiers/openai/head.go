package openai

const (
	// A plain prompt is identified by its first bytes: by shortHead bytes, for a template that many prompts
	// share, if the prompt is at least twice as long, and by longHead bytes.
	shortHead = 2 << 10
	longHead  = 16 << 10
)

// Head returns the parts of the prompt with which later prompts probably begin, too: the tools and the
// leading system messages, and the first message after them; of a plain prompt its first bytes. They are raw
// JSON, or nil, and only useful for comparison.
func (r *Request) Head() (system, first []byte) {
	if r.Kind == Chat {
		system = r.slice(r.system)
		if tools := r.Raw("tools"); r.tools && tools != nil {
			system = append(append(make([]byte, 0, len(tools)+len(system)), tools...), system...)
		}
		return system, r.slice(r.first)
	}
	raw := r.Raw("prompt")
	if len(raw) >= 2*shortHead {
		system = raw[:shortHead]
	}
	return system, raw[min(len(system), len(raw)):min(longHead, len(raw))]
}

func (r *Request) slice(at Span) []byte {
	if at.End <= at.Start || at.End > len(r.Body) {
		return nil
	}
	return r.Body[at.Start:at.End]
}
