package vllmsim

import (
	"cmp"
	"math"
	"strconv"
)

// scoring is a prompt whose tokens are scoring, with what the request says of the shape of its answer.
type scoring struct {
	prompt []int32
	form   *form
	from   int    // the first token that is looked at; the first of a prompt never is
	fault  string // Fault.Score
	wire   wireIDs
}

// scorePrompt calls visit with the distribution of every prompt token; nil for those that are not looked at.
func (m *Model) scorePrompt(in scoring, visit func(i int, d *Dist)) {
	prompt := in.prompt
	cur := newCursor(m.tok)
	cur.ctx = prompt
	last := len(prompt) - 1 // the header that the answer follows
	for last >= 0 && prompt[last] != tokEndHeader {
		last--
	}
	d := Dist{Top: make([]Cand, 0, numCands)}
	for i, id := range prompt {
		if i == 0 || i < in.from {
			visit(i, nil)
		} else {
			m.fill(&cur, &d)
			visit(i, &d)
		}
		if i == last {
			cur.form = in.form
		}
		cur.push(id)
	}
}

// appendPromptLogprobs writes the prompt_logprobs array for a prompt: null first, then per token an object of the token
// itself and the n best, keyed by id, with true ranks, and with their texts if decoded.
func (m *Model) appendPromptLogprobs(dst []byte, in scoring, n int, decoded bool) []byte {
	p := rankedList{m: m, in: in, n: n, decoded: decoded, spoilt: in.spoilt()}
	dst = append(dst, '[')
	m.scorePrompt(in, func(i int, d *Dist) {
		if in.leavesOut(i) {
			return
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = p.append(dst, i, d)
	})
	return append(dst, ']')
}

// rankedList writes the entries of prompt_logprobs.
type rankedList struct {
	m       *Model
	in      scoring
	n       int
	decoded bool
	spoilt  string // what stands for every logprob, by a fault
	late    []byte // the entry before, when they stand one place late
}

func (p *rankedList) append(dst []byte, i int, d *Dist) []byte {
	switch {
	case p.spoilt == spoiltEntry:
		return append(dst, "null"...)
	case p.in.fault != scoreMisaligned:
		return p.entry(dst, i, d, -1)
	}
	dst = append(dst, cmp.Or(string(p.late), "null")...)
	p.late = p.late[:0]
	if i+1 < len(p.in.prompt) {
		p.late = p.entry(p.late, i, d, p.in.prompt[i+1])
	}
	return dst
}

// entry writes what is known of token i, without the id hidden.
func (p *rankedList) entry(dst []byte, i int, d *Dist, hidden int32) []byte {
	if d == nil {
		return append(dst, "null"...)
	}
	own := p.in.prompt[i]
	dst = append(dst, '{')
	empty := len(dst)
	put := func(c Cand, rank int) {
		if c.ID == hidden {
			return
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = p.ranked(dst, c, rank)
	}
	put(Cand{own, d.Prob(own)}, d.Rank(own))
	for r, c := range d.topN(p.n) {
		if c.ID != own {
			put(c, r+1)
		}
	}
	return append(dst, '}')
}

func (p *rankedList) ranked(dst []byte, c Cand, rank int) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendInt(dst, int64(p.in.wire.out(c.ID)), 10)
	dst = append(dst, `":{"logprob":`...)
	if p.spoilt != "" {
		dst = append(dst, p.spoilt...)
	} else {
		dst = appendFloat(dst, clampLogprob(math.Log(c.P)))
	}
	dst = append(dst, `,"rank":`...)
	dst = strconv.AppendInt(dst, int64(rank), 10)
	dst = append(dst, `,"decoded_token":`...)
	if !p.decoded {
		return append(dst, "null}"...)
	}
	dst = appendQuoted(dst, p.m.tok.shown(c.ID))
	return append(dst, '}')
}
