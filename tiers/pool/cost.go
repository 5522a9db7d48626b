package pool

import (
	"cmp"

	"github.com/foregate/foregate/tiers/economy"
)

// TokenPrice returns the price of the pool's tokens: at the operator's own backends the rent by the configured or learned
// speeds of a full one, at hosted ones the provider's. It is unknown without a rent, and until the speeds are known.
func (p *Pool) TokenPrice() economy.TokenPrice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokenPrice()
}

func (p *Pool) tokenPrice() economy.TokenPrice {
	c := &p.price
	if p.o.External || c.USDPerHour <= 0 {
		return c.Tokens
	}
	prefill, decode, ok := p.units.Seconds(c.PrefillPerSecond)
	if c.PrefillPerSecond > 0 {
		prefill = 1 / c.PrefillPerSecond
	}
	if c.DecodePerSecond > 0 {
		decode = 1 / c.DecodePerSecond
	}
	if !ok && (c.PrefillPerSecond <= 0 || c.DecodePerSecond <= 0) {
		return economy.TokenPrice{}
	}
	perSecond := c.USDPerHour / 3600
	return economy.TokenPrice{Input: prefill * perSecond, Output: decode * perSecond}
}

// ExpectedPrice is the price of tokens that are still to be computed: as TokenPrice, but of a hosted pool's prompts less what
// its provider usually finds in its cache.
func (p *Pool) ExpectedPrice() economy.TokenPrice {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tokenPrice()
	if p.o.External {
		t.Input += (t.Cached - t.Input) * float64(p.providerCached)
	}
	return t
}

// Bound returns the most that a call is expected to need: its prompts by estimate, and the longest answers that it allows.
func (d *Demand) Bound() economy.Work {
	w := economy.Work{Prompt: d.PromptTokens}
	if !d.NoAnswer {
		w.Answer = cmp.Or(max(d.MaxOutput, 0), AssumedAnswer) * d.answers()
	}
	return w
}

// Work returns what the backend has done for the lease, as far as its engine has not told: of the prompt what is not
// expected in the prefix cache, and so many tokens of answers. Less than 0 means that nobody saw the answers: then they are
// as long as usual, or as the time allowed.
func (l *Lease) Work(answer int) economy.Work {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w := economy.Work{Prompt: l.prompt, Answer: answer}
	w.Cached = int(l.cachedShare * float64(l.prompt))
	if answer < 0 {
		b := l.backend
		took := p.o.Now().Sub(l.start).Seconds() - float64(l.prompt-w.Cached)*b.speed.Prefill
		w.Answer = max(min(l.output, int(took/b.speed.Decode)*l.answers), 0)
	}
	return w
}

// Charge returns what work costs, in USD; known is false where the pool's price is. Of a hosted pool, it learns how much of
// prompts the provider finds in its cache.
func (l *Lease) Charge(w economy.Work) (usd float64, known bool) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.External && w.Prompt > 0 {
		p.providerCached.Learn(float64(w.Cached) / float64(w.Prompt))
	}
	price := p.tokenPrice()
	return economy.CostOfWork(price, w), price.Known()
}
