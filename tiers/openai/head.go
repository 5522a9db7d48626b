package openai

import "strconv"

const (
	// A plain prompt is known by its first bytes: shortHead of a template that many
	// have in common, where it is at least twice as long, and longHead of all.
	shortHead = 2 << 10
	longHead  = 16 << 10
)

// Head returns the pieces of the prompt that later ones are likely to begin with: the
// tools and the leading system messages, and the first message behind them; of a
// plain prompt its first bytes. They are raw JSON, or nil; only equality means
// something.
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

// IDs are the token ids of a prompt that is one list of them, else nil.
func (r *Request) IDs() []int32 {
	raw := r.Raw("prompt")
	if r.Kind != Completion || len(raw) == 0 || raw[0] != '[' || r.PromptBytes > 0 {
		return nil
	}
	var in cursor
	in.reset(raw)
	ids := make([]int32, 0, r.PromptTokens)
	for range in.array() {
		v, _ := in.value()
		id, err := strconv.ParseInt(string(v), 10, 32)
		if err != nil {
			return nil // a list of lists, or no id
		}
		ids = append(ids, int32(id))
	}
	return ids
}
