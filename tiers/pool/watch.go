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

const (
	// scrapesAtOnce bounds the scrapes of one pool that are under way. A pool of
	// hundreds, all hanging, must not hold hundreds of connections for it.
	scrapesAtOnce = 32
	// Overdue is how old a reading may be that another replica is to take before this
	// one takes it itself: half of what is fresh, so that a replica which dies is not
	// missed, and not so soon that a late tick doubles the work.
	Overdue = 1250 * time.Millisecond
	// Again is how long a replica that took another's part, in vain, waits before it
	// does so again.
	Again = 2 * time.Second
	// probeEvery is how often an engine that stands still is asked for one token, by
	// each replica that doubts it.
	probeEvery = time.Second
	// outAfter is how many times longer than a suspect a backend is silent that is down.
	outAfter = 2
	// late is by how much of its time a question may end late before it is this replica
	// that is slow, and not the backend that is silent.
	late = 0.2
)

// errSilent is why a backend is down that answers nothing. Where the whole pool is so
// silent, its backends are used all the same.
var errSilent = errors.New("answers nothing")

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
		mine := p.fleet == nil || p.fleet.Mine(p.name, b.id)
		if p.Looks(b.id, mine, vain) || p.asks(b) {
			if ok := p.lookInTurn(ctx, b); !ok && !mine {
				vain = p.now()
			}
		}
		if p.doubts(b) {
			p.probe(ctx, b)
		}
		p.tell(b)
		p.release(b)
		timer.Reset(p.pause(b, mine))
	}
}

// lookInTurn is look when there is a place for it.
func (p *Pool) lookInTurn(ctx context.Context, b *backend) bool {
	select {
	case <-ctx.Done():
		return false
	case p.slots <- struct{}{}:
	}
	defer func() { <-p.slots }()
	return p.look(ctx, b)
}

// pause is the time until b is to be looked at again: none while it owes an answer and
// is not yet down.
func (p *Pool) pause(b *backend, mine bool) time.Duration {
	interval := p.pressure().OrDefaults().Interval
	// Jitter, so that the backends and the replicas do not scrape in step.
	pause := time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64()))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case b.down != nil:
	case !b.vitals.asked.IsZero():
		return 0
	case !mine && !b.reading.At.IsZero(): // when another replica's reading is missing
		if missing := b.reading.At.Add(p.overdue()).Sub(p.now()); missing > 0 {
			return min(pause, missing+time.Millisecond)
		}
	}
	return pause
}

// asks reports whether b has not answered this replica's last question.
func (p *Pool) asks(b *backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !b.vitals.asked.IsZero()
}

