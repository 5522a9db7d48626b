package contentlog

import (
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers/openai"
)

// observer collects an answer while it is made.
type observer struct {
	whole *openai.Assembler
	begin []byte // of a plain answer: at most maxContent bytes
}

var _ pipeline.Observer = (*observer)(nil)

// Text implements [pipeline.Observer].
func (o *observer) Text(text []byte) {
	o.whole.Text(text)
	o.begin = append(o.begin, text[:min(len(text), maxContent-len(o.begin))]...)
}

// Chunk implements [pipeline.Observer].
func (o *observer) Chunk(chunk []byte) { o.whole.Chunk(chunk) }

// Body implements [pipeline.Observer].
func (o *observer) Body(answer []byte) { o.whole.Body(answer) }

// End implements [pipeline.Observer].
func (o *observer) End(e openai.Ending) { o.whole.End(e) }

// messages returns the answer. Of one that broke off, or is too long, it is the beginning of its text; cut is then true.
func (o *observer) messages() (all []message, cut bool) {
	w, err := o.whole.Whole()
	switch {
	case err == nil:
		return output(w), false
	case len(o.begin) == 0:
		return nil, true
	}
	return []message{{Role: "assistant", Parts: []part{{Type: "text", Content: string(o.begin)}}, FinishReason: "error"}}, true
}
