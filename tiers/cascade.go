// Package tiers is the cascade and the pipeline before it. The cascade plans whether a request gets a draft, judges the draft
// while it streams, and escalates to the target if the draft is rejected; the target continues the accepted part.
//
// Start at [Pipeline.Answer] (pipeline.go): kept answers, identical requests, limits. This file decides by the pure functions of
// tiers/plan and updates statistics and evidence; steps.go takes the steps of the decision:
//
//   - relay.go passes the answer of one pool on.
//   - drafted.go streams a draft while it is judged, or holds it until its end.
//   - continuation.go continues a partial answer: after a rejected draft, or a failed backend.
//   - verify.go asks the target about a draft; audit.go reads along with drafts that are audited.
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
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/application"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
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

// arrive takes a request up: it reads the settings of its route and what its engines can do, once, and says what they
// allow. Nothing is decided yet, and the response cache may have the answer. salt is its [Request.Salt].
func (c *Cascade) arrive(a Arrival, salt string) *Request {
	rt := a.Route
	r := &Request{Arrival: a, Config: rt.Config(), Prices: rt.Prices, Services: &c.Services, Salt: salt, RAG: ragDigest(a.Caller.RAGHash, a.Body)}
	r.applySettings()
	r.Config = r.Config.Stricter(a.Demand)
	if a.Caller.Priority == identity.Low {
		r.Config = r.Config.ForLow()
	}
	r.Facts = c.facts(rt, a.Body, a.Demand.Tier)
	if a.Caller.PerTenantEvidence {
		r.Facts.EvidenceTenant = a.Caller.Tenant
	}
	r.Plan = plan.Make(r.Config, r.Facts)
	system, first := a.Body.Head()
	r.Needs = plan.DemandOf(a.Body, prefix.Head{Tenant: a.Caller.Tenant, RAG: r.RAG, System: system, First: first})
	r.Target = Pool{Pool: rt.Target, Capabilities: r.Facts.Target, Tier: plan.Target}
	if rt.Draft != nil {
		r.Draft = Pool{Pool: rt.Draft, Capabilities: r.Facts.Draft, Tier: plan.Draft}
	}
	return r
}

// applySettings puts into force what operators have set for the request's application.
func (r *Request) applySettings() {
	rt := r.Arrival.Route
	if rt.Draft == nil || rt.Applications == nil {
		return
	}
	own := rt.Applications()
	if len(own) == 0 {
		return
	}
	r.findApplication()
	a := own[r.Application]
	if r.Config = r.Config.Of(a); a.Name != "" {
		r.ApplicationName = r.Caller.Tenant + "/" + a.Name
	}
}

// findApplication finds which application the request is of.
func (r *Request) findApplication() {
	if r.Application == "" {
		r.Application = application.Of(r.Body, r.Caller.Tenant, r.Caller.Application, r.Salt)
		r.ApplicationName = r.Application
	}
}

// answer decides how a request is answered, answers it, and learns from the outcome. The request has a receipt afterwards,
// also with an error. After an error before the first byte nothing was written. After the first byte the error is a
// *[BrokenError] or the sink's own. When the client disconnects, ctx ends and all upstream calls are cancelled.
func (c *Cascade) answer(ctx context.Context, r *Request, to Delivery) error {
	r.Receipt = NewReceipt(r.Body.Model, c.World.Now())
	c.decide(r)
	err := r.answer(ctx, to, r.auditor(to.Confirmation))
	c.settle(r, err)
	if err == nil && to.Confirmation != nil {
		r.keep(to.Confirmation)
	}
	return err
}

// decide reads what a decision depends on, and makes it.
func (c *Cascade) decide(r *Request) {
	in := plan.Inputs{Plan: r.Plan, Config: &r.Config, Request: r.Body, Rejected: r.Rejected}
	if r.Plan.Judged && !r.Rejected {
		in.Scarce = c.scarce.look(r)
		c.read(r, &in)
	}
	r.Decision = plan.Decide(&in)
	if in.Views != nil && !r.Decision.IsKeptFromDraft() {
		c.audits.Classes.CountInMix(in.Key, r.mixKey())
	}
	t := r.Decision.Audit
	if t == nil {
		return
	}
	if t.Own.Audited {
		c.audits.Classes.AddAudit(in.Key, r.Caller.Tenant, c.World.Now())
	}
	if r.Views.Own.New && r.Views.IsFirstTime(&r.Config.Risk) {
		c.audits.Evidence.Drafted(in.Key, 0, 0) // start the warm-up now, not at the end of the first answer
	}
}

