// Package inflight is one request in flight: what was asked, how and by which pools it is answered ([Request], which
// never changes), and the calls made for it ([Caller]): also those that ask the target about a draft, whether it stands by
// one ([Verifier.Verify]), and that have engines turn text into ids and back ([TokenizeText], [Counter]). It keeps no
// record and settles nothing: what the target said is a value.
package inflight

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/schema"
	"github.com/foregate/foregate/tiers/world"
)

// Request is what is known of a request when its answer begins. It never changes.
type Request struct {
	Body          *openai.Request
	Config        plan.Config
	Plan          plan.Plan
	AuditDecision *plan.AuditDecision // how its draft is judged in an audited mode; nil in others
	Views         plan.Views          // the evidence used for it

	Route   string // the model that clients ask for
	Variant string // the target pool's name, if it is not the route's pool in force; "" otherwise
	Draft   Pool   // none where its Pool is nil
	Target  Pool
	Prices  func() economy.Prices // per token of these pools; nil: unknown

	dispatch.Identity
	Tenant string
	Class  int8   // of its priority: higher goes first
	Salt   string // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Demand pool.Demand

	*Services
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
	Schemas       *schema.Schemas
	Random        func(request string, p Purpose) float64 // draws from [0, 1)
	MaxBody       int64                                   // bytes of an answer
	ContextWindow func(pool string) int                   // a pool's context length in tokens; 0 while it is unknown

	OnCheck func(route string, c receipt.Check) // counts checks of drafts by the target
}

// Caller makes calls for a request.
type Caller struct {
	*Request
	Identity dispatch.Identity // of its calls; an audit's calls are not part of the request's trace
	Events   dispatch.Events   // receives their outcomes
}

// Caller returns the request's caller.
func (r *Request) Caller(events dispatch.Events) Caller { return Caller{r, r.Identity, events} }

// NewRequest returns a call to one of the request's pools, with the configured retries.
func (c Caller) NewRequest(p Pool, call engine.Call) dispatch.Request {
	role := dispatch.RoleTarget
	switch p.Tier {
	case plan.Draft:
		role = dispatch.RoleDraft
	case plan.Fallback:
		role = dispatch.RoleFallback
	}
	return dispatch.Request{
		Call: call, Pool: p.Pool, Tier: p.Tier, Role: role, Demand: c.Demand,
		Ticket: dispatch.Ticket{
			Route: c.Route, Pool: p.Name(), Tenant: c.Tenant, Class: c.Class, Tokens: c.Demand.Tokens(),
			MidStream: p.Tier == plan.Fallback, // its KV memory is not the operator's to queue for
		},
		IdleTimeout: c.Config.Timeouts.StreamIdle,
		Retry:       dispatch.Retry{MaxRetries: c.Config.MaxRetries, Budget: c.Config.RetryBudget},
		Identity:    c.Identity, Events: c.Events,
	}
}

// NewBackgroundRequest returns a call that has a target write its own answer into into, for no client: at the lowest priority,
// and without a wait for capacity.
func (c Caller) NewBackgroundRequest(p Pool, into *openai.DraftAnswer) dispatch.Request {
	o := c.NewRequest(p, &engine.Answer{Terms: c.Terms(p), Request: c.Body, Into: into})
	o.Ticket.NoWait, o.Ticket.Class, o.Demand.Whole = true, 0, true
	o.FirstByteTimeout = c.Config.Timeouts.WholeAnswer(c.FirstByteTimeout(c.Config.Timeouts.TargetFirstToken), c.Body)
	return o
}

// NewFrontEndRequest returns a call that an engine's front end answers without its GPU.
func (c Caller) NewFrontEndRequest(p Pool, call engine.Call) dispatch.Request {
	o := c.NewRequest(p, call)
	o.Role = dispatch.RoleTokenize
	o.Ticket.MidStream = true // it needs no KV memory
	o.Demand = pool.Demand{Whole: true}
	o.FirstByteTimeout = FrontEndTimeout
	return o
}

// FrontEndTimeout bounds one call to an engine's front end, and all counts of one continuation together.
const FrontEndTimeout = 2 * time.Second

// Open sends a call whose answer is streamed or passed on; see [dispatch.Dispatcher.Open]. A prompt is not refused by its
// estimate: one that is longer than a backend's memory is counted first, and where no engine counts it, an engine decides.
func (c Caller) Open(ctx context.Context, o dispatch.Request) (*dispatch.Exchange, error) {
	x, err := c.Dispatch.Open(ctx, o)
	none, ok := errors.AsType[*pool.NoBackendError](err)
	if !ok || none.Full == 0 && !none.TooLong || none.Answers > 0 || o.Demand.PromptBytes == 0 || ctx.Err() != nil {
		return x, err
	}
	more := openai.EstimateTokens(max(o.Demand.PromptBytes-c.Demand.PromptBytes, 0)) // of an answer so far
	o.Demand.PromptTokens, o.Demand.PromptBytes = none.Largest, 0
	if ids, err := TokenizePrompt(ctx, c, Pool{Pool: o.Pool}); err == nil {
		o.Demand.PromptTokens = len(ids) + more
	}
	return c.Dispatch.Open(ctx, o)
}

// Do makes a call to one backend, once; see [dispatch.Dispatcher.Do].
func (c Caller) Do(ctx context.Context, o dispatch.Request) (backend string, err error) {
	return c.Dispatch.Do(ctx, o)
}

// Terms returns what the request sends to the engines of a pool with every call.
func (r *Request) Terms(p Pool) engine.Terms {
	t := engine.Terms{Model: p.Model(), Salt: r.Salt}
	if p.Priorities() {
		v := plan.EnginePriority(r.Class)
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
