package tiers

import (
	"context"
	"errors"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// caller makes calls for a request.
type caller struct {
	*Request
	Identity dispatch.Identity // of its calls; an audit's calls are not part of the request's trace
	Events   dispatch.Events   // receives their outcomes
}

// calls returns the caller whose calls are part of the request's record.
func (r *Request) calls() caller { return caller{r, r.Identity, (*events)(r)} }

// NewRequest returns a call to one of the request's pools, with the configured retries.
func (c caller) NewRequest(p Pool, call engine.Call) dispatch.Request {
	return dispatch.Request{
		Call: call, Pool: p.Pool, Tier: p.Tier, Role: dispatch.Role(p.Tier), Demand: c.Needs,
		Ticket: dispatch.Ticket{
			Route: c.Body.Model, Pool: p.Name(), Tenant: c.Caller.Tenant, Class: c.class(), Tokens: c.Needs.Tokens(),
			MidStream: p.Tier == plan.Fallback, // its KV memory is not the operator's to queue for
		},
		IdleTimeout: c.Config.Timeouts.StreamIdle,
		Retry:       dispatch.Retry{MaxRetries: c.Config.MaxRetries, Budget: c.Config.RetryBudget},
		Identity:    c.Identity, Events: c.Events,
	}
}

// NewFrontEndRequest returns a call that an engine's front end answers without its GPU.
func (c caller) NewFrontEndRequest(p Pool, call engine.Call) dispatch.Request {
	o := c.NewRequest(p, call)
	o.Role = dispatch.RoleTokenize
	o.Ticket.MidStream = true // it needs no KV memory
	o.Demand = pool.Demand{Whole: true}
	o.FirstByteTimeout = FrontEndTimeout
	return o
}

// FrontEndTimeout bounds one call to an engine's front end, with all its tries.
const FrontEndTimeout = 2 * time.Second

// Open sends a call whose answer is streamed or passed on; see [dispatch.Dispatcher.Open]. A prompt is not refused by its
// estimate: one that is longer than a backend's memory is counted first, and where no engine counts it, an engine decides.
func (c caller) Open(ctx context.Context, o dispatch.Request) (*dispatch.Exchange, error) {
	x, err := c.Dispatch.Open(ctx, o)
	none, ok := errors.AsType[*pool.NoBackendError](err)
	if !ok || none.Full == 0 && !none.TooLong || none.Answers > 0 || o.Demand.PromptBytes == 0 || ctx.Err() != nil {
		return x, err
	}
	more := openai.EstimateTokens(max(o.Demand.PromptBytes-c.Needs.PromptBytes, 0)) // of an answer so far
	o.Demand.PromptTokens, o.Demand.PromptBytes = none.Largest, 0
	if ids, err := TokenizePrompt(ctx, c, Pool{Pool: o.Pool}); err == nil {
		o.Demand.PromptTokens = len(ids) + more
	}
	return c.Dispatch.Open(ctx, o)
}

// TokenizePrompt has an engine of a pool tokenize the request's prompt with its chat template. The error is as of
// [dispatch.Dispatcher.Open].
func TokenizePrompt(ctx context.Context, c caller, p Pool) (ids []int32, err error) {
	err = c.ask(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	return ids, err
}

// TokenizeText has an engine of a pool tokenize a text. Backends that were lost are asked only where there is no other.
func TokenizeText(ctx context.Context, c caller, p Pool, text []byte, lost []string) (ids []int32, err error) {
	o := c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids})
	o.Demand.Exclude = lost
	if err = c.ask(ctx, o); len(lost) > 0 && errors.Is(err, pool.ErrNoBackend) {
		o.Demand.Exclude = nil
		err = c.ask(ctx, o)
	}
	return ids, err
}

// ask makes a call that is answered in one piece: with other backends within the request's retries, if one fails.
func (c caller) ask(ctx context.Context, o dispatch.Request) error {
	o.Deadline = c.World.Now().Add(FrontEndTimeout)
	x, err := c.Open(ctx, o)
	if err == nil {
		x.Close(nil, 0)
	}
	return err
}