// look takes one reading of b and reports whether it got one. A backend that is down
// is asked for its health first, and its metrics speak for it only where it knows no
// /health: a vLLM whose engine is dead still serves metrics.
func (p *Pool) look(ctx context.Context, b *backend) bool {
	asked := p.now()
	if p.isDown(b) {
		err := p.scraper.Health(ctx, b.url)
		switch {
		case err == nil:
			p.answered(b)
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
		p.missed(b, err)
		if errors.Is(err, context.DeadlineExceeded) {
			p.unanswered(b, asked)
			p.asksHealth(ctx, b)
		} else {
			p.settled(b, err)
		}
		return false
	}
	p.answered(b)
	r.Answers = b.vitals.answersSince(asked.Add(-Overdue))
	p.taken(b, r)
	p.setUp(b, asked)
	if p.fleet != nil {
		p.fleet.Publish(p.name, b.id, r)
	}
	return true
}

// probe asks an engine whose numbers stand still for a token. Where it comes, it is
// the numbers that are wrong.
func (p *Pool) probe(ctx context.Context, b *backend) {
	ctx, cancel := context.WithTimeout(ctx, p.pressure().OrDefaults().Probe)
	defer cancel()
	if p.scraper.Probe(ctx, b.url, p.model) == nil {
		b.vitals.answered(p.now)
	}
}

// taken stores a reading, unless there is a newer one.
func (p *Pool) taken(b *backend, r pressure.Reading) {
	var was, is string
	var older, restarted, wasBlind bool
	p.locked(func() {
		if older = r.At.Before(b.reading.At); older {
			return
		}
		was = b.vitals.condition()
		p.units.readings(b.reading, r)
		restarted = b.take(r)
		if !b.gone {
			p.warm.Capacity(b.number, r.Capacity()*max(r.Engines, 1))
		}
		if restarted {
			p.cold(b)
		}
		is = b.vitals.condition()
		wasBlind, b.blind = b.blind, false
		b.contact.answered(p.now())
	})
	if older {
		return
	}
	p.metrics.reading(p.name, b.id, r)
	p.moreRoom()
	if wasBlind {
		p.log.Info().Str("backend", b.id).Msg("backend's metrics can be read again")
	}
	if restarted {
		p.log.Info().Str("backend", b.id).Msg("backend was restarted")
	}
	p.turned(b, was, is)
}

// turned logs a change of b's condition.
func (p *Pool) turned(b *backend, was, is string) {
	if was != is {
		p.log.Warn().Str("backend", b.id).Str("was", was).Str("is", is).Msg("backend's condition changed")
	}
}

// tell shows how old b's reading is, what it is suspected of, and that a drain has run out.
func (p *Pool) tell(b *backend) {
	var at time.Time
	var condition string
	p.locked(func() {
		at, condition = b.reading.At, b.vitals.condition()
		p.drained(b)
	})
	p.metrics.suspected(p.name, b.id, condition)
	if !at.IsZero() {
		p.metrics.age.WithLabelValues(p.name, b.id).Set(p.now().Sub(at).Seconds())
	}
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
	goesBlind := false
	p.locked(func() {
		b.contact.ended(err, p.now())
		goesBlind = !known && !b.blind
		b.blind = b.blind || !known
	})
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
	known := false
	p.locked(func() { _, known = pressure.Weight(b.reading.At, now, age) })
	if !known {
		p.metrics.unknown(p.name, b.id)
	}
	return known
}

// isDown tells whether b is down.
func (p *Pool) isDown(b *backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.down != nil
}

// doubts reports whether b is to be asked for a token: its numbers stand still, and
// that was not asked lately.
func (p *Pool) doubts(b *backend) bool {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.vitals.standing || b.down != nil || !b.vitals.asked.IsZero() || now.Sub(b.probed) < probeEvery {
		return false
	}
	b.probed = now
	return true
}

// setDown takes b out.
func (p *Pool) setDown(b *backend, err error) {
	now := p.now()
	var was error
	p.locked(func() {
		was = b.down
		b.down, b.downAt = err, now
		b.metrics.up.Set(0)
	})
	if was == nil {
		p.log.Warn().Str("backend", b.id).Err(err).Msg("backend is down")
	}
}

// setUp takes b back in, on the word of a question that was asked at the given
// time; a refusal since then is newer. What refused connections was restarted, so its
// cache is taken to be empty; what could not be reached may have it still.
func (p *Pool) setUp(b *backend, asked time.Time) {
	now := p.now()
	var since time.Time
	comes := false
	p.locked(func() {
		since = b.downAt
		if comes = b.down != nil && !since.After(asked); !comes {
			return
		}
		if errors.Is(b.down, syscall.ECONNREFUSED) {
			p.cold(b)
		}
		b.down = nil
		b.vitals.came(now)
		b.metrics.up.Set(1)
	})
	if comes {
		p.log.Info().Str("backend", b.id).Dur("after", now.Sub(since)).Msg("backend is up again")
	}
}

// cold says that b's cache is empty, because it was restarted. The caller holds mu.
func (p *Pool) cold(b *backend) {
	b.life++
	if !b.gone {
		p.warm.Forget(b.number)
	}
}
