package vllmsim

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// Finish reasons as they go over the wire.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishAbort  = "abort"
	finishTools  = "tool_calls"
)

// genSpec is what a request asks of one choice.
type genSpec struct {
	sampling
	maxTokens   int
	minTokens   int
	certain     int32 // with it each token is this one; 0: none
	ignoreEOS   bool
	stop        []string
	stopIDs     []int32
	includeStop bool
	keepSpecial bool
	logprobs    int // -1 = none, otherwise the number of alternatives
	script      []scripted
	others      []Cand // that may come instead of the first of script
	abortAfter  int
}

// scripted is one token of a forced answer (tool call, JSON): what a grammar-constrained sampler would have picked.
type scripted struct {
	id   int32
	p    float64 // its probability; the rest goes to the model's own candidates
	part part
}

// part says which piece of an answer a token belongs to.
type part uint8

const (
	partText part = iota
	partHidden
	partName // the end of a tool call's head: name is known from here
	partArgs
)

// event is one engine output of one choice.
type event struct {
	choice int
	id     int32
	part   part
	text   string
	lp     *tokenLogprob
	finish string // "" while it goes on
	stop   any    // stop_reason: nil, string or int32
	cached int    // prompt tokens found in the cache; set on the first event
}

// generator is the Source of one choice: model, sampler, detokeniser and stop rules in one.
type generator struct {
	spec   *genSpec
	model  *Model
	cur    cursor
	dist   Dist
	cands  [numCands]Cand
	n      int // tokens so far
	text   stopText
	detok  detok
	choice int
	last   event
}

func newGenerator(m *Model, prompt []int32, spec *genSpec, choice int) *generator {
	g := &generator{spec: spec, model: m, cur: m.cursorAt(prompt), choice: choice}
	g.dist.Top = g.cands[:0]
	g.detok = detok{t: m.tok, keepSpecial: spec.keepSpecial}
	g.text = newStopText(spec.stop, spec.includeStop)
	return g
}

// Next implements Source.
func (g *generator) Next() (int32, bool) {
	ev := event{choice: g.choice}
	how, bans := g.spec.sampling, g.bans()
	if sc, others, forced := g.spec.forced(g.n); forced {
		how.temperature = 0
		g.model.prose(&g.cur, &g.dist)
		g.dist.force(sc, others)
		ev.id, ev.part = sc.id, sc.part
	} else {
		if g.model.fill(&g.cur, &g.dist) {
			how.temperature = 0
		}
		ev.id = how.pick(&g.dist, g.cur.place(), bans)
	}
	if g.spec.certain != 0 {
		ev.id = g.spec.certain
	}
	g.n++
	g.cur.push(ev.id)
	eos := ev.id == tokEOT || ev.id == tokEndOfText
	stopped := g.n >= g.spec.minTokens && (eos && !g.spec.ignoreEOS || slices.Contains(g.spec.stopIDs, ev.id))
	delta := ""
	if !stopped || g.spec.keepSpecial && eos || g.spec.includeStop && !eos {
		delta = g.detok.push(ev.id)
	}
	if g.spec.logprobs >= 0 {
		ev.lp = newTokenLogprob(g.model.tok, &g.dist, ev.id, g.spec.logprobs)
		ev.lp.settle(delta, ev.id)
	}
	g.finish(&ev, stopped, eos, delta)
	g.last = ev
	return ev.id, ev.finish != ""
}

// certain returns the id with the strongest bias that logit_bias can have, 0 if there is none. Weaker ones change nothing.
func certain(bias map[string]float64) (id int32, err *apiError) {
	for key, b := range bias {
		n, wrong := strconv.ParseInt(key, 10, 32)
		if wrong != nil {
			return 0, invalid("logit_bias contains key(s) that cannot be converted to integer token IDs: ['"+key+"']", "logit_bias", "['"+key+"']")
		}
		if b >= 100 {
			id = int32(n)
		}
	}
	return id, nil
}

// forced is the n-th token, from 0 on, if it is not free; others may come instead of it.
func (g *genSpec) forced(n int) (sc scripted, others []Cand, ok bool) {
	if n >= len(g.script) {
		return sc, nil, false
	}
	if n == 0 {
		others = g.others
	}
	return g.script[n], others, true
}

// finish applies the stop rules in vLLM's order: stop tokens, length, then stop strings in the text.
func (g *generator) finish(ev *event, stopped, eos bool, delta string) {
	switch {
	case stopped:
		ev.finish = finishStop
		if !eos {
			ev.stop = ev.id
		}
	case g.n >= g.spec.maxTokens:
		ev.finish = finishLength
	case g.spec.abortAfter > 0 && g.n >= g.spec.abortAfter:
		ev.finish = finishAbort
	}
	if len(g.spec.stop) == 0 {
		ev.text = delta
		return
	}
	hit := g.text.push(delta, g.n > g.spec.minTokens)
	if hit != "" {
		ev.finish, ev.stop = finishStop, hit
	}
	ev.text = g.text.take(ev.finish != "")
}

// bans returns the ids that may not come yet, or nil.
func (g *generator) bans() []int32 {
	if g.n >= g.spec.minTokens {
		return nil
	}
	return append([]int32{tokEOT, tokEndOfText}, g.spec.stopIDs...)
}

// stopText is an answer's text with stop strings looked for and, while it streams, enough held back that no part of a
// stop string ever goes out.
type stopText struct {
	stop        []string
	include     bool
	hold        int // characters
	buf         []byte
	releasedLen int
}

func newStopText(stop []string, include bool) stopText {
	s := stopText{stop: stop, include: include}
	if include {
		return s
	}
	for _, w := range stop {
		s.hold = max(s.hold, utf8.RuneCountInString(w)-1)
	}
	return s
}

// push appends delta and returns the stop string that it completes, with the text cut there.
func (s *stopText) push(delta string, check bool) string {
	s.buf = append(s.buf, delta...)
	if !check || delta == "" {
		return ""
	}
	for _, w := range s.stop {
		// Only where the new characters take part in the match.
		from := max(0, len(s.buf)-len(delta)-len(w)+1)
		at := indexBytes(s.buf[from:], w)
		if at < 0 {
			continue
		}
		at += from
		if s.include {
			at += len(w)
		}
		s.buf = s.buf[:at]
		return w
	}
	return ""
}

// take returns the text that may go out now.
func (s *stopText) take(finished bool) string {
	end := len(s.buf)
	if !finished {
		for range s.hold {
			if end <= s.releasedLen {
				break
			}
			_, n := utf8.DecodeLastRune(s.buf[s.releasedLen:end])
			end -= n
		}
	}
	if end <= s.releasedLen {
		return ""
	}
	out := string(s.buf[s.releasedLen:end])
	s.releasedLen = end
	return out
}
