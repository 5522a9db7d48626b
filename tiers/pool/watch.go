package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// maxScrapes bounds the concurrent scrapes of one pool, and so what hostile engines may have a replica hold.
	maxScrapes = 32
	// Overdue is the age of a reading at which this replica scrapes in place of the responsible one: half of the fresh
	// time, so that a dead replica is replaced in time and a late tick does not double the work.
	Overdue = 1250 * time.Millisecond
	// RetryAfterFailure is the pause after a failed scrape in place of another replica.
	RetryAfterFailure = 2 * time.Second
	// probeEvery is the interval in which each replica probes an engine whose metrics stand still.
	probeEvery = time.Second
	// slots are the eighths of an interval, one after the other, in which backends are scraped: the first together with the
	// replica's other loops.
	slots = 6
)

// watch scrapes b every interval, or checks that another replica does, and probes it while it is down, until ctx ends.
func (p *Pool) watch(ctx context.Context, b *backend) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var vain time.Time // last failed scrape in place of another replica
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		mine, owes := p.o.Fleet.Mine(p.o.Name, b.id), false
		p.identify(ctx, b)
		p.locked(func() { owes = b.health.hasPending() })
		if owes || p.ShouldScrape(b.id, mine, vain) {
			if ok := p.scrapeInTurn(ctx, b); !ok && !mine {
				vain = p.o.Now()
			}
		}
		if p.needsProbe(b) {
			p.probe(ctx, b)
		}
		p.noteChanges(b)
		p.release(b)
		timer.Reset(p.pause(b, mine))
	}
}

// ShouldScrape reports whether this replica must scrape the backend itself: it is responsible (mine), the backend is
// down, or the last reading is overdue and the last failed scrape (vain) is [RetryAfterFailure] ago.
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

// overdue returns how old a reading of another replica may be.
func (p *Pool) overdue() time.Duration {
	return max(Overdue, 2*p.o.ScrapeInterval())
}

// scrapeInTurn scrapes b once fewer than [maxScrapes] scrapes are under way.
func (p *Pool) scrapeInTurn(ctx context.Context, b *backend) bool {
	select {
	case <-ctx.Done():
		return false
	case p.scrapes <- struct{}{}:
	}
	defer func() { <-p.scrapes }()
	return p.scrape(ctx, b)
}

// pause returns the time until the next scrape of b: 0 while an answer is missing and b is not down yet.
func (p *Pool) pause(b *backend, mine bool) time.Duration {
	now, overdue, interval := p.o.Now(), p.overdue(), p.o.ScrapeInterval()
	pause := interval
	p.mu.Lock()
	defer p.mu.Unlock()
	pause += interval * time.Duration(b.cache.Index%slots) / 8
	switch {
	case b.down != nil:
	case b.health.hasPending():
		return 0
	case !mine && !b.reading.At.IsZero(): // the time at which another replica's reading is overdue
		if missing := b.reading.At.Add(overdue).Sub(now); missing > 0 {
			return min(pause, missing+time.Millisecond)
		}
	}
	return pause
}

// scrape takes one reading of b and reports whether it succeeded. If b is down, its health endpoint is asked first, and
// metrics count only if it has none: a vLLM with a dead engine still serves metrics. Of an engine that tells no load it
// only finds out whether it answers.
func (p *Pool) scrape(ctx context.Context, b *backend) bool {
	asked := p.o.Now()
	down, reads := false, false
	p.locked(func() { down, reads = b.down != nil, b.identity.readsMetrics(asked) })
	if !reads {
		return p.checkAlive(ctx, b, asked)
	}
	d := p.dialectOf(b)
	if down {
		err := p.scraper.Health(ctx, b.url, d)
		if credentials.RefusalOf(err) != nil {
			p.noteCredentials(b, ForScrapes, p.Credentials(), err)
		}
		switch {
		case err == nil:
			p.noteAnswer(b, nil)
			p.setUp(b, asked)
		case !noRoute(err):
			return p.setUpByTokens(b)
		default:
			p.locked(func() { b.identity.doubt(asked) })
		}
	}
	shown := p.Credentials()
	r, err := p.scraper.Scrape(ctx, b.url, d, p.o.Now())
	if ctx.Err() != nil {
		return false // cancelled by the end of Run
	}
	p.noteCredentials(b, ForScrapes, shown, err)
	if d.Load.Flag != "" && noRoute(err) {
		p.noteUnmeasured(b, asked)
		return false
	}
	if err != nil {
		p.noteMissed(b, err)
		if errors.Is(err, context.DeadlineExceeded) {
			p.noteUnanswered(b, asked)
			_ = p.askHealth(ctx, b) // noted
		} else {
			p.noteAnswer(b, err)
		}
		return false
	}
	p.noteAnswer(b, nil)
	p.locked(func() { b.identity.unmeasured = time.Time{} })
	r.Answers = b.health.gaveTokensSince(asked.Add(-Overdue))
	p.storeReading(b, r)
	p.setUp(b, asked)
	p.o.Fleet.Publish(p.o.Name, b.id, r)
	return true
}

// setUpByTokens marks b as up if it was taken to be silent and gives tokens: then only its health cannot be asked.
func (p *Pool) setUpByTokens(b *backend) (up bool) {
	now := p.o.Now()
	p.locked(func() { up = b.down == errSilent && b.health.gaveTokensSince(now.Add(-patience)) })
	if up {
		p.setUp(b, now)
	}
	return up
}

// patience is the longest wait for a token of an engine that is down for its silence.
const patience = 2 * time.Second

