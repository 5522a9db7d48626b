package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/pool/health"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// maxScrapes bounds the scrapes of one pool that are under way. A pool of
	// hundreds, all hanging, must not hold hundreds of connections for it.
	maxScrapes = 32
	// Overdue is how old a reading may be that another replica is to take before this
	// one takes it itself: half of what is fresh, so that a replica which dies is not
	// missed, and not so soon that a late tick doubles the work.
	Overdue = 1250 * time.Millisecond
	// RetryAfterFailure is how long a replica that took another's part, in vain, waits before it
	// does so again.
	RetryAfterFailure = 2 * time.Second
	// probeEvery is how often an engine that stands still is asked for one token, by
	// each replica that doubts it.
	probeEvery = time.Second
)

// watch reads b's metrics every interval, or sees to it that another replica does,
// and probes it while it is down, until ctx ends.
func (p *Pool) watch(ctx context.Context, b *backend) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var vain time.Time // when this replica took another's part in vain
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		mine, owes := p.o.Fleet.Mine(p.o.Name, b.id), false
		p.locked(func() { owes = b.health.HasPending() })
		if owes || p.ShouldScrape(b.id, mine, vain) {
			if ok := p.scrapeInTurn(ctx, b); !ok && !mine {
				vain = p.o.Now()
			}
		}
		if p.needsProbe(b) {
			p.probe(ctx, b)
		}
		p.show(b)
		p.release(b)
		timer.Reset(p.pause(b, mine))
	}
}

// ShouldScrape reports whether this replica has to look at a backend's metrics itself: because
// that is its part (mine), because the backend is down for it, or because nothing was
// heard of it for too long, and the last look, in vain, is Again ago.
func (p *Pool) ShouldScrape(backend string, mine bool, vain time.Time) bool {
	now, overdue := p.o.Now(), p.overdue()
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.byID[backend]
	if b == nil {
		return false
	}
	missing := now.Sub(b.reading.At) > overdue
	return mine || b.down != nil || missing && now.Sub(vain) >= RetryAfterFailure
}

// overdue is how old a reading of another replica's may be.
func (p *Pool) overdue() time.Duration {
	return max(Overdue, 2*p.o.Pressure().Interval)
}

// scrapeInTurn is look when there is a place for it.
func (p *Pool) scrapeInTurn(ctx context.Context, b *backend) bool {
	select {
	case <-ctx.Done():
		return false
	case p.slots <- struct{}{}:
	}
	defer func() { <-p.slots }()
	return p.scrape(ctx, b)
}

// pause is the time until b is to be looked at again: none while it owes an answer and
// is not yet down.
func (p *Pool) pause(b *backend, mine bool) time.Duration {
	now, interval, overdue := p.o.Now(), p.o.Pressure().Interval, p.overdue()
	// Jitter, so that the backends and the replicas do not scrape in step.
	pause := time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64()))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case b.down != nil:
	case b.health.HasPending():
		return 0
	case !mine && !b.reading.At.IsZero(): // when another replica's reading is missing
		if missing := b.reading.At.Add(overdue).Sub(now); missing > 0 {
			return min(pause, missing+time.Millisecond)
		}
	}
	return pause
}

// scrape takes one reading of b and reports whether it got one. A backend that is down
// is asked for its health first, and its metrics speak for it only where it knows no
// /health: a vLLM whose engine is dead still serves metrics.
func (p *Pool) scrape(ctx context.Context, b *backend) bool {
	asked := p.o.Now()
	down := false
	p.locked(func() { down = b.down != nil })
	if down {
		err := p.scraper.Health(ctx, b.url)
		switch {
		case err == nil:
			p.noteAnswer(b, nil)
			p.setUp(b, asked)
		case !noHealth(err):
			p.forgetOld(b)
			return false
		}
	}
	r, err := p.scraper.Scrape(ctx, b.url)
	if ctx.Err() != nil {
		return false // we are ending, which says nothing about the backend
	}
	if err != nil {
		p.noteMissed(b, err)
		if errors.Is(err, context.DeadlineExceeded) {
			p.noteUnanswered(b, asked)
			p.checkHealth(ctx, b)
		} else {
			p.noteAnswer(b, err)
		}
		return false
	}
	p.noteAnswer(b, nil)
	r.Answers = b.health.GaveTokensSince(asked.Add(-Overdue))
	p.storeReading(b, r)
	p.setUp(b, asked)
	p.o.Fleet.Publish(p.o.Name, b.id, r)
	return true
}

// probe asks an engine whose numbers stand still for a token. Where it comes, it is
// the numbers that are wrong.
func (p *Pool) probe(ctx context.Context, b *backend) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Pressure().ProbeTimeout)
	defer cancel()
	if p.scraper.Probe(ctx, b.url, p.o.Model) == nil {
		p.noteTokens(b)
	}
}

// show shows how old b's reading is, what it is suspected of, and that a drain has run out.
func (p *Pool) show(b *backend) {
	now := p.o.Now()
	var at time.Time
	var condition health.Condition
	p.redrain(b, func() { at, condition = b.reading.At, b.health.Condition() })
	p.metrics.suspected(p.o.Name, b.id, condition)
	if !at.IsZero() {
		p.metrics.age.WithLabelValues(p.o.Name, b.id).Set(now.Sub(at).Seconds())
	}
}

// noHealth tells whether a server answered that it knows no /health.
func noHealth(err error) bool {
	status, ok := errors.AsType[*pressure.StatusError](err)
	return ok && (status.Code == http.StatusNotFound ||
		status.Code == http.StatusMethodNotAllowed || status.Code == http.StatusNotImplemented)
}

// needsProbe reports whether b is to be asked for a token: its numbers stand still, and
// that was not asked lately.
func (p *Pool) needsProbe(b *backend) bool {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.health.IsStuck() || b.down != nil || b.health.HasPending() || now.Sub(b.probed) < probeEvery {
		return false
	}
	b.probed = now
	return true
}
