package tiers

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// The lots that a promise is kept for.
const (
	lotConfidence = string(accept.LotConfidence)
	lotHead       = string(accept.LotHead)
)

// wholeRoute is the bucket of all requests to a route, for those that inherit.
const wholeRoute = "all"

// Kind is what kind of request a promise is kept for: the keys of its evidence.
type Kind struct {
	Own   risk.Key // drafts accepted on their own score
	Head  risk.Key // drafts accepted because the target stood by their first tokens
	Route risk.Key // all kinds of the route together, on their own score
}

// KindOf tells a request's: its length, the models behind its route, and the rules by which a
// score and a label are made. Requests of another kind are never evidence for it.
func KindOf(cfg Config, f Facts) Kind {
	rules := rulesOf(cfg, f)
	own := lengthOf(f.Request.PromptTokens) + "." + rules
	if f.Apart != "" {
		own += "." + f.Apart
	}
	route := f.Request.Model
	return Kind{
		Own:   risk.Key{Route: route, Bucket: own, Lot: lotConfidence},
		Head:  risk.Key{Route: route, Bucket: own, Lot: lotHead},
		Route: risk.Key{Route: route, Bucket: wholeRoute + "." + rules, Lot: lotConfidence},
	}
}

// lengthOf is the class of a prompt's length in tokens (acceptance.md §3.5).
func lengthOf(prompt int) string {
	switch {
	case prompt <= 1024:
		return "to_1k"
	case prompt <= 4096:
		return "to_4k"
	}
	return "above_4k"
}

// rulesOf is a fingerprint of what must not change while evidence counts: the models with their
// tokenizers and templates, what a score is made of, and what makes a draft good.
func rulesOf(cfg Config, f Facts) string {
	h := fnv.New32a()
	for _, c := range [...]*probe.Card{f.Draft, f.Target} {
		if c != nil {
			_, _ = fmt.Fprintf(h, "%q %q %q\n", c.Model, c.Tokenizer, c.Template) // a hash takes everything
		}
	}
	a := &cfg.Accept
	auditor, _ := auditorFor(cfg, f)
	_, _ = fmt.Fprintln(h, a.MeanOffset, a.WindowOffset, a.EntropyOffset, cfg.Risk.Map, cfg.Risk.Label, auditor, cfg.Strictness,
		cfg.Risk.Prefix, cfg.Tie, cfg.JudgeOdds, cfg.Refusals, cfg.HoldbackTokens)
	return fmt.Sprintf("%08x", h.Sum32())
}

// At is the kind while the operating index of its own score is op. Heads are doubtful below that
// threshold, so those of another index are another population.
func (k Kind) At(op int) Kind {
	k.Head.Bucket += fmt.Sprintf(".op%d", op)
	return k
}

// Views are what is known of a kind of request when it comes.
type Views struct {
	Own, Head, Route          risk.View
	PerMinute, RoutePerMinute float64 // requests of the kind, and of the route, at all replicas
}

// Expected is what a kind's drafts are expected to bring: while a threshold is certified, at least
// the share that it accepts by the grid, and before that whatever the best would.
func (v Views) Expected(e economy.Expectation) economy.Expectation {
	share := 1.0
	if op := max(v.Own.Op, v.Route.Op); op > 0 {
		share = risk.Share(op)
		if e.Samples > 0 {
			share = max(share, e.Upper)
		}
	}
	e.Samples, e.Upper = max(e.Samples, 1), share
	return e
}

// Trial is how one request of mode risk or shadow is judged: the stamps under which its draft is
// accepted or audited.
type Trial struct {
	Own, Head, Route risk.Decision // a key that is empty is of no interest
	Inherited        bool          // it goes by the route's threshold, having none of its own
	Shadow           bool          // the target answers; a draft is made in the background
}

// Audited reports whether the draft is, for one of its keys.
func (t *Trial) Audited() bool { return t.Own.Audited || t.Route.Audited || t.Head.Audited }