// mixKey is what the request counts as in the mix of its traffic class.
func (r *Request) mixKey() audit.MixKey {
	return audit.MixKey{Application: r.Application, Shadow: r.Config.Mode == plan.ModeShadow}
}

// read reads prices, statistics, evidence and load for a draft that would be judged.
func (c *Cascade) read(r *Request, in *plan.Inputs) {
	in.Prices, in.Expected = r.TokenPrices(), c.costs.Expect(trafficClassOf(r, &r.Plan))
	if in.Prices.Complete() { // else nothing is weighed
		in.Cached = economy.Cached{Draft: r.Draft.Cached(&r.Needs), Target: r.Target.Cached(&r.Needs)}
	}
	in.Explore = c.Random(r.ID, DrawExplore)
	if !r.Config.Mode.Audited() {
		return
	}
	in.All = c.auditsAll(r.Body.Model) // before the draft exists, and by earlier audits only
	in.Key = plan.EvidenceKeyOf(r.Config, r.Facts)
	if r.Facts.EvidenceTenant == "" && c.audits.Classes.IsApart(in.Key, r.Caller.Tenant, c.World.Now()) {
		r.Facts.EvidenceTenant = r.Caller.Tenant
		in.Key = plan.EvidenceKeyOf(r.Config, r.Facts)
	}
	r.findApplication()
	in.Application = r.Application
	r.Views = c.audits.Views(in.Key, r.mixKey()).UnderLoad(&r.Config.Risk, r.Target.Load())
	in.Views, in.Draw = &r.Views, 1
	if c.audits.MayAudit(r.Body.Model, &r.Config.Risk, r.Views.SpareCapacity) && c.audits.Classes.MayAudit(in.Key, r.Caller.Tenant, c.World.Now()) {
		in.Draw = c.Random(r.ID, DrawAudit)
	}
}

// auditor returns the auditor of the request's draft, or nil if the draft is not audited. It starts shadow drafts.
func (r *Request) auditor(confirmation *confirmation) *auditor {
	t, by := r.Decision.Audit, &auditor{Request: r}
	switch {
	case t == nil || !t.Own.Audited && !t.Shadow:
		return nil
	case t.Shadow:
		by.Shadow()
		return nil
	case confirmation != nil:
		by.onLabel = confirmation.confirm
	}
	return by
}

// keep decides whether an answer may be kept for others at once. If the target must accept its draft first, it says so,
// and starts the check unless an audit makes it. Without capacity there is no check, and a doubtful draft is not kept.
func (r *Request) keep(confirmation *confirmation) {
	served := plan.Served{Verdict: r.Verdict, Whole: r.Served != nil && r.Tier == plan.Draft, Accepted: r.AcceptedTokens}
	keeping := r.Config.KeepingOf(served, &r.Decision, r.Views.Own)
	if keeping == plan.KeepNow {
		return
	}
	confirmation.awaited = true
	if keeping == plan.KeepIfAudited {
		return
	}
	by := &auditor{Request: r, onLabel: confirmation.confirm}
	if keeping == plan.KeepUnlessRejected {
		by.onSkip = func() { confirmation.confirm(true) }
	}
	by.Check(r.Served, plan.IsSpare(r.Target.Load()))
}

// trafficClassOf returns the traffic class whose cost statistics apply to a judged request.
func trafficClassOf(r *Request, p *plan.Plan) economy.TrafficClass {
	return economy.TrafficClass{
		Route: r.Body.Model, Variant: r.Facts.Variant, Mode: string(p.Mode), Prompt: economy.LengthOf(r.Body.PromptTokens), Whole: p.Whole,
	}
}

