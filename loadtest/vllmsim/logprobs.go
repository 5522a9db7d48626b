package vllmsim

import (
	"bytes"
	"math"
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

// tokenBody is a token of a chat's logprobs.
type tokenBody struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// contentBody is choices[].logprobs of a chat.
type contentBody struct {
	Content []contentToken `json:"content"`
}

type contentToken struct {
	tokenBody
	Top []tokenBody `json:"top_logprobs"`
}

func (a *altLogprob) body() tokenBody {
	b := tokenBody{a.text, a.lp, make([]int, len(a.text))}
	for i := range len(a.text) {
		b.Bytes[i] = int(a.text[i])
	}
	return b
}

// contentOf are the logprobs of a chat, each with the alternatives that the engine lists; nil is none.
func contentOf(lps []*tokenLogprob, alternatives func(*tokenLogprob) []altLogprob) any {
	if len(lps) == 0 {
		return nil
	}
	out := contentBody{}
	for _, lp := range lps {
		t := contentToken{lp.body(), []tokenBody{}}
		for _, a := range alternatives(lp) {
			t.Top = append(t.Top, a.body())
		}
		out.Content = append(out.Content, t)
	}
	return out
}

// ranking lists the alternatives as they rank.
func (l *tokenLogprob) ranking() []altLogprob { return l.top }

// ownFirst lists the alternatives as vLLM does: the token itself first, then the best ones in order, cut at as many as were
// asked for. A token that is not the argmax stands in front of it, and if it is not among the best, the last of these is
// left out.
func (l *tokenLogprob) ownFirst() []altLogprob {
	if len(l.top) == 0 {
		return nil
	}
	out := []altLogprob{l.altLogprob}
	for _, a := range l.top {
		if len(out) < len(l.top) && a.id != l.id {
			out = append(out, a)
		}
	}
	return out
}

// textBody is the logprobs object of /v1/completions.
type textBody struct {
	Offset   []int                `json:"text_offset"`
	Logprobs []float64            `json:"token_logprobs"`
	Tokens   []string             `json:"tokens"`
	Top      []map[string]float64 `json:"top_logprobs"`
}

// newTextLogprobs are those of tokens of which the first stands at offset, in characters. The alternatives hold the token
// itself; equal texts collapse.
func newTextLogprobs(lps []*tokenLogprob, offset int) *textBody {
	out := &textBody{}
	for _, lp := range lps {
		top := map[string]float64{lp.text: lp.lp}
		for _, a := range lp.top {
			if _, both := top[a.text]; !both {
				top[a.text] = a.lp
			}
		}
		out.Offset, out.Tokens = append(out.Offset, offset), append(out.Tokens, lp.text)
		out.Logprobs, out.Top = append(out.Logprobs, lp.lp), append(out.Top, top)
		offset += utf8.RuneCountInString(lp.text)
	}
	return out
}

// scoring is a prompt whose tokens are scored, with what the request says of the shape of its answer.
type scoring struct {
	prompt []int32
	form   *form
	from   int // the first token that is looked at; the first of a prompt never is
	wire   wireIDs
}

// scorePrompt calls visit with the distribution of every prompt token that is looked at.
func (m *Model) scorePrompt(in scoring, visit func(i int, d *Dist)) {
	prompt := in.prompt
	cur := m.newCursor(prompt)
	last := len(prompt) - 1 // the header that the answer follows
	for last >= 0 && prompt[last] != tokEndHeader {
		last--
	}
	d := Dist{Top: make([]Cand, 0, numCands)}
	for i, id := range prompt {
		if i > 0 && i >= in.from {
			m.fill(&cur, &d)
			visit(i, &d)
		}
		if i == last {
			cur.form = in.form
		}
		cur.push(id)
	}
}

// ranked is what prompt_logprobs says of a token at a place.
type ranked struct {
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank"`
	Text    string  `json:"decoded_token"`
}

// promptLogprobs is the prompt_logprobs array of a prompt: null first, then per token itself and the n best, keyed by id,
// with true ranks.
func (m *Model) promptLogprobs(in scoring, n int) []map[int32]ranked {
	list := make([]map[int32]ranked, len(in.prompt))
	m.scorePrompt(in, func(i int, d *Dist) {
		list[i] = map[int32]ranked{}
		put := func(id int32, p float64, rank int) {
			list[i][in.wire.out(id)] = ranked{clampLogprob(math.Log(p)), rank, m.tok.shown(id)}
		}
		for r, c := range d.topN(n) {
			put(c.ID, c.P, r+1)
		}
		own := in.prompt[i]
		put(own, d.Prob(own), d.Rank(own))
	})
	return list
}
