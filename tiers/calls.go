package tiers

import (
	"context"
	"errors"
	"slices"
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

// FrontEndTimeout bounds one call to an engine's front end, and all counts of one continuation together.
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

// Do makes a call to one backend, once; see [dispatch.Dispatcher.Do].
func (c caller) Do(ctx context.Context, o dispatch.Request) (backend string, err error) {
	return c.Dispatch.Do(ctx, o)
}

// TokenizePrompt has an engine of a pool tokenize the request's prompt with its chat template.
func TokenizePrompt(ctx context.Context, c caller, p Pool) (ids []int32, err error) {
	_, err = c.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	return ids, err
}

// CountPrompt has engines of a pool count the tokens of the request's prompt, with its chat template: others within the
// request's retries, if one fails. The error is as of [dispatch.Dispatcher.Open].
func CountPrompt(ctx context.Context, c caller, p Pool) (int, error) {
	var ids []int32
	x, err := c.Open(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	if err != nil {
		return 0, err
	}
	x.Close(nil, 0)
	return len(ids), nil
}

// TokenizeText has an engine of a pool tokenize a text.
func TokenizeText(ctx context.Context, c caller, p Pool, text []byte) (ids []int32, err error) {
	_, err = c.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids}))
	return ids, err
}

// maxCountTries bounds how often engines are asked to count the tokens of one text.
const maxCountTries = 4

// Counter counts the tokens of a continued answer. All its calls together take [FrontEndTimeout] at most.
type Counter struct {
	Lost []string // backends that were lost: they are asked only where there is no other

	spent time.Duration
}

// Count has an engine of a pool count the tokens of a text.
func (cn *Counter) Count(ctx context.Context, c caller, p Pool, text []byte) (int, error) {
	var ids []int32
	o := c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids})
	exclude, err := slices.Clone(cn.Lost), engine.ErrFirstByte
	for range maxCountTries {
		if o.FirstByteTimeout = FrontEndTimeout - cn.spent; o.FirstByteTimeout <= 0 {
			break
		}
		o.Demand.Exclude = exclude
		began := c.World.Now()
		var backend string
		backend, err = c.Do(ctx, o)
		cn.spent += c.World.Now().Sub(began)
		f, failed := errors.AsType[*engine.Failure](err)
		switch {
		case err == nil:
			return len(ids), nil
		case ctx.Err() != nil, failed && !f.Retryable(), !failed && len(exclude) == 0:
			return 0, err
		case failed:
			exclude = append(exclude, backend)
		case len(exclude) > len(cn.Lost):
			exclude = exclude[:len(cn.Lost)] // nobody else: once more those that failed now
		default:
			exclude = nil // a connection that broke need not be a backend that is dead
		}
	}
	return 0, err
}
