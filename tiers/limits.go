package tiers

import (
	"context"
	"errors"
	"slices"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// typicalAnswer is the expected length in tokens of an answer that the client does not limit. The real use is
// settled afterwards.
const typicalAnswer = 512

// AcquireSlot takes one of a tenant's concurrent slots for a request of which only the header is known.
func (p *Pipeline) AcquireSlot(a *Metadata) (leave func(), err error) {
	leave, err = p.o.Ledger.AcquireSlot(p.ledgerRequest(a))
	a.HasSlot = err == nil
	return leave, err
}

func (p *Pipeline) ledgerRequest(a *Metadata) ledger.Request {
	c := &a.Caller
	return ledger.Request{
		Tenant: c.Tenant, Retry: a.Retry, HasSlot: a.HasSlot, Budgets: c.Access.Budgets,
		Limit: ledger.Limit{RPM: c.RPM, TPM: c.TPM, Concurrent: c.Concurrent, HighShare: p.o.HighShare()},
	}
}

// settle ends a request: used is its tokens, or less than 0 if that is unknown.
func settle(g *ledger.Reservation, used int, rc *Receipt) {
	var usd float64
	if rc != nil {
		usd = rc.USD
	}
	g.Settle(used, usd)
}

// reserve takes the expected tokens and dollars of a request from its tenant's limits and budgets. A request above its
// tenant's share of priority high gets priority normal. The reservation must be settled with the real use.
func (p *Pipeline) reserve(ctx context.Context, a *Metadata, need estimate, record *Record) (*ledger.Reservation, error) {
	ask := p.ledgerRequest(a)
	ask.Tokens, ask.Answers, ask.High = need.prompt+need.answer, need.answers, a.Caller.Priority == identity.High
	ask.USD = need.usd()
	began := p.World.Now()
	defer func() { record.Limits += p.World.Now().Sub(began) }()
	g, err := p.o.Ledger.Reserve(ctx, ask)
	if refused, ok := errors.AsType[*ledger.LimitError](err); ok {
		record.LimitStatus = refused.Status
	}
	if err != nil {
		return nil, err
	}
	record.LimitStatus = g.Status
	if g.Demoted {
		a.Caller.Priority, record.Demoted = identity.Normal, true
	}
	return g, nil
}

// salt separates a tenant's prefixes in the engines' prefix caches, "" if it need not.
func (p *Pipeline) salt(route, tenant string) string {
	if !p.o.CacheConfig(route).IsolatePrefixes {
		return ""
	}
	return p.o.Salt(tenant)
}

// estimate is the expected use of a request.
type estimate struct {
	prompt, answer int            // tokens, of all answers
	answers        int            // answers, at least 1
	prices         economy.Prices // of a token; zero: unknown
}

// usd is what the request may cost: at the target, and at the draft in addition; unknown prices are 0.
func (e estimate) usd() float64 {
	w := economy.Work{Prompt: e.prompt, Answer: e.answer}
	return economy.CostOfWork(e.prices.Target(), w) + economy.CostOfWork(e.prices.Draft(), w)
}

// estimateOf estimates a request that the cascade answers.
func estimateOf(r *openai.Request) estimate {
	answer := typicalAnswer
	if r.MaxTokens >= 0 {
		answer = r.MaxTokens
	}
	return estimate{prompt: r.PromptTokens, answer: answer * r.Answers(), answers: r.Answers()}
}

// estimateForwarded estimates a request that is forwarded.
func estimateForwarded(n openai.Need) estimate {
	if n.Answer < 0 {
		n.Answer = typicalAnswer
	}
	return estimate{prompt: n.Prompt, answer: n.Answer * n.Answers, answers: n.Answers}
}

// used returns the tokens that a finished request has used: 0 if no engine worked for it, and a negative
// number if this is unknown, so that the estimate remains charged. The estimate also remains if a client
// disconnects before the first byte: an engine may have made the whole answer, and a refund would allow
// requests without end.
func (e estimate) used(rc *Receipt) int {
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

// worked reports whether an engine worked for a request: an attempt succeeded, or was ended by the client, by the request's
// deadline or by limits.response_bytes. Tokenizing is not counted.
func worked(rc *Receipt) bool {
	return slices.ContainsFunc(rc.Tries, func(t dispatch.Try) bool {
		if t.Role == dispatch.RoleTokenize {
			return false
		}
		return t.Failed == "" || t.Failed == engine.ClientGone || t.Failed == engine.Expired || t.Failed == engine.TooLarge
	})
}
