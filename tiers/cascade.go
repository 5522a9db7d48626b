package tiers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

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
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/schema"
	"github.com/foregate/foregate/tiers/scoring"
	"github.com/foregate/foregate/tiers/strategy"
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

	Window   func(ctx context.Context, url, model string) (int, error) // asks a backend for its context length in tokens; nil knows none
	Cards    func(pool string) *probe.Card                             // what a pool's engines can do; nil knows nothing
	Evidence audit.Evidence                                            // what audits have shown; nil is nothing, ever
	Maps     func(route string, version int) *accept.Map               // calibrated scores; nil has none
	Replicas func() int                                                // gateways that share the evidence; nil is one
	Short    func(route, pool string, class int8) bool                 // whether a pool is about to turn a class of a route's requests away; nil is never
	Draw     func(request string, p inflight.Purpose) float64          // draws from [0, 1); nil is math/rand

	Registerer prometheus.Registerer // nil registers nothing
}

// Cascade answers requests from the tiers of their routes. It is safe for
// concurrent use.
type Cascade struct {
	routes   map[string]*Route
	tools    *inflight.Tools
	metrics  *metrics
	windows  windows
	cards    func(pool string) *probe.Card
	evidence audit.Evidence
	maps     func(route string, version int) *accept.Map
	short    func(route, pool string, class int8) bool
	audits   *audit.Auditor
	book     *economy.Book
	scores   *scoring.Gate
}

const defaultMaxBody = 16 << 20

