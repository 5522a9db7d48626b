package tiers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/schema"
	"github.com/foregate/foregate/tiers/scoring"
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
	Routes     []Route
	Gate       gate                                        // nil lets everything through
	Line       Line                                        // nil lets everybody in
	Transport  http.RoundTripper                           // nil is NewTransport()
	Dial       func() Dial                                 // live, for the default Transport; nil is DefaultDial
	MostBody   int64                                       // bytes of an answer that is not streamed; 0 is 16 MiB
	Cards      func(pool string) *probe.Card               // what a pool's engines can do; nil knows nothing
	Evidence   Evidence                                    // what audits have shown; nil is nothing, ever
	Maps       func(route string, version int) *accept.Map // calibrated scores; nil has none
	Replicas   func() int                                  // gateways that share the evidence; nil is one
	Short      func(route, pool string, class int8) bool   // whether a pool is about to turn a class of a route's requests away; nil is never
	Dice       func() float64                              // draws from [0, 1); nil is math/rand
	Registerer prometheus.Registerer                       // nil registers nothing
	Now        func() time.Time                            // nil is time.Now
}

// Cascade answers requests from the tiers of their routes. It is safe for
// concurrent use.
type Cascade struct {
	routes    map[string]*Route
	gate      gate
	line      Line
	transport http.RoundTripper
	mostBody  int64
	metrics   *metrics
	now       func() time.Time
	windows   windows
	cards     func(pool string) *probe.Card
	dice      func() float64
	evidence  Evidence
	maps      func(route string, version int) *accept.Map
	replicas  func() int
	short     func(route, pool string, class int8) bool
	audits    auditor
	book      *economy.Book
	scores    *scoring.Gate
	schemas   *schema.Schemas

	active, retrying atomic.Int64
	calls            atomic.Uint64 // that were ever made: their numbers
}

const defaultMostBody = 16 << 20

