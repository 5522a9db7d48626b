package tiers

import (
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/world"
)

// Metadata is what is known of a request before its body is read.
type Metadata struct {
	dispatch.Identity // unique id, made by the gateway; trace headers for upstream calls, no header of the client
	Began             time.Time
	Caller            identity.Caller
	Retry             bool // its client marked it as a retry
	HasSlot           bool // it has one of its tenant's concurrent slots ([Pipeline.AcquireSlot])
}

// Arrival is a request as it arrives.
type Arrival struct {
	*Metadata
	Body         *openai.Request
	Route        *Route
	Demand       plan.Demand  // what it demands of its route
	CacheControl CacheControl // cache directives
	// Retain keeps the memory of the body until released is called; nil: it stays valid after the end of the request.
	Retain func() (released func())

	// Observe returns what receives the content of an answer that is made for the request, from its beginning. It is
	// called at each attempt at one; nil: nobody observes.
	Observe func() Observer
}

// Request is one request from its arrival to its end. It is for one goroutine, and for its audit afterwards, which only
// reads.
type Request struct {
	Arrival
	*Receipt // what was decided and done; nil before an answer is begun

	RAG    string        // digest of the retrieved context; "" if the client sent none
	Lookup time.Duration // of the look-up in the shared cache
	Salt   string        // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Config plan.Config   // the settings of its route at its arrival, with what it demands
	Facts  plan.Facts    // what its engines can do, as far as it is known at its arrival
	Plan   plan.Plan     // what settings and engines allow
	Views  plan.Views    // the evidence by which it was decided
	// Application is which of its tenant's applications it is of (package application); "" where neither audits nor settings
	// tell applications apart.
	Application     string
	ApplicationName string // the same as metrics name it: tenant/name, of the name that operators gave; else as Application
	Rejected        bool   // the target has rejected the last draft for the same request

	Draft  Pool // none where its Pool is nil
	Target Pool
	Prices func() economy.Prices // per token of these pools; nil: unknown
	Needs  pool.Demand           // what it needs of a backend

	*Services

	Served *draft.Draft // the draft that is the whole answer; nil for others
	phase  phase
}

// TokenPrices returns the prices of tokens at the request's pools; zero if unknown.
func (r *Request) TokenPrices() (p economy.Prices) {
	if r.Prices != nil {
		p = r.Prices()
	}
	return p
}

// Pool is one tier's pool with its engines' capabilities; nil: unknown.
type Pool struct {
	*pool.Pool
	Capabilities *probe.Capabilities
	Tier         plan.Tier
}

// CanContinue reports whether another backend of the pool can continue an answer from its text.
func (p Pool) CanContinue(r *openai.Request) bool {
	return plan.CanContinue(r, p.Capabilities, p.Engine())
}

// ContinueText returns the call that has an engine of the pool continue a text, and what is known of the answer to it.
func (p Pool) ContinueText(t engine.Terms, r *openai.Request, text []byte, maxTokens int) *engine.ContinueText {
	c := &engine.ContinueText{Terms: t, Request: r, Text: text, MaxTokens: maxTokens}
	if p.Capabilities != nil {
		c.Found, c.Probed = p.Capabilities.Continue, p.Capabilities.Engine
	}
	return c
}

// Purpose is the use of a random number. Draws for one purpose do not affect those for another.
type Purpose uint8

// The purposes.
const (
	DrawExplore Purpose = iota // whether a draft is made although it is not expected to pay
	DrawAudit                  // whether a draft is audited
)

// Services are shared by all requests of a cascade.
type Services struct {
	World         world.World
	Dispatch      *dispatch.Dispatcher
	Random        func(request string, p Purpose) float64 // draws from [0, 1)
	MaxBody       int64                                   // bytes of an answer
	ContextWindow func(pool string) int                   // a pool's context length in tokens; 0 while it is unknown

	metrics *metrics
	audits  *audit.Auditor

	bookAudit func(a *Metadata, route string, usd ledger.Nanos) // puts the cost of a request's audits into the books
}

// class returns the class of its priority: higher goes first.
func (r *Request) class() int8 { return int8(r.Caller.Priority) }

// Terms returns what the request sends to the engines of a pool with every call.
func (r *Request) Terms(p Pool) engine.Terms {
	t := engine.Terms{Model: p.Model(), Salt: r.Salt}
	if p.Priorities() {
		v := plan.EnginePriority(r.class())
		t.Priority = &v
	}
	return t
}

// FirstByteTimeout scales a first-byte timeout with the request's prompt.
func (r *Request) FirstByteTimeout(base time.Duration) time.Duration {
	return plan.FirstByte(base, r.Body.PromptTokens)
}

// Deadline returns the time limit of the request.
func (r *Request) Deadline() time.Duration {
	return r.Config.Timeouts.Deadline(r.Body.PromptTokens, plan.AnswerLimit(r.Body))
}

// DraftOptions returns how the drafts of the request are judged.
func (r *Request) DraftOptions() draft.Options {
	o := draft.Options{
		Request: r.Body, Config: &r.Config, Decision: &r.Decision, MaxBytes: r.MaxBody,
	}
	if r.Draft.Capabilities != nil {
		o.EOS = r.Draft.Capabilities.EOS
	}
	return o
}