// New wires a cascade. It needs an Upstream, and every route a model, a target and a Config.
func New(o Options) (*Cascade, error) {
	if o.Upstream == nil {
		return nil, errors.New("tiers: no upstream")
	}
	o.defaults()
	c := &Cascade{
		routes: make(map[string]*Route, len(o.Routes)), metrics: newMetrics(o.Registerer, o.World.Now), windows: windows{read: o.Window},
		cards: o.Cards, evidence: o.Evidence, maps: o.Maps, short: o.Short,
		book: economy.NewBook(), scores: scoring.NewGate(),
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
	c.tools = &inflight.Tools{
		World: o.World, Dispatch: d, Schemas: &schema.Schemas{}, Random: o.Draw, MaxBody: o.MaxBody, Window: c.windows.of, Checked: c.metrics.check,
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
		o.Queue = dispatch.OpenQueue{}
	}
	if o.Breaker == nil {
		o.Breaker = dispatch.OpenBreaker{}
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Cards == nil {
		o.Cards = func(string) *probe.Card { return nil }
	}
	if o.Evidence == nil {
		o.Evidence = audit.NoEvidence{}
	}
	if o.Maps == nil {
		o.Maps = func(string, int) *accept.Map { return nil }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.Short == nil {
		o.Short = func(string, string, int8) bool { return false }
	}
	if o.Draw == nil {
		o.Draw = func(string, inflight.Purpose) float64 { return rand.Float64() }
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

// Ask is one request as the gateway took it in.
type Ask struct {
	Request *openai.Request
	Tier    plan.Tier         // demanded; "" is Auto
	ID      string            // of the request: the gateway's own, unique. Ids of calls and of answers made here begin with it
	Tenant  string            // whose it is
	Class   int8              // of its priority: higher goes first
	RAG     string            // digest of the retrieved context, "" when not told
	Salt    string            // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Header  http.Header       // to be sent along upstream: its trace, nothing of the client's own
	Spans   bool              // each call upstream is a span of its own in the trace of Header (see dispatch.Try.Span)
	Tap     strategy.Observer // hears the answer; nil is nobody
	Config  *plan.Config      // of its route, where it was read before; nil is what is in force now
	Spared  bool              // its tenant may get a draft below the threshold while the target is short of memory
	Apart   bool              // what is promised of drafts is promised for its tenant alone
	Plan    *plan.Plan        // by which others were promised the answer ([Cascade.Plan]): where it judges no draft, none is made; nil is none
	Vouched func()            // called when an audit has found that the target stands by a draft that the warm-up served; nil tells nobody
	Said    []byte            // what clients have of an answer that was lost: the target carries on from there, where that can be

	// Keep says that something uses the request's body when Answer has returned, until released is called; nil tells nobody.
	Keep func() (released func())
}

// Sink takes an answer on its way to the client. Begin is called once, before
// the first Write; each Write holds whole frames and is flushed.
type Sink interface {
	Begin(Head) error
	Write(p []byte) error
}

// Head is what is known of an answer at its first byte.
type Head struct {
	Stream      bool // server-sent events, else JSON
	Receipt     *receipt.Receipt
	ContentType string // of an answer that passes through; "" otherwise
	Length      int64  // of its body in bytes; 0 or less is unknown
}

// answerSink gives a sink the receipt with the head.
type answerSink struct {
	Sink
	receipt *receipt.Receipt
}

// Begin implements [strategy.Sink].
func (s answerSink) Begin(h strategy.Head) error {
	return s.Sink.Begin(Head{Stream: h.Stream, Receipt: s.receipt, Length: h.Length})
}

// Answer answers one request into sink. The receipt is never nil. An error
// before the first byte means that nothing was written; after it, it is a
// *[strategy.BrokenError] or the sink's own. The client's leaving cancels ctx, and with it every
// call upstream.
func (c *Cascade) Answer(ctx context.Context, a Ask, sink Sink) (*receipt.Receipt, error) {
	rc := &receipt.Receipt{Route: a.Request.Model, Began: c.tools.World.Now()}
	rt, err := c.Route(a.Request.Model)
	if err != nil {
		return rc, err
	}
	cfg := a.Config
	if cfg == nil {
		live := rt.Config()
		cfg = &live
	}
	r := c.request(rt, *cfg, &a)
	ctx, cancel := c.tools.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	record := receipt.NewRecorder(rc, c.tools.World.Now)
	record.Planned(r.Plan, r.Trial)
	answer := strategy.New(strategy.Options{
		Request: r, Record: record, Sink: answerSink{sink, rc}, Observer: a.Tap, Auditor: c.auditor(r, &a), Said: a.Said,
	})
	err = answer.Run(ctx)
	c.metrics.settled(rc, r.Config.Mode)
	c.learn(r, answer.Outcome(), err)
	return rc, err
}

// request is what is known of a request when its answer begins: with how it is to be answered.
func (c *Cascade) request(rt *Route, cfg plan.Config, a *Ask) *inflight.Request {
	r := &inflight.Request{
		Body: a.Request, Route: rt.Model, Tenant: a.Tenant, Class: a.Class, Salt: a.Salt, Tools: c.tools,
		Identity: dispatch.Identity{ID: a.ID, Header: a.Header, Spans: a.Spans},
		Demand:   plan.DemandOf(a.Request, a.head()),
		Target:   inflight.Pool{Pool: rt.Target, Card: c.cards(rt.Target.Name()), Tier: plan.Target},
	}
	r.Demand.Salt = a.Salt
	if rt.Draft != nil {
		r.Draft = inflight.Pool{Pool: rt.Draft, Card: c.cards(rt.Draft.Name()), Tier: plan.Draft}
	}
	d := c.decide(rt, cfg, a)
	r.Plan, r.Config, r.Trial, r.Views = d.plan, d.cfg, d.trial, d.views
	return r
}

// auditor audits the request's draft, nil where that is not to be. A draft in the shadow is begun here.
func (c *Cascade) auditor(r *inflight.Request, a *Ask) strategy.Auditor {
	if r.Trial == nil || !r.Trial.Audited() && !r.Trial.Shadow {
		return nil
	}
	subject := audit.Subject{Request: r, Auditor: c.audits, Keep: a.Keep, Vouched: a.Vouched}
	if r.Trial.Shadow {
		subject.Shadow()
		return nil
	}
	return subject
}

// head is what the request's prompt begins with.
func (a *Ask) head() prefix.Head {
	system, first := a.Request.Head()
	return prefix.Head{Tenant: a.Tenant, RAG: a.RAG, System: system, First: first}
}

// Plan is how a request to the route may be answered under a config, whatever that would
// cost.
func (c *Cascade) Plan(rt *Route, cfg plan.Config, r *openai.Request, demanded plan.Tier) plan.Plan {
	return plan.Make(cfg, c.facts(rt, r, demanded))
}

// facts are what a plan for a request is made from.
func (c *Cascade) facts(rt *Route, r *openai.Request, demanded plan.Tier) plan.Facts {
	f := plan.Facts{Request: r, Demanded: demanded, HasDraft: rt.Draft != nil, SameTokenizer: rt.SameTokenizer}
	if rt.Draft != nil {
		f.Draft, f.Target = c.cards(rt.Draft.Name()), c.cards(rt.Target.Name())
	}
	return f
}
