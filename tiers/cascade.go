// Package tiers is the cascade and the pipeline before it. The cascade plans whether a request gets a draft, judges the draft
// while it streams, and escalates to the target if the draft is rejected; the target continues the accepted part.
//
// Start at [Pipeline.Answer] (lookup.go): kept answers, identical requests, limits. answer.go decides by the pure
// functions of tiers/plan, steps.go takes the steps of the decision, and settle.go updates statistics and evidence:
//
//   - relay.go passes the answer of one pool on.
//   - drafted.go streams a draft while it is judged, or holds it until its end.
//   - tools.go judges a draft that comes in one piece.
//   - continuation.go continues a partial answer: after a rejected draft, or a failed backend.
//   - auditdraft.go reads along with drafts that are audited.
//
// [Request] is filled in place from its arrival to its end; its [Receipt] outlives it, and is all that headers, log, spans,
// console and usage show. Requests that are passed through unread start at [Pipeline.Forward].
//
// Guarantees: bytes that were sent to the client are never retracted, and the connection of a rejected draft is closed
// at once. A call that fails before its first byte is retried on another backend within the retry budget. If an answer
// fails later, another backend continues it, three times at most, unless speculation.midstream_failover is off or the
// request does not allow it; then the answer ends with an error and never looks complete. A panic fails one request
// only, and releases all that the request held.
package tiers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/world"
)

// Options configure a [Cascade].
type Options struct {
	Routes   []Route         // at the start; [Cascade.SetRoutes] replaces them
	Upstream engine.Upstream // makes attempts at backends
	Queue    dispatch.Queue
	Breaker  dispatch.Breaker
	World    world.World
	MaxBody  int64 // bytes of an answer

	Capabilities func(pool string) *probe.Capabilities   // what the engines of a pool support; nil: unknown
	Evidence     audit.Evidence                          // outcomes of audits; nil: no route is audited
	AuditsAll    func(route string) bool                 // whether audits of a route are of drafts with any score, for a candidate score
	Replicas     func() int                              // replicas that share the evidence; nil: one
	Random       func(request string, p Purpose) float64 // random numbers from [0, 1)

	Registerer prometheus.Registerer // nil: no metrics
}

// Cascade answers requests with the draft and target pools of their routes. It is safe for concurrent use.
type Cascade struct {
	Services                                       // of its requests
	routes       atomic.Pointer[map[string]*Route] // by model; never changed, only replaced
	capabilities func(pool string) *probe.Capabilities
	auditsAll    func(route string) bool
	costs        economy.Statistics
	scarce       scarcity
	scores       *dispatch.ScoreLimiter
}

// New returns a Cascade.
func New(o Options) *Cascade {
	c := &Cascade{capabilities: o.Capabilities, auditsAll: o.AuditsAll, scores: dispatch.NewScoreLimiter()}
	c.Services = Services{
		World: o.World, Random: o.Random, MaxBody: o.MaxBody, ContextWindow: c.contextWindow, metrics: newMetrics(o.Registerer, o.World.Now),
		bookAudit: func(*Metadata, string, ledger.Nanos) {}, // until there is a pipeline
		Dispatch: dispatch.New(dispatch.Options{
			World: o.World, Upstream: o.Upstream, Queue: o.Queue, Breaker: o.Breaker, Scores: c.scores, Window: c.contextWindow, Registerer: o.Registerer,
		}),
	}
	c.audits = audit.New(audit.Options{
		World: o.World, Evidence: o.Evidence, Replicas: o.Replicas, OnPanic: func() { c.metrics.countDroppedAudit("", "panic") },
	})
	c.SetRoutes(o.Routes)
	return c
}

// SetRoutes replaces the routes, each of another model, for requests that come later. A request in flight keeps its route
// with its pools. The context length of a new target pool is read within 15 s.
func (c *Cascade) SetRoutes(routes []Route) {
	next := make(map[string]*Route, len(routes))
	for _, rt := range routes {
		rt.Variants = rt.ownVariants()
		next[rt.Model] = &rt
	}
	c.routes.Store(&next)
}

// Route returns the route of a model; the error matches [ErrUnknownModel].
func (c *Cascade) Route(model string) (*Route, error) {
	if rt, ok := (*c.routes.Load())[model]; ok {
		return rt, nil
	}
	return nil, ErrUnknownModel
}

// Thinks reports whether a target of a model's route thinks before it answers, as far as it is known. One of an unknown model
// does not.
func (c *Cascade) Thinks(model string) bool {
	rt, err := c.Route(model)
	if err != nil {
		return false
	}
	thinks := func(rt *Route) bool {
		found := c.capabilities(rt.Target.Name())
		return found != nil && found.Thinks
	}
	return thinks(rt) || slices.ContainsFunc(rt.Variants, func(v Variant) bool { return thinks(v.Route) })
}

// ErrUnknownModel is returned for a model without a route.
var ErrUnknownModel = errors.New("unknown model")

// facts returns the inputs of a plan for a request.
func (c *Cascade) facts(rt *Route, r *openai.Request, demanded plan.Tier) plan.Facts {
	f := plan.Facts{Request: r, Variant: rt.variant(), Revisions: rt.Serves.revisions(), Demanded: demanded, HasDraft: rt.Draft != nil, SameTokenizer: rt.SameTokenizer}
	if rt.Draft != nil {
		f.Draft, f.Target = c.capabilities(rt.Draft.Name()), c.capabilities(rt.Target.Name())
		if f.Target == nil {
			f.TargetEngine = rt.Target.Engine()
		}
	}
	return f
}

// contextWindow returns the context length of a pool in tokens, 0 while the probe has not found it.
func (c *Cascade) contextWindow(pool string) int {
	if found := c.capabilities(pool); found != nil {
		return found.Window
	}
	return 0
}

// Run runs audits until ctx ends.
func (c *Cascade) Run(ctx context.Context) error {
	c.audits.Tasks.Begin(ctx)
	defer c.audits.Tasks.Wait()
	for c.World.Sleep(ctx, time.Minute) == nil { // they have goroutines of their own
	}
	return nil
}
