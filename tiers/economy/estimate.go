package economy

import "math"

const (
	// outputDefault is the length of an answer, in tokens, before any was seen: about
	// the mean of public conversation traces, as in tiers/pool.
	outputDefault = 200.0
	// Never is the largest break-even acceptance that is reported. All values above 1 mean the same; a finite number
	// keeps receipts and metrics simple.
	Never = 100.0
)

// PerToken is the price in USD of a token where a backend costs usdPerHour and makes
// perSecond tokens a second. It is 0, unknown,
// where either is not positive.
func PerToken(usdPerHour, perSecond float64) float64 {
	if !(usdPerHour > 0) || !(perSecond > 0) {
		return 0
	}
	return usdPerHour / 3600 / perSecond
}

// EstimateCost sets asking the target alone against drafting first, in USD of one request.
// P_d and P_t are the prompt, without what the draft pool or the target pool has cached of it, L the expected answer,
// m the draft tokens that are made until a draft is found wanting, A the share of drafts that are served, g the share
// of a rejected draft's tokens that goes into the answer.
//
//	T  target only   P_t·c_tp + L·c_td
//	C  confidence    P_d·c_dp + [A·L+(1−A)·m]·c_dd + (1−A)·[(P_t+g·m)·c_tp + (L−g·m)·c_td]
//	W  scored        P_d·c_dp + L·c_dd + (P_t+L)·c_tp + (1−A)·(L−g·L)·c_td
//
// These are the formulas of docs/science.md#cost-model, with salvage in C: a continuation
// reads what it keeps of the draft as a part of its prompt. After a score the prompt is in
// the target's cache, so a continuation does not pay for it again. If nothing is released
// before the end of an answer, m in C is L until it was learned when such drafts are rejected.
//
// A is the upper bound of what was learned, 1 where nothing was. Without prices both sums
// are 0, and so are the saving and the break-even.
func EstimateCost(p Prices, s Shape, e Expectation) Estimate {
	r := termsOf(s, e)
	out := Estimate{
		Prompt: float64(max(s.Prompt, 0)), Output: r.output, Holdback: r.holdback,
		Acceptance: r.acceptance, Samples: e.Samples,
	}
	if !p.Complete() {
		return out
	}
	out.TargetUSD = target(p, r)
	out.DraftUSD = draft(p, r, s.Scored)
	out.BreakEven = breakEven(p, r, s.Scored)
	return out
}

// BreakEven is the acceptance from which on drafts pay for requests of a shape with
// answers of so many tokens, where nothing is salvaged:
//
//	A* = (P_d·c_dp + m·c_dd) / (P_t·c_tp + L·c_td − (L−m)·c_dd)
//
// and where every draft is scored, its cost is on top of the fraction. Above 1 drafts
// never pay, however good they are; it is [Never] at most, and 0 without prices.
func BreakEven(p Prices, s Shape, outputTokens float64) float64 {
	if !p.Complete() {
		return 0
	}
	return breakEven(p, termsOf(s, Expectation{Output: outputTokens}), s.Scored)
}

// terms are the symbols of [EstimateCost] for one request.
type terms struct {
	draftPrompt, targetPrompt float64 // P_d, P_t
	output, holdback          float64 // L, m
	acceptance, salvaged      float64 // A, g
}

// termsOf limits the inputs to valid ranges: 1 ≤ L ≤ MaxOutput, 0 ≤ m ≤ L, A and g in 0..1.
func termsOf(s Shape, e Expectation) terms {
	t := terms{
		draftPrompt: float64(max(s.Prompt-s.Cached.Draft, 0)), targetPrompt: float64(max(s.Prompt-s.Cached.Target, 0)),
		output: e.Output, acceptance: 1, salvaged: share(e.Salvaged),
	}
	if !(t.output > 0) {
		t.output = outputDefault
	}
	if s.MaxOutput > 0 {
		t.output = min(t.output, float64(s.MaxOutput))
	}
	t.output = max(t.output, 1)
	if e.Samples > 0 {
		t.acceptance = share(e.UpperBound)
	}
	switch {
	case s.Scored:
		t.holdback = t.output // the target checks all of it
	case e.Holdback > 0:
		t.holdback = e.Holdback
	case s.Whole:
		t.holdback = t.output
	default:
		t.holdback = float64(s.Holdback)
	}
	t.holdback = max(min(t.holdback, t.output), 0)
	return t
}

func share(v float64) float64 { return max(0, min(v, 1)) }

// target returns row T.
func target(p Prices, t terms) float64 {
	return t.targetPrompt*p.TargetPrefill + t.output*p.TargetDecode
}

// draft returns rows C and W.
func draft(p Prices, t terms, scored bool) float64 {
	a, kept := t.acceptance, t.salvaged*t.holdback
	usd := t.draftPrompt*p.DraftPrefill + (a*t.output+(1-a)*t.holdback)*p.DraftDecode
	rest := (t.output - kept) * p.TargetDecode
	if scored {
		usd += (t.targetPrompt + t.holdback) * p.TargetPrefill
	} else {
		rest += (t.targetPrompt + kept) * p.TargetPrefill
	}
	return usd + (1-a)*rest
}

// breakEven returns where the cost with a draft, a straight line over A, equals the target's.
func breakEven(p Prices, t terms, scored bool) float64 {
	t.acceptance = 0
	none := target(p, t) - draft(p, t, scored)
	t.acceptance = 1
	all := target(p, t) - draft(p, t, scored)
	switch {
	case none >= 0 && all >= 0:
		return 0
	case all <= none:
		return Never // better drafts cost more: no break-even
	}
	return max(0, min(-none/(all-none), Never))
}

// Policy configures the guard.
type Policy struct {
	Enabled     bool    `setting:"economy.guard" default:"on" choice:"on,off" doc:"Whether the target answers directly if a draft is expected to cost more than it saves."`
	ExploreRate float64 `setting:"economy.explore_rate" default:"0.005" min:"0" max:"1" doc:"Share of the requests that 'economy.guard' sends to the target which are drafted nevertheless, so that the estimate stays current."`
}

// ReasonNoSaving is the reason of [Decide]: even at the upper bound a draft costs more than it saves.
const ReasonNoSaving = "no_saving"

// Decide says whether a request should be drafted: yes where the reason is "". dice is a
// number drawn evenly from 0..1, never 1; below pol.ExploreRate the request is drafted
// whatever the reason, so that the guard learns when things change, and the sums say so.
// Acceptance is reckoned at its upper 90 % bound: the guard acts when
// it is sure. Without prices there is no saving to judge by.
func Decide(pol Policy, p Prices, s Shape, e Expectation, random float64) (sums Estimate, reason string) {
	sums = EstimateCost(p, s, e)
	if !pol.Enabled || !p.Complete() || sums.SavingUSD() >= 0 {
		return sums, ""
	}
	if random < pol.ExploreRate {
		sums.Explored = true
		return sums, ""
	}
	return sums, ReasonNoSaving
}

// UpperBound is the upper 90 % bound (one-sided) of a share that was seen as served of n:
// Wilson's, which holds for small n and is 1 where n is 0.
func UpperBound(served, n float64) float64 {
	const z = 1.2815515655446004 // the normal distribution's 90 % quantile
	if !(n > 0) {
		return 1
	}
	a := share(served / n)
	bound := (a*n + z*z/2 + z*math.Sqrt(a*(1-a)*n+z*z/4)) / (n + z*z)
	return max(a, share(bound)) // rounding may leave it below a, where a is 1
}
