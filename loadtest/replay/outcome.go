package replay

import (
	"math"
)

// minSamples is how many drafts an expected delay must rest on before the guard goes by
// it (tiers/economy).
const minSamples = 20

// ways are all that may have become of a request under other settings; one where the
// receipt can tell.
func (c *Change) ways(r *Receipt) []branch {
	now, then := was(r), c.would(r)
	if now == then {
		return []branch{asItWas(r)}
	}
	if fateOf(r) == Skipped {
		return skippedWays(r, then)
	}
	skip := branch{fate: Skipped}
	if then.mode == modeOff {
		return []branch{skip}
	}
	var all []branch
	if now.guard != then.guard || now.maxTTFT != then.maxTTFT {
		switch s := r.Plan.Estimate; {
		case s == nil && then.guard:
			all = append(all, skip) // it may
		case s != nil && !s.Explored && guarded(then, s):
			return []branch{skip}
		}
	}
	return append(all, draftedWays(r, now, then)...)
}

// guarded reports whether the guard keeps a request from the draft.
func guarded(k knobs, s *Estimate) bool {
	dear := s.TargetUSD > 0 && s.Saving < 0
	late := k.maxTTFT > 0 && s.Samples >= minSamples && s.ExtraTTFT > k.maxTTFT
	return k.guard && (dear || late)
}

// skippedWays are the ways of a request that was not drafted.
func skippedWays(r *Receipt, then knobs) []branch {
	as := asItWas(r)
	if r.Plan.Judged || then.mode == modeOff { // no backend gave a draft, whatever was wanted
		return []branch{as}
	}
	drafted := func(fates ...branch) []branch {
		length := r.Tokens.Accepted + r.Tokens.Target
		for _, f := range []Fate{Accepted, Rejected, TakenOver} {
			for _, asked := range []bool{false, true} {
				b := branch{fate: f, targetChecked: asked, drafted: span{0, length}, kept: span{0, length}}
				if f == Accepted {
					b.drafted, b.kept = exactly(length), exactly(length)
				}
				fates = append(fates, b)
			}
		}
		return fates
	}
	switch r.Plan.Reason {
	case whyModeOff:
		return drafted(as) // the guard may keep it from the draft
	case whyNoSaving, whyTooLate:
		if s := r.Plan.Estimate; s == nil {
			return drafted(as)
		} else if !guarded(then, s) {
			return drafted()
		}
	}
	return []branch{as}
}

// draftedWays are the ways of a request that was drafted and is drafted again.
func draftedWays(r *Receipt, now, then knobs) []branch {
	c := courseOf(r)
	rescored := now.threshold != then.threshold || now.holdback != then.holdback
	switch {
	case now.mode != then.mode && r.Plan.Mode != modeConfidence:
		return c.confident(then)
	case !rescored, r.Plan.TargetCheck == askExact, c.n == 0:
		return []branch{c.as}
	}
	return c.judged(now, then, r.Plan.TargetCheck == askAlways)
}

// judged are the ways of a draft under a rule.
func (c *course) judged(now, then knobs, asks bool) []branch {
	w := rule{need: then.threshold, floor: then.threshold, asks: asks, always: c.r.Plan.TargetCheck == askAlways, stays: then.stays}
	if c.r.Plan.Whole {
		return c.ended(w)
	}
	from, to, ends := c.decisions(now, then)
	var all []branch
	if ends {
		all = c.ended(w)
	}
	hasty := c.give && c.n < headTokens // refused when it was decided on: no score is final before the eighth token
	if (c.failed() || hasty) && then.holdback > now.holdback {
		all = append(all, c.unknown(asks)...)
	}
	for at := from; at <= to && at > 0; at++ {
		all = append(all, c.decision(w, at)...)
	}
	return all
}

// maxChunk is how many tokens a piece of a stream may hold: decisions fall between pieces.
const maxChunk = 16

// failed reports whether the target did not stand by a draft that it was asked about when it
// was decided on, or, which is not told apart, at its end.
func (c *course) failed() bool {
	return c.as.targetChecked && c.as.fate == Rejected && c.r.Checks[0].Tokens >= c.n
}

// decisions are the tokens from and to which the draft may have been decided on, 0 for
// never; ends says that it may have ended before.
func (c *course) decisions(now, then knobs) (from, to int, ends bool) {
	at, next := c.r.Tokens.Committed, min(then.holdback+maxChunk-1, c.n)
	if at == 0 && c.as.targetChecked && c.r.Checks[0].Tokens < c.n {
		at = c.r.Checks[0].Tokens
	}
	switch {
	case then.holdback == now.holdback && c.failed():
		return c.n, c.n, true
	case then.holdback == now.holdback:
		return at, at, at == 0
	case at == 0 && then.holdback > c.n:
		return 0, 0, true
	case at == 0:
		return then.holdback, next, next == c.n
	case then.holdback < at:
		return then.holdback, min(at, next), false
	case now.holdback > at:
		return at, at, false // by the time that it was held back
	}
	return at, next, then.holdback+maxChunk > c.n
}

