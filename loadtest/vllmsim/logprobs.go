package vllmsim

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// logprobFloor is what vLLM shows for minus infinity.
const logprobFloor = -9999.0

func indexBytes(b []byte, s string) int { return bytes.Index(b, []byte(s)) }

// tokenLogprob is one generated token with its alternatives. Values are raw: before temperature and truncation.
type tokenLogprob struct {
	altLogprob
	top []altLogprob
}

type altLogprob struct {
	text string
	id   int32
	lp   float64
}

func newTokenLogprob(t *Tokenizer, d *Dist, id int32, n int) *tokenLogprob {
	r := &tokenLogprob{altLogprob: altLogprob{id: id, lp: clampLogprob(d.LogProb(id)), text: t.shown(id)}}
	for _, c := range d.topN(n) {
		r.top = append(r.top, altLogprob{text: t.shown(c.ID), id: c.ID, lp: clampLogprob(math.Log(c.P))})
	}
	return r
}

// settle gives the token that completes a character the whole character, as vLLM does: its parts show as "".
func (l *tokenLogprob) settle(delta string, id int32) {
	if id < firstByte+utf8.RuneSelf || id >= firstPiece {
		return
	}
	l.text = delta
	for i := range l.top {
		if l.top[i].id == id {
			l.top[i].text = delta
		}
	}
}

func clampLogprob(v float64) float64 { return max(v, logprobFloor) }

// shown is a token's text on its own: "" for a byte that is only part of a character.
func (t *Tokenizer) shown(id int32) string {
	p := t.pieces[id]
	if utf8.ValidString(p) {
		return p
	}
	return ""
}

// topN returns the n most probable candidates, taking from the tail in order of id when the explicit ones run out.
func (d *Dist) topN(n int) []Cand {
	if n <= len(d.Top) {
		return d.Top[:max(n, 0)]
	}
	out := append([]Cand(nil), d.Top...)
	for id := int32(0); len(out) < min(n, d.Vocab); id++ {
		if d.Prob(id) == d.Tail {
			out = append(out, Cand{ID: id, P: d.Tail})
		}
	}
	return out
}

// appendChat appends one element of choices[].logprobs.content.
func (l *tokenLogprob) appendChat(dst []byte, asIDs bool) []byte {
	dst = l.appendEntry(dst, asIDs)
	dst = append(dst, `,"top_logprobs":[`...)
	l.alternatives(len(l.top), func(i int, a *altLogprob) {
		dst = append(a.appendEntry(appendComma(dst, i), asIDs), '}')
	})
	return append(dst, "]}"...)
}

// alternatives visits what top_logprobs of the chat shape holds. vLLM lists the token itself first, then the best ones in
// order, and cuts the list at n: a token that is not the argmax stands in front of it, and if it is not among the n best,
// the last of these is left out.
func (l *tokenLogprob) alternatives(n int, visit func(i int, a *altLogprob)) {
	if n < 1 {
		return
	}
	visit(0, &l.altLogprob)
	i := 1
	for k := range l.top {
		if i < n && l.top[k].id != l.id {
			visit(i, &l.top[k])
			i++
		}
	}
}

// appendEntry leaves the object open.
func (a *altLogprob) appendEntry(dst []byte, asIDs bool) []byte {
	text := a.text
	if asIDs {
		text = tokenIDText(a.id)
	}
	dst = append(dst, `{"token":`...)
	dst = appendQuoted(dst, text)
	dst = append(dst, `,"logprob":`...)
	dst = appendFloat(dst, a.lp)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(text[i]), 10)
	}
	return append(dst, ']')
}

func tokenIDText(id int32) string { return "token_id:" + strconv.Itoa(int(id)) }

// completionLogprobs gathers the logprobs object of /v1/completions.
type completionLogprobs struct {
	entries []*tokenLogprob // nil = a prompt's first token, of which nothing is known
	texts   []string
	offset  int // of the first entry in the text
	asIDs   bool
}

// append writes the object: text_offset, token_logprobs, tokens, top_logprobs, in vLLM's order.
func (c *completionLogprobs) append(dst []byte) []byte {
	dst = append(dst, `{"text_offset":[`...)
	at := c.offset
	for i := range c.entries {
		dst = appendComma(dst, i)
		dst = strconv.AppendInt(dst, int64(at), 10)
		at += utf8.RuneCountInString(c.texts[i])
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i, e := range c.entries {
		dst = appendComma(dst, i)
		if e == nil {
			dst = append(dst, "null"...)
			continue
		}
		dst = appendFloat(dst, e.lp)
	}
	dst = append(dst, `],"tokens":[`...)
	for i := range c.entries {
		dst = appendComma(dst, i)
		dst = appendQuoted(dst, c.texts[i])
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i, e := range c.entries {
		dst = appendComma(dst, i)
		dst = e.appendTop(dst, c.asIDs)
	}
	return append(dst, "]}"...)
}

// appendTop writes {text: logprob}: the token itself and its alternatives, equal texts collapsed.
func (l *tokenLogprob) appendTop(dst []byte, asIDs bool) []byte {
	if l == nil {
		return append(dst, "null"...)
	}
	seen := map[string]bool{}
	put := func(text string, id int32, lp float64) {
		if asIDs {
			text = tokenIDText(id)
		}
		if seen[text] {
			return
		}
		dst = appendComma(dst, len(seen))
		seen[text] = true
		dst = appendQuoted(dst, text)
		dst = append(dst, ':')
		dst = appendFloat(dst, lp)
	}
	dst = append(dst, '{')
	put(l.text, l.id, l.lp)
	for _, a := range l.top {
		put(a.text, a.id, a.lp)
	}
	return append(dst, '}')
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}
