package pool

import (
	"errors"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// storeReading stores a reading, unless there is a newer one.
func (p *Pool) storeReading(b *backend, r pressure.Reading) {
	now := p.o.Now()
	var older, restarted, wasBlind bool
	p.locked(func() {
		if older = r.At.Before(b.reading.At); older {
			return
		}
		restarted = b.take(r, &p.units)
		b.cache.SetCapacity(r.Capacity() * max(r.Engines, 1))
		if restarted {
			p.clearCache(b)
		}
		wasBlind, b.blind = b.blind, false
		b.markAnswered(now)
	})
	if older {
		return
	}
	p.o.OnCapacity()
	if wasBlind {
		p.log.Info().Str("backend", b.id).Msg("backend's metrics can be read again")
	}
	if restarted {
		p.log.Info().Str("backend", b.id).Msg("backend was restarted")
	}
}

// noteTokens records that b gives tokens, if the health monitor needs it.
func (p *Pool) noteTokens(b *backend) {
	if b.health.listening.Load() {
		b.health.markTokens(p.o.Now())
	}
}

// noteAnswer records that a question to b ended in time; without an error that is an answer. An error without an HTTP
// answer, such as a name that does not resolve, is neither silence nor contact.
func (p *Pool) noteAnswer(b *backend, err error) {
	now := p.o.Now()
	p.locked(func() {
		b.health.markAnswered()
		b.markEnded(err, now)
	})
}

// noteMissed records a failed scrape. The backend stays in with an ageing reading, unless it refused the connection,
// because requests would be refused, too. A name that does not resolve is ignored here: requests may still have
// connections.
func (p *Pool) noteMissed(b *backend, err error) {
	now, goesBlind := p.o.Now(), false
	p.locked(func() {
		b.counts.scrapeErrors++
		b.markEnded(err, now)
		_, known := pressure.Weight(b.reading.At, now)
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

// setDown marks b as down. A hosted backend stays up, because nothing would find out that it is back: its breaker decides.
func (p *Pool) setDown(b *backend, err error) {
	if p.o.External {
		return
	}
	now := p.o.Now()
	var was error
	p.locked(func() {
		was = b.down
		b.down, b.downAt = err, now
		b.refusals = [len(useNames)]mismatch{} // who does not answer refuses nothing
		b.refuses.Store(false)
		b.wrong.Store(nil)
	})
	if was == nil {
		p.log.Warn().Str("backend", b.id).Err(err).Msg("backend is down")
	}
}

// setUp marks b as up, by an answer to a question sent at the given time; a later refusal wins. A server that refused
// connections was restarted, so its cache is assumed to be empty; one that was unreachable may still have its cache.
func (p *Pool) setUp(b *backend, asked time.Time) {
	now := p.o.Now()
	var since time.Time
	comes := false
	p.locked(func() {
		since = b.downAt
		if comes = b.down != nil && !since.After(asked); !comes {
			return
		}
		if errors.Is(b.down, syscall.ECONNREFUSED) {
			p.clearCache(b)
		}
		b.down = nil
		b.health.markStarted(now)
	})
	if comes {
		p.log.Info().Str("backend", b.id).Dur("after", now.Sub(since)).Msg("backend is up again")
	}
}

// clearCache records that b's cache is empty after a restart. The caller holds mu.
func (p *Pool) clearCache(b *backend) {
	b.life++
	b.cache.Forget()
}

// ReceiveReading stores a reading of another replica; r.At is in this replica's clock. A reading that is not newer is
// ignored. It does not say whether this replica can reach the backend. It reports whether the backend exists.
func (p *Pool) ReceiveReading(id string, r pressure.Reading) bool {
	var b *backend
	news := false
	p.locked(func() {
		b = p.byID[id]
		news = b != nil && r.At.After(b.reading.At)
	})
	if news {
		p.storeReading(b, r)
	}
	return b != nil
}

// Observe stores a reading or a refused connection (err) as if a scrape had just found it. A reading also says that the
// backend is up. It reports whether the backend exists. A pool with Observe does not use Run.
func (p *Pool) Observe(backend string, r pressure.Reading, err error) bool {
	b := p.named(backend)
	if b == nil {
		return false
	}
	if err != nil {
		p.setDown(b, err)
		return true
	}
	p.storeReading(b, r)
	p.setUp(b, p.o.Now())
	return true
}

// ReceivePlacements stores where other replicas sent prompts.
func (p *Pool) ReceivePlacements(placements []prefix.Placement) {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range placements {
		if b := p.byID[s.Backend]; b != nil {
			p.warm.Merge(s, b.cache, now)
		}
	}
}
