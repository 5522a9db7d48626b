package breaker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
)

const (
	tickEvery  = 250 * time.Millisecond
	tickJitter = 0.2
	// minPause is the minimum time between two ticks.
	minPause = 5 * time.Millisecond
	// quietEvery is the time between readings of a backend without news if there are more than maxEager. Two reads
	// may fail before the view is stale.
	quietEvery = 600 * time.Millisecond
	maxEager   = 128
	// maxProbes bounds this replica's probes in progress.
	maxProbes = 32
)

// loop is the state of one Run.
type loop struct {
	set    *Set
	away   bool      // the last tick failed
	ticked time.Time // start of the last tick
	probes sync.WaitGroup
	slots  chan struct{}
}

// Run probes open breakers and exchanges observations with the other replicas until ctx ends. It returns nil
// after everything that it started has ended. Without Redis nothing is shared, and without a probe it only
// waits. It may run once at a time, and again after a panic.
func (s *Set) Run(ctx context.Context) error {
	if s.probe == nil {
		<-ctx.Done()
		return nil
	}
	l := &loop{set: s, slots: make(chan struct{}, maxProbes)}
	ctx, cancel := context.WithCancel(panics.OnPanic(ctx, s.panicked))
	defer l.probes.Wait()
	defer cancel() // before the wait, so that a panic does not block for ever
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wakes:
			if !sleep(ctx, minPause-time.Since(l.ticked)) {
				return nil
			}
		}
		timer.Reset(l.turn(ctx))
	}
}

// panicked counts a panic of the client on a server's reply as an error.
func (s *Set) panicked(err error) {
	s.metrics.errors.Inc()
	s.log.Error().Msgf("breaker: %v", err)
}

// turn does what is due, and returns the time until the next turn. Without Redis it only probes.
func (l *loop) turn(ctx context.Context) time.Duration {
	s := l.set
	if s.link == nil {
		l.checkTime(ctx, *s.entries.Load())
		return tickEvery
	}
	l.ticked = time.Now()
	l.tick(ctx)
	return time.Duration(float64(tickEvery) * (1 - tickJitter + 2*tickJitter*rand.Float64()))
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tick sends and reads everything once, in one round trip without errors.
func (l *loop) tick(ctx context.Context) {
	s := l.set
	entries := *s.entries.Load()
	pipe := s.link.scripts.Pipeline()
	syncs := l.queueSyncs(ctx, pipe, entries, time.Now())
	if len(syncs) > 0 {
		err := s.link.send(ctx, pipe)
		if ctx.Err() != nil {
			return
		}
		was := l.away
		l.away = err != nil || l.receive(syncs) == 0
		if was && !l.away {
			s.wake() // observations made meanwhile can be sent now
		}
	}
	l.checkTime(ctx, entries)
}

// syncCall is a call of the script sync for one breaker.
type syncCall struct {
	entry *entry
	cmd   *redis.Cmd
}

// receive processes Redis' replies, and returns the number of breakers that Redis knows.
func (l *loop) receive(syncs []syncCall) (known int) {
	now := time.Now()
	for _, c := range syncs {
		if l.received(c, now) {
			known++
		}
	}
	return known
}

// queueSyncs queues the commands for breakers: all with news, and the others periodically. While Redis is
// unavailable no observations are sent, because it would be unknown which of them arrived.
func (l *loop) queueSyncs(ctx context.Context, pipe redis.Pipeliner, entries map[Key]*entry, now time.Time) (calls []syncCall) {
	s := l.set
	every := time.Duration(0)
	if len(entries) > maxEager {
		every = quietEvery
	}
	for _, e := range entries {
		var n news
		if !l.away {
			n = s.news(e, now)
		}
		if n.finished+n.back == 0 && now.Sub(e.read) < every {
			continue
		}
		calls = append(calls, syncCall{e, queue(ctx, pipe, syncScript, e.Key, n.finished, n.faults, n.unreachable,
			Bucket.Milliseconds(), Buckets, minFinished, minPercent,
			fleetOpen.Milliseconds(), maxFleetOpen.Milliseconds(), spread(), n.back)})
	}
	return calls
}

// spread is the random part of an open time, in permille of it.
func spread() int { return rand.IntN(2*fleetSpread+1) - fleetSpread }

// news takes the unsent observations of a backend.
func (s *Set) news(e *entry, now time.Time) news {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Sub(s.base)
	n := e.evidence.take(at)
	if e.revoke {
		e.revoke = false
		n.back = e.sent.take(at).finished
	}
	e.sent.note(news{finished: n.finished - n.faults}, at)
	return n
}

// received processes Redis' state of a breaker, and reports whether Redis knows it.
func (l *loop) received(c syncCall, now time.Time) bool {
	s, e := l.set, c.entry
	v, err := viewOf(c.cmd, now)
	var wrong *wrongKeyError
	switch {
	case err == nil:
		e.read = now
		cfg := s.config().OrDefaults()
		s.change(e, now, func() { e.applyFleetView(v, cfg, now) })
	case errors.As(err, &wrong):
		s.change(e, now, func() { e.facts.Fleet = view{} })
		fallthrough
	default:
		s.link.errors.Inc()
	}
	switch {
	case wrong != nil && !e.trouble:
		e.trouble = true
		s.log.Warn().Str("key", redisKey(e.Key)).Err(err).Msg("breaker: a key in Redis is of no use; this replica decides alone on its backend")
	case err == nil && e.trouble:
		e.trouble = false
		s.log.Info().Str("key", redisKey(e.Key)).Msg("breaker: the key in Redis is well again")
	}
	return err == nil || wrong != nil
}

// checkTime handles changes by time alone: stale views, and breakers that are due.
func (l *loop) checkTime(ctx context.Context, entries map[Key]*entry) {
	s := l.set
	now := time.Now()
	for _, e := range entries {
		v := s.change(e, now, func() { e.facts.Looked = now })
		if v.Probe != noProbe && !e.probing.Swap(true) {
			l.start(ctx, e, v.Probe)
		}
	}
}
