package tiers

import (
	"fmt"
	"math"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
)

// Route maps a model name that clients ask for to its pools.
type Route struct {
	Model         string
	Draft         *pool.Pool // nil: every request goes to the target
	Target        *pool.Pool
	SameTokenizer bool               // draft and target share tokenizer and chat template, so ids can be handed over
	Config        func() plan.Config // live

	Prices func() economy.Prices // per token of its pools; nil: unknown
	Serves Served                // what its pools serve, for keys of answers

	Fallbacks []Fallback // hosted last resorts, in the order in which they are tried

	Weight   float64   // of this target beside those of the variants; unused without variants
	Variants []Variant // other targets that some conversations get, see [Route.For]
	Mirror   *Mirror   // a target that answers some requests in the background, for comparison; nil: none

	incumbent *Route      // of a variant: the route that it is a variant of; set by [Cascade.SetRoutes], as is compared
	compared  *comparison // how its target is compared with others; nil: it is not
}

// Mirror is a target pool that is compared with a route's target, and whose answers no client gets.
type Mirror struct {
	Pool   *pool.Pool
	Serves string                // model and revision, as in [Served]
	Share  float64               // of the requests that the route's own target answers, above 0 … 1; see [trial.Mirror]
	Prices func() economy.Prices // its pool as the target, and the route's draft; nil: unknown
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

// ownVariants returns a copy of the variants that the route alone has.
func (rt *Route) ownVariants() []Variant {
	var out []Variant
	for _, v := range rt.Variants {
		own := *v.Route
		out = append(out, Variant{v.Weight, &own})
	}
	return out
}

// targets calls each with the route and its variants.
func (rt *Route) targets(each func(*Route)) {
	each(rt)
	for _, v := range rt.Variants {
		each(v.Route)
	}
}

// opinionShare is the largest share of a route's requests whose answers of one target the incumbent is asked about.
const opinionShare = 0.05

// comparison is how the targets of a route are compared. [Cascade.SetRoutes] makes it; it is never changed.
type comparison struct {
	incumbent *Route         // that holds the target in force
	side      compare.Side   // of the route's own target in the pairs
	pairs     []compare.Pair // with the targets of other variants
	opinions  float64        // share of the requests whose answer the incumbent is asked about
	mirror    compare.Pair   // with the mirror's target; zero without one
}

// comparisonsOf sets how the targets of a route and of its variants are compared. The variants are of the route alone.
func comparisonsOf(rt *Route) {
	own := &comparison{incumbent: rt, side: compare.Incumbent}
	if m := rt.Mirror; m != nil {
		own.mirror = compare.Pair{
			Route: rt.Model, Kind: compare.Mirror, Incumbent: targetName(rt), Candidate: poolName(m.Pool.Name(), m.Serves), Shares: [2]float64{1, m.Share},
		}
	}
	all := rt.Weight
	for _, v := range rt.Variants {
		all += v.Weight
	}
	var most float64 // largest share of all requests that any candidate is asked about
	for _, v := range rt.Variants {
		share := v.Weight / all
		asked := min(share, opinionShare)
		most = max(most, asked)
		pair := compare.Pair{
			Route: rt.Model, Kind: compare.Canary, Incumbent: targetName(rt), Candidate: targetName(v.Route), Shares: [2]float64{rt.Weight / all, share},
		}
		own.pairs = append(own.pairs, pair)
		v.Route.incumbent = rt
		v.Route.compared = &comparison{incumbent: rt, side: compare.Candidate, pairs: []compare.Pair{pair}, opinions: asked / share}
	}
	if most > 0 {
		own.opinions = min(1, most*all/rt.Weight)
	}
	if len(own.pairs) > 0 || rt.Mirror != nil {
		rt.compared = own
	}
}

// targetName names the target of a route with what it serves.
func targetName(rt *Route) string { return poolName(rt.Target.Name(), rt.Serves.Target) }

func poolName(pool, serves string) string {
	if serves == "" {
		return pool
	}
	return pool + " (" + serves + ")"
}

// checkVariants returns what is wrong with the variants of a route.
func (rt *Route) checkVariants() error {
	if len(rt.Variants) > 0 && !(rt.Weight > 0) {
		return fmt.Errorf("tiers: route %q has variants and no weight of its own", rt.Model)
	}
	if m := rt.Mirror; m != nil && (m.Pool == nil || !(m.Share > 0 && m.Share <= 1)) {
		return fmt.Errorf("tiers: route %q: the mirror needs a pool and a share above 0, up to 1", rt.Model)
	}
	seen := map[string]bool{rt.Target.Name(): true}
	for i, v := range rt.Variants {
		switch {
		case !(v.Weight > 0) || math.IsInf(v.Weight, 0):
			return fmt.Errorf("tiers: route %q: variant %d needs a weight above 0", rt.Model, i)
		case v.Route == nil || v.Route.Target == nil || v.Route.Config == nil || v.Route.Model != rt.Model || len(v.Route.Variants) > 0 || v.Route.Mirror != nil:
			return fmt.Errorf("tiers: route %q: variant %d needs the same model, a target, a config, and neither variants nor a mirror", rt.Model, i)
		case seen[v.Route.Target.Name()]:
			return fmt.Errorf("tiers: route %q: variant %d has the target of another", rt.Model, i)
		}
		seen[v.Route.Target.Name()] = true
	}
	return nil
}