// Stamps are the keys that the draft is audited for.
func (t *Trial) Stamps() []risk.Decision {
	var out []risk.Decision
	for _, d := range [...]risk.Decision{t.Own, t.Route, t.Head} {
		if d.Audited {
			out = append(out, d)
		}
	}
	return out
}

// Policy is the stamp that the request goes by, as headers show it.
func (t *Trial) Policy() string {
	if t.Inherited {
		return t.Route.Policy() + ".inherited"
	}
	return t.Own.Policy()
}

// Why a request of an audited mode is answered by the target.
const (
	reasonUncertified = "uncertified" // no threshold is certified for its kind
	reasonInfeasible  = "infeasible"  // none can be, as audits say
	reasonShadow      = "shadow"      // the mode says so
)

// Try decides how a request that was planned and weighed is judged in the modes risk and shadow:
// by which threshold, whether its draft is audited, and whether the client sees any of it. dice is
// a number drawn evenly from 0 … 1. It returns the plan, and the configuration by which the draft
// is judged; the trial is nil where the draft is none of these modes'.
//
// What the guard keeps from the draft because too few are accepted is still drafted in the shadow,
// as while nothing is certified: else a threshold that could be certified never would be.
func (p Plan) Try(cfg Config, k Kind, v Views, dice float64) (Plan, Config, *Trial) {
	shut := p.Reason == economy.NoSaving || p.Reason == economy.TTFT
	if !cfg.Mode.Audited() || !p.Judged && !shut {
		return p, cfg, nil
	}
	own := v.Own
	if shut {
		own.Op = 0 // nothing is served: audits come as they do while nothing is certified
	}
	t := &Trial{Own: v.Own.Stamp(k.Own, cfg.Risk.Rates.Of(own, v.PerMinute), dice)}
	serves, by := v.Own.Serves(), t.Own
	if cfg.Risk.Inherit {
		t.Route = v.Route.Stamp(k.Route, cfg.Risk.Rates.Of(v.Route, v.RoutePerMinute), dice)
		if !serves && v.Route.Serves() {
			serves, by, t.Inherited = true, t.Route, true
		}
	}
	cfg.Accept.Threshold, cfg.Accept.Band = accept.Nats(by.Threshold), 0
	if cfg.Mode == ModeRisk && serves && !shut && !cfg.Takeover {
		p.Whole = true // what cannot be taken over is not begun before all of it was judged
	}
	if p.Ask == accept.AskDoubt {
		p, cfg.Accept.Band = p.heads(cfg, k, v, t)
	}
	if cfg.Mode == ModeRisk && serves && !shut {
		return p, cfg, t
	}
	p.Tier, p.Judged = Target, false
	switch {
	case cfg.Mode == ModeShadow:
		p.Reason = reasonShadow
	case shut: // the guard's word stands
	case v.Own.Infeasible:
		p.Reason = reasonInfeasible
	default:
		p.Reason = reasonUncertified
	}
	t.Shadow = t.Audited() && p.Sums.BreakEven <= 1
	return p, cfg, t
}

// heads settles what becomes of doubtful drafts. Where they are released as they come, what the
// target stands by is a lot of its own, with evidence and a threshold of its own; what it is asked
// about as a whole is verified, and no part of the promise.
func (p Plan) heads(cfg Config, k Kind, v Views, t *Trial) (Plan, accept.Nats) {
	band := max(0, cfg.Accept.Threshold-accept.Nats(v.Own.Band))
	if p.Whole {
		return p, band
	}
	if !v.Own.Serves() {
		p.Ask = accept.AskNever // which heads are doubtful is not known yet
		return p, 0
	}
	t.Head = v.Head.Stamp(k.Head, 0, 1)
	t.Head.Audited = t.Own.Audited // one throw of the dice for both
	if !v.Head.Serves() {
		p.Ask = accept.AskNever
	}
	return p, band
}

// Floor is the least score of a draft that is of interest to an audit.
func (t *Trial) Floor(band float64) float64 {
	floor := math.Inf(1)
	for _, d := range t.Stamps() {
		if d.Key.Lot == lotHead {
			floor = min(floor, band)
			continue
		}
		floor = min(floor, d.Floor)
	}
	return floor
}