// settle counts an outcome, and adds it to the budget of audits, the warm-up and the cost statistics. Failed requests, and
// those that never had a draft, are not part of the statistics.
func (c *Cascade) settle(r *Request, err error) {
	c.metrics.countOutcome(r.Receipt, r.Config.Mode)
	c.metrics.applications.count(r)
	if err == nil {
		r.compareWithTarget()
	}
	c.fundAudits(r)
	c.recordWarmup(r, err)
	switch r.Verdict.Reason {
	case accept.ReasonLost, accept.ReasonNoVerdict:
		return
	}
	if err != nil || !r.WasJudged() && r.Reason() != economy.ReasonNoSaving {
		return
	}
	c.costs.Learn(trafficClassOf(r, &r.Decision.Plan), economy.Outcome{
		Drafted: r.WasJudged(), Served: r.Tier == plan.Draft && r.Verdict.Accept,
		Prompt: r.PromptTokens, Output: r.AcceptedTokens + r.TargetTokens,
		Holdback: r.DraftedTokens, Salvaged: r.AcceptedTokens,
	})
}

// recordWarmup counts a request during the warm-up of its traffic class. The first one starts the warm-up, whether it
// had a draft or not.
func (c *Cascade) recordWarmup(r *Request, err error) {
	t := r.Decision.Audit
	if t == nil || !r.Views.IsFirstTime(&r.Config.Risk) {
		return
	}
	made, served := 0, 0
	if r.WasJudged() || t.Shadow {
		made = 1
	}
	if err == nil && r.ServedByWarmup() {
		served = 1
	}
	c.audits.Evidence.Drafted(t.Own.Key, made, served)
}

// compareWithTarget records what a drafted answer has saved: what the target alone would have cost, at the same prices, less
// what it cost. The target would have had as much of the prompt in its cache as the backends had that answered.
func (r *Request) compareWithTarget() {
	if !r.WasJudged() {
		return
	}
	price := r.Target.TokenPrice()
	r.Unpriced = r.Unpriced || !price.Known()
	if !r.Unpriced {
		alone := economy.Work{Prompt: r.PromptTokens, Cached: r.CachedTokens, Answer: r.AcceptedTokens + r.TargetTokens}
		r.SavedUSD = economy.CostOfWork(price, alone) - r.USD
	}
}

// fundAudits adds a share of what the target alone would have cost to the audit budget. It is not a share of the target's
// own tokens: the more drafts are served, the fewer these are, and the more there is to audit.
// It also counts the answer for its evidence key.
func (c *Cascade) fundAudits(r *Request) {
	if !r.Config.Mode.Audited() && !r.Config.VerifyDrafts.Checks() {
		return
	}
	t := audit.Tally{Prompt: cmp.Or(r.PromptTokens, r.Body.PromptTokens), Accepted: r.AcceptedTokens, Target: r.TargetTokens, Drafted: r.DraftedTokens}
	cost := audit.Tally{Prompt: t.Prompt, Target: t.Accepted + t.Target}.TargetCost(r.TokenPrices().Target())
	c.audits.AddBudget(r.Body.Model, r.Config.Risk.AuditBudget*cost)
	if r.Decision.Audit != nil && r.Finish != "" {
		c.audits.Classes.AddAnswer(r.Decision.Audit.Own.Key, t, r.WasJudged(), c.World.Now())
	}
}

// Workload returns what the requests of an evidence key are like at this replica.
func (c *Cascade) Workload(k risk.Key) audit.Workload {
	return c.audits.Classes.Workload(k, c.World.Now())
}

// CostStatistics returns the cost statistics, for metrics and status.
func (c *Cascade) CostStatistics() *economy.Statistics { return &c.costs }

// scarcity is which routes' targets are short of room, as this replica knows it. The configuration bounds their number.
type scarcity struct {
	mu  sync.Mutex
	all map[scarceRoute]plan.Scarcity
}

// scarceRoute is a route with one of its targets.
type scarceRoute struct{ route, target string }

// look reports whether the target of a request is short of room now. It looks only where that matters.
func (s *scarcity) look(r *Request) bool {
	if r.Config.When != plan.WhenScarce {
		return false
	}
	room, k := r.Target.Room(), scarceRoute{r.Body.Model, r.Target.Name()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[scarceRoute]plan.Scarcity{}
	}
	s.all[k] = s.all[k].Next(room)
	return s.all[k].Scarce
}
