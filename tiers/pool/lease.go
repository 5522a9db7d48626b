package pool

import (
	"context"
	"errors"
	"time"
)

// Lease is one request's place on a backend. Done must be called always. All
// methods may be called from any goroutine.
type Lease struct {
	pool    *Pool
	backend *backend
	start   time.Time
	scrape  uint64  // the backend's last scrape when this began
	ahead   float64 // tokens that were queued before this one's

	// Guarded by Pool.mu.
	part  tally     // what is still counted of it
	first time.Time // when the first token came; zero until then
	done  bool
}

// lease makes a lease on b, which was chosen as c.
func (p *Pool) lease(b *backend, c *Candidate, d Demand, now time.Time) *Lease {
	prompt, output := max(d.PromptTokens, 0), max(d.OutputTokens, 0)
	return &Lease{
		pool: p, backend: b, start: now, scrape: b.scrape,
		ahead: c.ahead() - float64(c.Cached),
		part:  tally{requests: 1, queued: prompt, held: prompt, tokens: prompt + output/2},
	}
}

// Backend is the backend's id: its host and port within [a-z0-9.-]{1,64},
// stable, and unique in the pool.
func (l *Lease) Backend() string { return l.backend.id }

// URL is the backend's base URL without a trailing slash.
func (l *Lease) URL() string { return l.backend.url }

// FirstToken says that the prefill has finished: the prompt no longer queues,
// and what it took is learned. It is for the first generated token as it comes;
// for an answer that comes in one piece, and so after the decoding too, call
// Done alone.
func (l *Lease) FirstToken() {
	p, b := l.pool, l.backend
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.done || !l.first.IsZero() {
		return
	}
	l.first = now
	b.rates.learnPrefill(float64(l.part.queued)+l.ahead, now.Sub(l.start))
	finished := tally{queued: l.part.queued}
	l.part.sub(finished)
	b.prefillSince = now // one after the other: the next has only begun
	b.end(finished, l.scrape)
}

// Refused says that no connection could be made (refused, no such host): the
// backend is out at once, until a scrape or a probe of its health succeeds. A
// client that left is no refusal and changes nothing.
func (l *Lease) Refused(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err == nil {
		err = errors.New("connection refused")
	}
	l.pool.setDown(l.backend, err)
}

// Done gives the place back; generated is the number of tokens that came, 0 if
// unknown. Only the first call counts.
func (l *Lease) Done(generated int) {
	p, b := l.pool, l.backend
	now := p.now()
	p.mu.Lock()
	if l.done {
		p.mu.Unlock()
		return
	}
	l.done = true
	if !l.first.IsZero() {
		b.rates.learnDecode(float64(generated-1), now.Sub(l.first))
	}
	b.end(l.part, l.scrape)
	p.mu.Unlock()
	b.metrics.inflight.Dec()
}
