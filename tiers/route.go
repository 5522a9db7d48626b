package tiers

import (
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/probe"
)

// Route maps a model name that clients ask for to its pools. The configuration is checked before: a route has a model, a
// target and a Config, its variants have targets of their own, and weights are above 0.
type Route struct {
	Model         string
	Draft         *pool.Pool // nil: every request goes to the target
	Target        *pool.Pool
	SameTokenizer bool               // draft and target share tokenizer and chat template, so ids can be handed over
	Config        func() plan.Config // live
	// Applications are what operators have set for single applications, by tenant/name, live; nil: nothing.
	Applications func() map[string]plan.Application

	Prices func() economy.Prices // per token of its pools; nil: unknown
	Serves Served                // what its pools serve, for keys of answers

	Fallbacks []Fallback // hosted last resorts, in the order in which they are tried

	Weight   float64   // of this target beside those of the variants; unused without variants
	Variants []Variant // other targets that some conversations get, see [Route.For]

	incumbent *Route // of a variant: the route that it is a variant of; set by [Cascade.SetRoutes]
}

// Served names what the pools of a route serve: model and revision. Draft is "" without a draft pool.
type Served struct{ Draft, Target string }

// revisions returns those of both, which stand behind the models; "" if neither pool has one.
func (s Served) revisions() string {
	_, draft, hasDraft := strings.Cut(s.Draft, " ")
	_, target, hasTarget := strings.Cut(s.Target, " ")
	if !hasDraft && !hasTarget {
		return ""
	}
	return draft + " " + target
}

// Variant is another target of a route that some of its conversations get.
type Variant struct {
	Weight float64 // above 0, beside [Route.Weight] of the incumbent
	Route  *Route  // of the same model, without variants of its own
}

// Conversation returns the number of a tenant's conversation. It is the same for every turn and on every replica, because
// it is a hash of the tenant, the system prompt and the first message.
func Conversation(tenant string, body *openai.Request) uint64 {
	system, first := body.Head()
	d := xxhash.New()
	for _, piece := range [][]byte{[]byte(tenant), system, first} {
		sum := xxhash.Sum64(piece) // of a fixed length, so that no two lists of pieces read alike
		for shift := 0; shift < 64; shift += 8 {
			_, _ = d.Write([]byte{byte(sum >> shift)})
		}
	}
	return d.Sum64()
}

// For returns the variant of a conversation: rt itself, the incumbent, or one of its variants, by weighted rendezvous
// hashing over the names of the target pools. A larger weight moves conversations only to that variant.
func (rt *Route) For(conversation uint64) *Route {
	if len(rt.Variants) == 0 {
		return rt
	}
	chosen, best := rt, rendezvous(conversation, rt.Target.Name(), rt.Weight)
	for _, v := range rt.Variants {
		if score := rendezvous(conversation, v.Route.Target.Name(), v.Weight); score > best {
			chosen, best = v.Route, score
		}
	}
	return chosen
}

// Assign returns the route that answers a conversation: that of [Route.For]; or rt, the incumbent, if that
// passes over the variant. diverted is then the variant that was passed over, otherwise nil.
func (rt *Route) Assign(conversation uint64) (chosen, diverted *Route) {
	chosen = rt.For(conversation)
	if chosen != rt && rt.PassesOver(chosen) {
		return rt, chosen
	}
	return chosen, nil
}

// PassesOver reports whether rt, the incumbent, answers the conversations of a variant of it now: the variant's target has no
// backend that is up, answers in time and has a closed breaker, and that of rt has one.
func (rt *Route) PassesOver(variant *Route) bool {
	return passesOver(variant.Target.OptionalReadiness(), rt.Target.Readiness())
}

func passesOver(variant, incumbent pool.Readiness) bool {
	return variant != pool.Ready && incumbent == pool.Ready
}

// rendezvous returns the score of a pool for a conversation, above 0. The largest score of some pools is of each with the
// probability of its weight's share: -w/ln u.
func rendezvous(conversation uint64, pool string, weight float64) float64 {
	u := (float64(prefix.Rendezvous(prefix.Key(conversation), xxhash.Sum64String(pool))>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}

// variant returns the name of the target pool of a variant, "" for the incumbent.
func (rt *Route) variant() string {
	if rt.incumbent == nil {
		return ""
	}
	return rt.Target.Name()
}

// ownVariants returns a copy of the variants, which know rt as their incumbent.
func (rt *Route) ownVariants() []Variant {
	var out []Variant
	for _, v := range rt.Variants {
		own := *v.Route
		own.incumbent = rt
		out = append(out, Variant{v.Weight, &own})
	}
	return out
}

// Modes returns which modes the engines of a route support, as far as they were probed.
func (c *Cascade) Modes(rt *Route) []plan.ModeState {
	if rt.Draft == nil {
		return nil
	}
	f := plan.Facts{Request: &openai.Request{}, HasDraft: true, SameTokenizer: rt.SameTokenizer, Draft: c.capabilities(rt.Draft.Name()), Target: c.capabilities(rt.Target.Name())}
	unscored := plan.ModeState{} // a draft without logprobs has no score
	if f.Draft != nil && f.Draft.Unscored {
		unscored = plan.ModeState{Missing: "draft_without_logprobs", Reason: "pool " + rt.Draft.Name() + ": " + f.Draft.MissingReason(probe.MissingLogprobs)}
	}
	audited := unscored
	if audited.Missing == "" {
		if _, audited.Missing = plan.AuditorFor(rt.Config(), f); audited.Missing != "" {
			audited.Reason = f.MissingReason(audited.Missing, rt.Target.Name())
		}
	}
	confident := unscored
	confident.Mode, audited.Mode = plan.ModeConfidence, plan.ModeRisk
	verified := plan.ModeState{Mode: plan.ModeVerify}
	if _, verified.Missing = plan.ScorerFor(f); verified.Missing != "" {
		verified.Reason = f.MissingReason(verified.Missing, rt.Target.Name())
	}
	return []plan.ModeState{confident, audited, verified}
}

// ServesUncheckedDrafts reports whether drafts of a route may be served while its target is unreachable, by the route's
// mode and its engines. Requests that demand the draft do not count.
func (c *Cascade) ServesUncheckedDrafts(rt *Route) bool {
	return plan.Make(rt.Config(), c.facts(rt, &openai.Request{SinglePlain: true}, plan.Auto)).MayServeUnchecked()
}

// MayScore asks whether a probe may ask a backend to score so many tokens now; leave is told what came of it.
func (c *Cascade) MayScore(pool, backend string, tokens int) (leave func(error), err error) {
	return c.scores.Try(pool, backend, tokens, c.World)
}

// ScoringState returns whether scoring is suspended at a pool, why, and until when.
func (c *Cascade) ScoringState(pool string) (open bool, why string, until time.Time) {
	return c.scores.State(pool)
}
