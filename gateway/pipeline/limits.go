package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// typicalAnswer is the expected length in tokens of an answer that the client does not limit. The real use is
// settled afterwards.
const typicalAnswer = 512

// AcquireSlot takes one of a tenant's concurrent slots for a request of which only the header is known.
func (p *Pipeline) AcquireSlot(a *Metadata) (leave func(), err error) {
	leave, err = p.o.Limiter.AcquireSlot(p.limitsRequest(a))
	a.HasSlot = err == nil
	return leave, err
}

func (p *Pipeline) limitsRequest(a *Metadata) limits.Request {
	c := &a.Caller
	return limits.Request{
		Tenant: c.Tenant, Retry: a.Retry, HasSlot: a.HasSlot,
		Limit: limits.Limit{RPM: c.RPM, TPM: c.TPM, Concurrent: c.Concurrent, HighShare: p.o.HighShare()},
	}
}

// reserve takes the expected tokens of a request from its tenant's limits. A request above its tenant's share
// of priority high gets priority normal. The grant must be settled with the real use.
func (p *Pipeline) reserve(ctx context.Context, a *Metadata, need estimate, record *Record) (*limits.Reservation, error) {
	ask := p.limitsRequest(a)
	ask.Tokens, ask.High = need.prompt+need.answer, a.Caller.Priority == identity.High
	began := p.o.World.Now()
	grant, err := p.o.Limiter.Reserve(ctx, ask)
	record.Limits += p.o.World.Now().Sub(began)
	if refused, ok := errors.AsType[*limits.Error](err); ok {
		record.LimitStatus = refused.Status
	}
	if err != nil {
		return nil, err
	}
	record.LimitStatus = grant.Status
	if grant.Demoted {
		a.Caller.Priority, record.Demoted = identity.Normal, true
	}
	return grant, nil
}

// cascadeCall is a request's call to the cascade.
type cascadeCall struct {
	sink         tiers.Sink
	observer     strategy.Observer  // nil is none
	sentPrefix   []byte             // the beginning of the answer, which clients have already
	confirmation tiers.Confirmation // nil: the answer is not stored
}

// runCascade lets the cascade answer, within the tenant's limits. ctx belongs to the client; the generation
// runs until making ends.
func (q *request) runCascade(ctx, making context.Context, c cascadeCall) (rc *receipt.Receipt, err error) {
	need := estimateOf(q.Body.Request)
	grant, err := q.p.reserve(ctx, q.Metadata, need, q.record)
	if err != nil {
		return nil, err
	}
	defer func() {
		if errors.Is(context.Cause(making), cache.ErrFollows) { // another replica's answer does not count here
			grant.Cancel()
			return
		}
		grant.Settle(need.used(rc))
	}()
	a := tiers.Request{
		Body: q.Body.Request, Tier: q.Tier, ID: q.ID, Tenant: q.Caller.Tenant, Class: int8(q.Caller.Priority), RAG: q.rag,
		Salt: q.p.salt(q.Route.Model, q.Caller.Tenant), Header: q.Header, Spans: q.Spans, Observer: c.observer, Config: &q.draftConfig,
		Sent: c.sentPrefix, Confirmation: c.confirmation, AllowLowScore: q.Caller.AllowLowScoreUnderPressure, PerTenantEvidence: q.Caller.PerTenantEvidence,
		Retainer: q.Retainer,
	}
	if !q.bypass {
		a.Plan = &q.share.plan
	}
	rc, err = q.p.o.Cascade.Answer(making, a, c.sink)
	q.record.Receipt = rc
	return rc, err
}

// salt separates a tenant's prefixes in the engines' prefix caches, "" if it need not.
func (p *Pipeline) salt(route, tenant string) string {
	if !p.o.CacheConfig(route).IsolatePrefixes {
		return ""
	}
	return p.o.Salt(tenant)
}

// estimate is the expected use of a request, in tokens.
type estimate struct{ prompt, answer int }

// estimateOf estimates a request that the cascade answers.
func estimateOf(r *openai.Request) estimate {
	answer := typicalAnswer
	if r.MaxTokens >= 0 {
		answer = r.MaxTokens
	}
	return estimate{r.PromptTokens, answer * max(r.N, 1)}
}

// estimateForwarded estimates a request that is forwarded.
func estimateForwarded(n openai.Need) estimate {
	if n.Answer < 0 {
		n.Answer = typicalAnswer
	}
	return estimate{n.Prompt, n.Answer}
}

// used returns the tokens that a finished request has used: 0 if no engine worked for it, and a negative
// number if this is unknown, so that the estimate remains charged. The estimate also remains if a client
// disconnects before the first byte: an engine may have made the whole answer, and a refund would allow
// requests without end.
func (e estimate) used(rc *receipt.Receipt) int {
	if rc == nil || rc.Tier == "" && !worked(rc) {
		return 0
	}
	told := rc.AcceptedTokens + rc.TargetTokens
	switch {
	case rc.PromptTokens > 0:
		return rc.PromptTokens + told
	case told > 0:
		return e.prompt + told // it ended before its usage arrived
	}
	return -1
}

// worked reports whether an engine worked for a request: an attempt succeeded, or was ended by the client or
// by the request's deadline. Tokenizing is not counted.
func worked(rc *receipt.Receipt) bool {
	return slices.ContainsFunc(rc.Tries, func(t dispatch.Try) bool {
		if t.Role == dispatch.RoleTokenize {
			return false
		}
		return t.Failed == "" || t.Failed == engine.ClientGone || t.Failed == engine.Expired
	})
}
