package gateway

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/gateway/lookup"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/receipt"
)

const (
	// typicalAnswer is the expected length in tokens of an answer whose length the client
	// does not limit. What was really used is settled afterwards.
	typicalAnswer = 512
	// highShare is the share of a tenant's requests that may have priority high, where no
	// other is given.
	highShare = 0.2
	// mostObeyed is the longest Retry-After that the SDKs obey; instead of a longer one they
	// come back after a few seconds, so they are told not to.
	mostObeyed = time.Minute
)

// enterLimits asks for a request of so many tokens in the name of its tenant. It tells the
// client how the tenant stands, and makes a request that goes beyond its tenant's share of
// priority high a normal one. The grant is to be settled by what was used.
func (g *Gateway) enterLimits(l *exchangeLog, w http.ResponseWriter, r *http.Request, need estimate) (*limits.Grant, error) {
	c := &l.caller
	a := g.limitsAsk(l, r)
	a.Tokens, a.High = need.prompt+need.answer, c.Priority == identity.High
	began := g.now()
	grant, err := g.opts.Limiter.Enter(lookup.WithPatience(r.Context(), &l.redis), a)
	l.limits += g.now().Sub(began)
	if refused, ok := err.(*limits.Error); ok {
		tellStanding(w.Header(), refused.Standing)
	}
	if err != nil {
		return nil, err
	}
	tellStanding(w.Header(), grant.Standing)
	if grant.Demoted {
		c.Priority, l.demoted = identity.Normal, true
	}
	return grant, nil
}

// limitsAsk is what the limits are asked for a request of which nothing but its header is known.
func (g *Gateway) limitsAsk(l *exchangeLog, r *http.Request) limits.Ask {
	c := &l.caller
	return limits.Ask{
		Tenant: c.Tenant, Retry: retried(r.Header), Placed: l.placed,
		Limit: limits.Limit{RPM: c.RPM, TPM: c.TPM, Concurrent: c.Concurrent, HighShare: g.opts.HighShare()},
	}
}

// estimate is what a request is expected to use, in tokens.
type estimate struct{ prompt, answer int }

// estimateOf a request that the cascade answers.
func estimateOf(r *openai.Request) estimate {
	answer := typicalAnswer
	if r.MaxTokens >= 0 {
		answer = r.MaxTokens
	}
	return estimate{r.PromptTokens, answer * max(r.N, 1)}
}

// estimateOfPassed is that of a request that passes through.
func estimateOfPassed(n openai.Need) estimate {
	if n.Answer < 0 {
		n.Answer = typicalAnswer
	}
	return estimate{n.Prompt, n.Answer}
}

// used is what a request that is over has used: nothing where no engine worked for it, and less than 0,
// for which the estimate stands, where nobody can say. So it stands for a client that hangs up before the first
// byte came: an engine may have made the whole answer, and who got its tokens back could ask without end.
func (e estimate) used(l *exchangeLog) int {
	rc := l.receipt
	if rc == nil || rc.Tier == "" && !worked(rc) {
		return 0
	}
	told := rc.AcceptedTokens + rc.TargetTokens
	switch {
	case rc.PromptTokens > 0:
		return rc.PromptTokens + told
	case told > 0:
		return e.prompt + told // it broke off before its usage came
	}
	return -1
}

// worked says whether an engine worked for a request: a try got through, or was ended by the client or by the
// request's deadline. Putting text into tokens is no such work.
func worked(rc *receipt.Receipt) bool {
	return slices.ContainsFunc(rc.Tries, func(t dispatch.Try) bool {
		if t.Role == dispatch.RoleTokenize {
			return false
		}
		return t.Failed == "" || t.Failed == engine.Gone || t.Failed == engine.Expired
	})
}

// retried says whether an SDK marked a request as a further try.
func retried(h http.Header) bool {
	n, err := strconv.Atoi(h.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// tellStanding sets the headers that OpenAI's clients read.
func tellStanding(h http.Header, s limits.Standing) {
	tell := func(kind string, w limits.Window) {
		if w.Limit == 0 {
			return
		}
		h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(w.Limit))
		h.Set("X-Ratelimit-Remaining-"+kind, strconv.Itoa(w.Remaining))
		h.Set("X-Ratelimit-Reset-"+kind, w.Reset.Round(time.Millisecond).String())
	}
	tell("Requests", s.Requests)
	tell("Tokens", s.Tokens)
}

// limitProblem is a refusal as OpenAI words it: the type says which limit. Concurrent requests
// are requests.
func limitProblem(e *limits.Error) *problem {
	p := &problem{status: http.StatusTooManyRequests, hope: true, body: openai.ErrorBody{Type: string(e.Limit), Code: "rate_limit_exceeded"}}
	most, asked := strconv.Itoa(e.Most), strconv.Itoa(e.Asked)
	switch {
	case e.Hopeless:
		p.hope = false
		p.body.Message = "Request too large: it may need " + asked + " tokens (prompt and longest answer), and the limit is " + most +
			" tokens per minute. Shorten the prompt or lower max_tokens; a retry cannot help."
		return p
	case e.Limit == limits.Concurrency:
		p.body.Type = string(limits.Requests)
		p.body.Message = "Too many requests under way: the limit is " + most + " at once."
	default:
		p.body.Message = "Rate limit reached: the limit is " + most + " " + string(e.Limit) + " per minute."
	}
	p.retry = e.Wait + rand.N(min(e.Wait/2, 5*time.Second)+time.Second) // never sooner, and not all together
	p.hope = p.retry <= mostObeyed
	p.body.Message += " Please try again in " + strconv.Itoa(wholeSeconds(p.retry)) + "s."
	return p
}
