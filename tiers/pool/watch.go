package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// scrapesAtOnce bounds the scrapes of one pool that are under way. A pool of
// hundreds, all hanging, must not hold hundreds of connections for it.
const scrapesAtOnce = 32

// watch scrapes b every interval, and probes it while it is down, until ctx
// ends.
func (p *Pool) watch(ctx context.Context, b *backend) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case p.slots <- struct{}{}:
			p.look(ctx, b)
			<-p.slots
		}
		// Jitter, so that the backends and the replicas do not scrape in step.
		timer.Reset(time.Duration(float64(p.pressure().OrDefaults().Interval) * (0.9 + 0.2*rand.Float64())))
	}
}

// look takes one reading of b. A backend that is down is asked for its health
// first, and its metrics speak for it only where it knows no /health: a vLLM
// whose engine is dead still serves metrics.
func (p *Pool) look(ctx context.Context, b *backend) {
	asked := p.now()
	if p.isDown(b) {
		err := p.scraper.Health(ctx, b.url)
		switch {
		case err == nil:
			p.setUp(b, asked)
		case !noHealth(err):
			p.forgetOld(b)
			return
		}
	}
	p.mu.Lock()
	b.beginScrape()
	p.mu.Unlock()
	r, err := p.scraper.Scrape(ctx, b.url)
	if ctx.Err() != nil {
		return // we are ending, which says nothing about the backend
	}
	if err != nil {
		p.missed(b, err)
		return
	}
	p.taken(b, r)
	p.setUp(b, asked)
}

// taken stores a reading of the scrape that was begun last.
func (p *Pool) taken(b *backend, r pressure.Reading) {
	p.mu.Lock()
	b.take(r)
	wasBlind := b.blind
	b.blind = false
	p.mu.Unlock()
	p.metrics.usage(p.name, b.id, r.KVUsage, true)
	if wasBlind {
		p.log.Info().Str("backend", b.id).Msg("backend's metrics can be read again")
	}
}

// Observe stores what somebody else found now, as if a scrape had just brought it: a
// reading, which also says that the backend is up, or with err a refused
// connection, which says that it is down. It reports whether there is such a
// backend. Who observes does not Run.
func (p *Pool) Observe(backend string, r pressure.Reading, err error) bool {
	for _, b := range *p.set.Load() {
		if b.id != backend {
			continue
		}
		if err != nil {
			p.setDown(b, err)
			return true
		}
		p.mu.Lock()
		b.beginScrape()
		p.mu.Unlock()
		p.taken(b, r)
		p.setUp(b, p.now())
		return true
	}
	return false
}

// noHealth tells whether a server answered that it knows no /health.
func noHealth(err error) bool {
	status, ok := errors.AsType[*pressure.StatusError](err)
	return ok && (status.Code == http.StatusNotFound ||
		status.Code == http.StatusMethodNotAllowed || status.Code == http.StatusNotImplemented)
}

// missed notes a scrape that gave nothing. The backend stays in, with a reading
// that ages, unless it refused the connection: that a request would find, too.
// A name that cannot be resolved is not held against it here, because requests
// may still have connections.
func (p *Pool) missed(b *backend, err error) {
	b.metrics.scrapeErrors.Inc()
	known := p.forgetOld(b)
	p.mu.Lock()
	goesBlind := !known && !b.blind
	b.blind = b.blind || !known
	p.mu.Unlock()
	if errors.Is(err, syscall.ECONNREFUSED) {
		p.setDown(b, err)
		return
	}
	if goesBlind {
		p.log.Warn().Str("backend", b.id).Err(err).Msg("backend's metrics cannot be read")
	}
}

// forgetOld takes a reading that has grown too old to mean anything out of the
// metrics, and tells whether b still has one that does.
func (p *Pool) forgetOld(b *backend) bool {
	age, now := p.pressure(), p.now()
	p.mu.Lock()
	_, known := pressure.Weight(b.reading.At, now, age)
	p.mu.Unlock()
	if !known {
		p.metrics.usage(p.name, b.id, 0, false)
	}
	return known
}

// isDown tells whether b is down.
func (p *Pool) isDown(b *backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.down != nil
}

// setDown takes b out.
func (p *Pool) setDown(b *backend, err error) {
	now := p.now()
	p.mu.Lock()
	was := b.down
	b.down, b.downAt = err, now
	p.mu.Unlock()
	if was == nil {
		b.metrics.up.Set(0)
		p.log.Warn().Str("backend", b.id).Err(err).Msg("backend is down")
	}
}

// setUp takes b back in, on the word of a question that was asked at the given
// time; a refusal since then is newer.
func (p *Pool) setUp(b *backend, asked time.Time) {
	p.mu.Lock()
	was, since := b.down, b.downAt
	if was == nil || since.After(asked) {
		p.mu.Unlock()
		return
	}
	b.down = nil
	p.mu.Unlock()
	b.metrics.up.Set(1)
	p.log.Info().Str("backend", b.id).Dur("after", p.now().Sub(since)).Msg("backend is up again")
}