// probe asks an engine that is silent, or whose metrics stand still, for one token. If it comes, the engine is well. Whoever
// is down for its silence gets this one patient try at a time, in place of requests.
func (p *Pool) probe(ctx context.Context, b *backend) {
	wait := p.o.ScrapeTimeout
	p.locked(func() {
		if b.down != nil {
			wait = patience
		}
	})
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	shown := p.Credentials()
	err := p.scraper.Probe(ctx, b.url, pressure.Question{Model: p.o.Model}, p.dialectOf(b))
	p.noteCredentials(b, ForRequests, shown, err)
	if err == nil {
		p.noteTokens(b)
	}
}

// tellEvery is the shortest time between two log lines about the condition of a backend, which may come and go.
const tellEvery = time.Minute

// noteChanges logs a change of b's condition, and notices the end of a drain.
func (p *Pool) noteChanges(b *backend) {
	now := p.o.Now()
	p.noteDrain(b)
	var is, was condition
	tell := false
	p.locked(func() {
		was, is = cmp.Or(b.told, conditionWell), b.health.condition()
		if tell = is != was && now.Sub(b.toldAt) >= tellEvery; tell {
			b.told, b.toldAt = is, now
		}
	})
	if tell {
		p.log.Warn().Str("backend", b.id).Str("was", string(was)).Str("is", string(is)).Msg("backend's condition changed")
	}
}

// checkAlive finds out whether an engine answers that tells no load. Connections to an outsider are tried only while it is
// down, or has not answered yet: a replica would never be ready. One that hung is followed at once by the next, as
// [Pool.pause] expects.
func (p *Pool) checkAlive(ctx context.Context, b *backend, asked time.Time) bool {
	wanted := true
	p.locked(func() {
		if dialect.Of(b.identity.kind).Health == "" {
			due := (b.down != nil || b.problem() != "") && asked.Sub(b.identity.checked) >= checkOutsider
			wanted = due || b.health.hasPending()
		}
		if wanted {
			b.identity.checked = asked
		}
	})
	if !wanted {
		return true
	}
	return p.askHealth(ctx, b) == nil
}

// askHealth asks for the health of a backend whose metrics were late, or that has none. Any answer shows that it is alive.
func (p *Pool) askHealth(ctx context.Context, b *backend) error {
	asked := p.o.Now()
	err := p.scraper.Health(ctx, b.url, p.dialectOf(b))
	switch {
	case ctx.Err() != nil:
	case err == nil:
		p.noteAnswer(b, nil)
		p.setUp(b, asked)
	case errors.Is(err, context.DeadlineExceeded):
		p.noteUnanswered(b, asked)
	case errors.Is(err, syscall.ECONNREFUSED):
		p.setDown(b, err)
	default:
		p.noteAnswer(b, err)
		if noRoute(err) {
			p.locked(func() { b.identity.doubt(asked) })
		}
	}
	return err
}

// noteUnmeasured records that b's engine has no /metrics, which a flag of its own would turn on.
func (p *Pool) noteUnmeasured(b *backend, now time.Time) {
	news, hint := false, ""
	p.locked(func() {
		news = b.identity.unmeasured.IsZero()
		b.identity.unmeasured = now
		hint = b.identity.hint()
	})
	p.noteAnswer(b, nil)
	if news {
		p.log.Warn().Str("backend", b.id).Msg(hint)
	}
}

// noRoute reports whether the server answered that it does not have what it was asked for.
func noRoute(err error) bool {
	status, ok := errors.AsType[*pressure.StatusError](err)
	return ok && dialect.IsNotServed(status.Code)
}

// needsProbe reports whether b must be asked for a token: it is silent, or its metrics stand still, and it was not asked
// lately. One without metrics to read is not asked: a connection brings it back, and its tokens may cost money.
func (p *Pool) needsProbe(b *backend) bool {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	stuck := b.health.stuck && b.down == nil && !b.health.hasPending()
	silent := b.down == errSilent || b.down == nil && b.health.isSilent()
	if !stuck && !silent || !b.identity.readsMetrics(now) || now.Sub(b.probed) < probeEvery {
		return false
	}
	b.probed = now
	return true
}

// ErrWrongModel matches the error of a probe at a backend that still does not serve the pool's model. Requests have found
// that before: an engine that lacks only the probe's path may be well.
var ErrWrongModel = errors.New("does not serve the pool's model")

// Probe checks one backend without a user's request: its health endpoint, if it has one, and one generated token of the
// pool's model. nil means well. The context bounds it. A status other than 200 is a *pressure.StatusError; an unknown id
// is an error, too. It does not change the pool's state, except that it finds out whether the credentials are accepted. Of a
// hosted backend, where a token costs money that nobody counts, it only finds out whether it takes connections.
func (p *Pool) Probe(ctx context.Context, backend string) error {
	b := p.named(backend)
	if b == nil {
		return fmt.Errorf("pool %s has no backend %.64q", p.o.Name, backend)
	}
	d := p.dialectOf(b)
	if err := p.scraper.Health(ctx, b.url, d); err != nil && !noRoute(err) {
		return err
	}
	if p.o.External {
		return nil
	}
	shown, wrong := p.Credentials(), b.wrong.Load()
	err := p.scraper.Probe(ctx, b.url, pressure.Question{Model: p.o.Model, Chat: wrong != nil && strings.Contains(wrong.path, "chat")}, d)
	p.noteCredentials(b, ForRequests, shown, err)
	switch {
	case err == nil:
		p.noteModel(b)
	case wrong != nil && noRoute(err):
		return fmt.Errorf("%w: %w", ErrWrongModel, err)
	}
	return err
}
