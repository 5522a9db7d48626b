package openai

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// prompts are the prompts in a list of texts, of ids, or of lists of ids. The zero value is one prompt.
type prompts struct {
	n       int  // prompts; 0 is 1
	ids     bool // they are token ids
	size    int  // bytes of the texts, or number of ids
	longest int  // the same of the longest one
}

// readPrompts reads a JSON array. odd is the kind of an element that engines may read in another way, 0 if there is none: all
// must be texts, ids, or lists of ids.
func readPrompts(raw []byte) (p prompts, odd jsontext.Kind) {
	var in cursor
	in.reset(raw)
	var kind jsontext.Kind
	for range in.array() {
		k := in.kind()
		if kind != 0 && k != kind {
			odd = k
		}
		kind = k
		v, _ := in.value()
		size := len(v)
		switch k {
		case '"':
			size -= len(`""`)
		case '[':
			if i := bytes.IndexAny(v[1:], `[{"`); i >= 0 {
				odd = jsontext.Kind(v[1+i])
			}
			size = bytes.Count(v, []byte{','}) + 1
		case '0':
			size = 1
		default:
			odd = k
		}
		p.n++
		p.size += size
		p.longest = max(p.longest, size)
	}
	if p.ids = kind != '"'; odd == 0 && kind == '0' {
		p.n, p.longest = 1, p.size // one prompt of ids
	}
	return p, odd
}

// share returns how much of all prompts the longest one is, 0 … 1.
func (p *prompts) share() float64 {
	if p.n <= 1 || p.size == 0 {
		return 1
	}
	return float64(p.longest) / float64(p.size)
}

// LongestShare returns how much of all prompts the longest one is, 0 … 1: an engine holds each of them on its own.
func (r *Request) LongestShare() float64 { return r.prompts.share() }