// New wires a cascade. Every route needs a model, a target and a Config.
func New(o Options) (*Cascade, error) {
	c := &Cascade{
		routes: make(map[string]*Route, len(o.Routes)), gate: o.Gate, line: o.Line, transport: o.Transport,
		mostBody: o.MostBody, now: o.Now, cards: o.Cards, dice: o.Dice,
		evidence: o.Evidence, maps: o.Maps, replicas: o.Replicas, short: o.Short,
		book: economy.NewBook(), scores: scoring.NewGate(), schemas: &schema.Schemas{},
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
	if c.gate == nil {
		c.gate = openGate{}
	}
	if c.line == nil {
		c.line = openLine{}
	}
	if c.transport == nil {
		c.transport = newTransport(dialer{o.Dial})
	}
	if c.mostBody == 0 {
		c.mostBody = defaultMostBody
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.metrics = newMetrics(o.Registerer, c.now)
	if c.cards == nil {
		c.cards = func(string) *probe.Card { return nil }
	}
	if c.dice == nil {
		c.dice = rand.Float64
	}
	c.unaudited()
	c.audits.panicked = c.metrics.auditPanics.Inc
	return c, nil
}

// unaudited fills in what is missing for audits.
func (c *Cascade) unaudited() {
	if c.evidence == nil {
		c.evidence = noEvidence{}
	}
	if c.maps == nil {
		c.maps = func(string, int) *accept.Map { return nil }
	}
	if c.replicas == nil {
		c.replicas = func() int { return 1 }
	}
	if c.short == nil {
		c.short = func(string, string, int8) bool { return false }
	}
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

// weigh looks at the price of a plan, with what is expected of such requests.
func (c *Cascade) weigh(rt *Route, cfg plan.Config, r *openai.Request, p plan.Plan, e economy.Expectation) plan.Plan {
	var prices economy.Prices
	if rt.Prices != nil {
		prices = rt.Prices()
	}
	return p.Weigh(cfg, r, prices, e, rt.Target.Load(), c.dice())
}

// bucketOf is the kind of request that a judged one is, for what is learned of drafts.
func bucketOf(r *openai.Request, p plan.Plan) economy.Bucket {
	return economy.BucketOf(r.Model, string(p.Mode), r.PromptTokens, p.Whole)
}

// Route returns the route of a model; the error matches [ErrUnknownModel].
func (c *Cascade) Route(model string) (*Route, error) {
	if rt, ok := c.routes[model]; ok {
		return rt, nil
	}
	return nil, ErrUnknownModel
}

// NewTransport is the client side of the gateway: connections are kept for
// less than the 5 s after which vLLM closes idle ones, nothing is decompressed, no
// proxy is asked and no redirect followed.
func NewTransport() *http.Transport { return newTransport(dialer{}) }

func newTransport(d dialer) *http.Transport {
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		MaxIdleConnsPerHost:    512,
		MaxConnsPerHost:        4096,
		IdleConnTimeout:        4 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
}

// Ask is one request as the gateway took it in.
type Ask struct {
	Request *openai.Request
	Tier    plan.Tier    // demanded; "" is Auto
	ID      string       // of the request: the gateway's own, unique. Ids of calls and of answers made here begin with it
	Tenant  string       // whose it is
	Class   int8         // of its priority: higher goes first
	RAG     string       // digest of the retrieved context, "" when not told
	Salt    string       // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Header  http.Header  // to be sent along upstream: its trace, nothing of the client's own
	Spans   bool         // each call upstream is a span of its own in the trace of Header (see Try.Span)
	Tap     Tap          // hears the answer; nil is nobody
	Config  *plan.Config // of its route, where it was read before; nil is what is in force now
	Spared  bool         // its tenant may get a draft below the threshold while the target is short of memory
	Apart   bool         // what is promised of drafts is promised for its tenant alone
	Plan    *plan.Plan   // by which others were promised the answer ([Cascade.Plan]): where it judges no draft, none is made; nil is none
	Vouched func()       // called when an audit has found that the target stands by a draft that the warm-up served; nil tells nobody
	Said    []byte       // what clients have of an answer that was lost: the target carries on from there, where that can be

	// Keep says that something uses the request's body when Answer has returned, until released is called; nil tells nobody.
	Keep func() (released func())
}

// Answer answers one request into sink. The receipt is never nil. An error
// before the first byte means that nothing was written; after it, it is a
// *[BrokenError] or the sink's own. The client's leaving cancels ctx, and with it every
// call upstream.
func (c *Cascade) Answer(ctx context.Context, a Ask, sink Sink) (*receipt.Receipt, error) {
	rc := &receipt.Receipt{Route: a.Request.Model, Began: c.now()}
	rt, err := c.Route(a.Request.Model)
	if err != nil {
		return rc, err
	}
	if a.Config == nil {
		cfg := rt.Config()
		a.Config = &cfg
	}
	j := &job{cascade: c, route: rt, cfg: *a.Config, ask: a, demand: plan.DemandOf(a.Request, a.head()), sink: sink, receipt: rc}
	ctx, cancel := context.WithTimeout(ctx, j.deadline())
	defer cancel()
	j.demand.Salt = a.Salt
	if j.ask.Tap == nil {
		j.ask.Tap = noTap{}
	}
	j.plan()
	err = j.run(ctx)
	c.metrics.settled(rc, j.cfg.Mode)
	j.learn(err)
	return rc, err
}

// job is one request on its way through the cascade.
type job struct {
	cascade *Cascade
	route   *Route
	cfg     plan.Config
	ask     Ask
	demand  pool.Demand
	sink    Sink
	receipt *receipt.Receipt

	trial  *plan.Trial                     // how it is judged in an audited mode; nil in others
	phase  phase                           // that is running
	views  plan.Views                      // that it was decided by
	before func(ctx context.Context) error // called when there is a place for a score and before it is asked for; nil is not at all
}

func (j *job) run(ctx context.Context) error {
	p := j.receipt.Plan
	if j.trial != nil && j.trial.Shadow {
		j.shadow()
	}
	switch {
	case len(j.ask.Said) > 0 && j.ask.Tier != plan.Draft && j.cfg.Takeover && plan.CarriesOn(j.ask.Request):
		return j.resume(ctx)
	case p.Judged:
		if err := j.draft(ctx); !errors.Is(err, errNoDraft) {
			return err
		}
	case p.Tier == plan.Draft:
		return j.direct(ctx, j.route.Draft, plan.Draft)
	}
	return j.direct(ctx, j.route.Target, plan.Target)
}

// draft drafts in the way that the plan says.
func (j *job) draft(ctx context.Context) error {
	switch p := j.receipt.Plan; {
	case p.Calls:
		return j.speculateWhole(ctx)
	case p.Thin:
		return j.thinned(ctx)
	case p.Block > 0:
		return j.pingPong(ctx)
	}
	return j.speculate(ctx)
}

// phase is a part of an answer's time that is running; the zero phase is none.
type phase struct {
	into  *time.Duration
	since time.Time
}

// lap adds what the running phase has taken since it began, or since the last lap.
func (j *job) lap() {
	if p := &j.phase; p.into != nil {
		now := j.cascade.now()
		*p.into += now.Sub(p.since)
		p.since = now
	}
}

// enter begins a phase, which leave ends, and the one before it ends.
func (j *job) enter(into *time.Duration) {
	j.lap()
	j.phase = phase{into, j.cascade.now()}
}

func (j *job) leave() {
	j.lap()
	j.phase = phase{}
}

// begun notes the time of the answer's first byte, and how far the running phase is: the headers tell both.
func (j *job) begun() {
	j.lap()
	j.receipt.First = j.cascade.now().Sub(j.receipt.Began)
}

// call prepares a call to one of the route's pools.
func (j *job) call(p *pool.Pool, path string, body []byte) call {
	tier := plan.Target
	if p == j.route.Draft {
		tier = plan.Draft
	}
	return call{
		pool: p, tier: tier, path: path, body: body, id: j.ask.ID, header: j.ask.Header, spans: j.ask.Spans,
		turn: Turn{
			Route: j.route.Model, Pool: p.Name(), Tenant: j.ask.Tenant, Class: j.ask.Class,
			Tokens: j.demand.PromptTokens + j.demand.OutputTokens,
		},
		demand: j.demand, chunk: j.cfg.Timeouts.Chunk,
	}
}

// head is what the request's prompt begins with.
func (a *Ask) head() prefix.Head {
	system, first := a.Request.Head()
	return prefix.Head{Tenant: a.Tenant, RAG: a.RAG, System: system, First: first}
}

// firstByte scales a first-byte timeout with the prompt.
func (j *job) firstByte(base time.Duration) time.Duration {
	return plan.FirstByte(base, j.ask.Request.PromptTokens)
}

// deadline is how long the request may take.
func (j *job) deadline() time.Duration {
	return j.cfg.Timeouts.Deadline(j.ask.Request.PromptTokens, plan.AnswerLimit(j.ask.Request))
}
