package tiers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/schema"
	"github.com/foregate/foregate/tiers/scoring"
	"github.com/foregate/foregate/tiers/world"
)

// Route maps a model name that clients ask for to its pools.
type Route struct {
	Model         string
	Draft         *pool.Pool // nil: every request goes to the target
	Target        *pool.Pool
	SameTokenizer bool               // draft and target share tokenizer and chat template, so ids can be handed over
	Config        func() plan.Config // live

	Prices func() economy.Prices // of a token at its pools, as far as known; nil is unknown
}

// Options wires a Cascade.
type Options struct {
	Routes   []Route
	Upstream engine.Upstream  // makes attempts at backends
	Queue    dispatch.Queue   // nil lets everybody in
	Breaker  dispatch.Breaker // nil permits everything
	World    world.World      // nil is world.System
	MaxBody  int64            // bytes of an answer; 0 is 16 MiB

	ContextWindow func(ctx context.Context, url, model string) (int, error) // asks a backend for its context length in tokens; nil knows none
	Capabilities  func(pool string) *probe.Capabilities                     // what a pool's engines can do; nil knows nothing
	Evidence      audit.Evidence                                            // what audits have shown; nil is nothing, ever
	ScoreMaps     func(route string, version int) *accept.ScoreMap          // calibrated scores; nil has none
	Replicas      func() int                                                // gateways that share the evidence; nil is one
	UnderPressure func(route, pool string, class int8) bool                 // whether a pool is about to turn a class of a route's requests away; nil is never
	Random        func(request string, p inflight.Purpose) float64          // draws from [0, 1); nil is math/rand

	Registerer prometheus.Registerer // nil registers nothing
}

// Cascade answers requests from the tiers of their routes. It is safe for
// concurrent use.
type Cascade struct {
	routes        map[string]*Route
	services      *inflight.Services
	metrics       *metrics
	windows       contextWindows
	capabilities  func(pool string) *probe.Capabilities
	evidence      audit.Evidence
	scoreMaps     func(route string, version int) *accept.ScoreMap
	underPressure func(route, pool string, class int8) bool
	audits        *audit.Auditor
	costs         *economy.Statistics
	scores        *scoring.Limiter
}

const defaultMaxBody = 16 << 20

// New wires a cascade. It needs an Upstream, and every route a model, a target and a Config.
func New(o Options) (*Cascade, error) {
	if o.Upstream == nil {
		return nil, errors.New("tiers: no upstream")
	}
	o.defaults()
	c := &Cascade{
		routes: make(map[string]*Route, len(o.Routes)), metrics: newMetrics(o.Registerer, o.World.Now), windows: contextWindows{read: o.ContextWindow},
		capabilities: o.Capabilities, evidence: o.Evidence, scoreMaps: o.ScoreMaps, underPressure: o.UnderPressure,
		costs: economy.NewStatistics(), scores: scoring.NewLimiter(),
	}
	for i := range o.Routes {
		rt := o.Routes[i]
		switch {
		case rt.Model == "" || rt.Target == nil || rt.Config == nil:
			return nil, fmt.Errorf("tiers: route %q needs a model, a target and a config", rt.Model)
		case c.routes[rt.Model] != nil:
			return nil, fmt.Errorf("tiers: route %q is there twice", rt.Model)
		}
		c.routes[rt.Model] = &rt
	}
	d, err := dispatch.New(dispatch.Options{
		World: o.World, Upstream: o.Upstream, Queue: o.Queue, Breaker: o.Breaker, Scores: c.scores, Metrics: c.metrics, Window: c.windows.of,
	})
	if err != nil {
		return nil, fmt.Errorf("tiers: %w", err)
	}
	c.services = &inflight.Services{
		World: o.World, Dispatch: d, Schemas: &schema.Schemas{}, Random: o.Random, MaxBody: o.MaxBody, ContextWindow: c.windows.of, OnCheck: c.metrics.countCheck,
	}
	c.audits, err = audit.New(audit.Options{
		World: o.World, Evidence: o.Evidence, Metrics: c.metrics, Prices: c.pricesOf, Replicas: o.Replicas,
	})
	return c, err
}

// defaults fills in what may be missing.
func (o *Options) defaults() {
	if o.World == nil {
		o.World = world.System{}
	}
	if o.Queue == nil {
		o.Queue = dispatch.NoQueue{}
	}
	if o.Breaker == nil {
		o.Breaker = dispatch.NoBreaker{}
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Capabilities == nil {
		o.Capabilities = func(string) *probe.Capabilities { return nil }
	}
	if o.Evidence == nil {
		o.Evidence = audit.NoEvidence{}
	}
	if o.ScoreMaps == nil {
		o.ScoreMaps = func(string, int) *accept.ScoreMap { return nil }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.UnderPressure == nil {
		o.UnderPressure = func(string, string, int8) bool { return false }
	}
	if o.Random == nil {
		o.Random = func(string, inflight.Purpose) float64 { return rand.Float64() }
	}
}

// Route returns the route of a model; the error matches [ErrUnknownModel].
func (c *Cascade) Route(model string) (*Route, error) {
	if rt, ok := c.routes[model]; ok {
		return rt, nil
	}
	return nil, ErrUnknownModel
}

// ErrUnknownModel is returned for a model that no route has.
var ErrUnknownModel = errors.New("unknown model")

// Plan is how a request to the route may be answered under a config, whatever that would
// cost.
func (c *Cascade) Plan(rt *Route, cfg plan.Config, r *openai.Request, demanded plan.Tier) plan.Plan {
	return plan.Make(cfg, c.facts(rt, r, demanded))
}

// facts are what a plan for a request is made from.
func (c *Cascade) facts(rt *Route, r *openai.Request, demanded plan.Tier) plan.Facts {
	f := plan.Facts{Request: r, Demanded: demanded, HasDraft: rt.Draft != nil, SameTokenizer: rt.SameTokenizer}
	if rt.Draft != nil {
		f.Draft, f.Target = c.capabilities(rt.Draft.Name()), c.capabilities(rt.Target.Name())
	}
	return f
}

// pricesOf are the prices of a token at a route's pools; zero where they are not known.
func (c *Cascade) pricesOf(route string) (p economy.Prices) {
	if rt := c.routes[route]; rt.Prices != nil {
		p = rt.Prices()
	}
	return p
}