// confident are the ways of a draft that another mode judged, if its own score had. Whether
// it would have been released as it came is not known.
func (c *course) confident(then knobs) []branch {
	score := c.r.Verdict.Score
	switch {
	case c.r.Plan.TargetCheck == askExact, c.give && score >= then.threshold, c.n == 0, c.faulty() && score >= then.threshold:
		open := *c.r
		plan := *c.r.Plan
		plan.Whole = false
		open.Plan = &plan
		u := *c
		u.r = &open
		return u.unknown(true)
	case score >= then.threshold:
		return []branch{{fate: Accepted, drafted: exactly(c.n), kept: exactly(c.length)}}
	}
	lost := span{min(c.n, 1), c.n}
	return []branch{{fate: Rejected, drafted: lost, kept: span{0, c.n}}, {fate: TakenOver, drafted: lost, kept: span{0, c.n}, decided: 1}}
}

// Range is from the least to the most.
type Range struct {
	Min float64 `json:"least"`
	Max float64 `json:"most"`
}

func (r *Range) widen(v ...float64) {
	for _, x := range v {
		r.Min, r.Max = min(r.Min, x), max(r.Max, x)
	}
}

func nothing() Range { return Range{math.Inf(1), math.Inf(-1)} }

// usd is what a way costs: by the prices of tokens on both sides, where the receipt has them, so
// that an idle pool's hours, of which each request has a large share, are not compared with
// prices. Else it is what the request did cost, where it goes the same way, or what the target
// alone was expected to cost. ok is false where the receipt cannot tell.
func usd(r *Receipt, b branch) (cost Range, ok bool) {
	same := b.undecided() == asItWas(r).undecided()
	s := r.Plan.Estimate
	switch {
	case r.Prices.complete():
	case same:
		return Range{r.USD, r.USD}, true
	case s != nil && s.TargetUSD > 0 && b.fate == Skipped:
		return Range{s.TargetUSD, s.TargetUSD}, true
	default:
		return nothing(), false
	}
	cost = nothing()
	for _, drafted := range []int{b.drafted.lo, b.drafted.hi} {
		for _, kept := range []int{b.kept.lo, b.kept.hi} {
			cost.widen(model(r, b, drafted, min(kept, drafted)))
		}
	}
	return cost, true
}

// model is what a way costs by the prices of its tokens (docs/science.md, Cost model).
func model(r *Receipt, b branch, drafted, kept int) float64 {
	p, length := r.Prices, float64(r.Tokens.Accepted+r.Tokens.Target)
	prompt, d, k := float64(r.Tokens.Prompt), float64(drafted), float64(kept)
	cost := 0.0
	if b.fate != Skipped {
		cost += prompt*p.DraftPrefill + d*p.DraftDecode
	}
	if b.targetChecked {
		asked := d
		if b.decided > 0 {
			asked = min(d, float64(b.decided))
		}
		cost += (prompt + asked) * p.TargetPrefill
	}
	if b.fate == Accepted {
		return cost
	}
	if !b.targetChecked {
		cost += (prompt + k) * p.TargetPrefill
	}
	return cost + max(length-k, 0)*p.TargetDecode
}

// first is when the answer's first byte comes, in milliseconds. ok is false where the
// receipt does not tell enough.
func first(r *Receipt, b branch) (ms Range, ok bool) {
	as, t := asItWas(r), r.MS.First
	s := r.Plan.Estimate
	expected := s != nil && s.Samples > 0
	ms = nothing()
	switch {
	case b == as:
		ms.widen(t)
	case b.fate == Skipped && as.fate == Rejected:
		ms.widen(max(t-r.MS.Draft-r.MS.Verify, 0))
	case b.fate == Skipped && as.fate != Skipped && expected:
		ms.widen(max(t-s.ExtraTTFT, 0))
	case as.fate == Skipped && expected:
		ms.widen(t + s.ExtraTTFT)
	case b.fate == Rejected && as.fate == Rejected && b.targetChecked == as.targetChecked:
		ms.widen(max(t-r.MS.Draft, 0), t)
	case b.decided > 0 && as.decided > 0 && (as.targetChecked || !b.targetChecked):
		pace := r.MS.Draft / float64(max(r.Tokens.Drafted, 1))
		if as.targetChecked && !b.targetChecked {
			t = max(t-r.MS.Verify, 0)
		}
		ms.widen(t, max(t+float64(b.decided-as.decided)*pace, 0))
	default:
		return ms, false
	}
	return ms, true
}
