package pool

import (
	"cmp"
	"time"
)

// TokenPrice is what hosted backends cost, in USD per token.
type TokenPrice struct{ Input, Cached, Output float64 }

// Of returns the price of these tokens; the provider had the cached ones of the prompt in its cache.
func (t TokenPrice) Of(prompt, cached, answer int) float64 {
	return float64(prompt-cached)*t.Input + float64(cached)*t.Cached + float64(answer)*t.Output
}

// AssumedAnswer is how long an answer without a limit may become, as far as its price goes.
const AssumedAnswer = 4096

// Bound returns the most that a call is expected to cost: its prompts by estimate, and the longest answers that it allows.
func (t TokenPrice) Bound(d *Demand) float64 {
	answer := 0
	if !d.NoAnswer {
		answer = cmp.Or(max(d.MaxOutput, 0), AssumedAnswer) * d.answers()
	}
	return t.Of(d.PromptTokens, 0, answer)
}

// External reports whether the backends are hosted: paid by the token, and not the operator's own. They are asked for
// nothing but answers, and told nothing but requests.
func (p *Pool) External() bool { return p.o.External }

// TokenPrice returns the price of tokens at hosted backends; zero for others.
func (p *Pool) TokenPrice() TokenPrice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokenPrice
}

// Pay returns what a call at a hosted backend costs by the tokens that it has told, of its prompt at least one, and learns
// how much of prompts the provider finds in its cache.
func (l *Lease) Pay(prompt, cached, answer int) (usd float64) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.providerCached.Learn(float64(cached) / float64(prompt))
	return p.tokenPrice.Of(prompt, cached, answer)
}

// maxRatePause bounds how long a hosted backend is left alone at once: what it tells of its limits may be wrong.
const maxRatePause = time.Minute

// Pause says that a hosted backend wants no request for so long, by its limits of rates. Until then it counts as full.
func (l *Lease) Pause(d time.Duration) {
	p := l.pool
	if !p.o.External || d <= 0 {
		return
	}
	until := p.o.Now().Add(min(d, maxRatePause))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(l.backend.pausedUntil) {
		l.backend.pausedUntil = until
	}
}

// hosted sets a candidate's load where its memory is its provider's to care for: only the limits of rates count, as far as
// the provider has told them.
func (c *candidate) hosted(pausedUntil, now time.Time) {
	c.usageUnknown, c.usage, c.waiting, c.running = false, 0, 0, 0
	c.paused = max(pausedUntil.Sub(now), 0)
}
