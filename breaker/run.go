package breaker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/internal/panics"
)

const (
	tickEvery  = 250 * time.Millisecond
	tickJitter = 0.2
	// minPause is the minimum time between two ticks.
	minPause = 5 * time.Millisecond
	// minFull is the minimum time between two readings of all backends that messages trigger.
	minFull = 25 * time.Millisecond
	// quietEvery is the time between readings of a backend without news, and beatEvery between heartbeats,
	// while messages about transitions arrive. Two reads may fail before the view is stale.
	quietEvery = 850 * time.Millisecond
	beatEvery  = time.Second
	// maxEager is the number of backends up to which all are read at every tick while messages about
	// transitions do not arrive.
	maxEager = 128
	// goneAfter is how long the key of a removed backend is kept: far longer than its content is valid, in
	// case other replicas still have the backend.
	goneAfter      = 10 * time.Minute
	maxRemovedKeys = 1024
	// maxProbes bounds this replica's probes in progress.
	maxProbes = 32
)

// loop is the state of one Run.
type loop struct {
	set    *Set
	away   bool      // the last tick failed
	ticked time.Time // start of the last tick
	full   time.Time // last tick that read everything
	beat   time.Time // last heartbeat
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
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer l.probes.Wait()
	defer cancel()         // before the wait for these, so that a panic does not block for ever
	var wake chan struct{} // nil without a subscription
	if s.events != nil {
		wake = s.events.wake
		hearing.Go(func() { s.events.listen(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-wake:
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
	next := time.Duration(float64(tickEvery) * (1 - tickJitter + 2*tickJitter*rand.Float64()))
	if s.events.notified.Load() { // its request came too soon after the last
		next = minFull - time.Since(l.full)
	}
	return max(next, minPause)
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

// wake makes Run tick now.
func (s *Set) wake() {
	if s.events != nil {
		s.events.wakeUp()
	}
}

// tick sends and reads everything once, in one round trip without errors.
func (l *loop) tick(ctx context.Context) {
	s := l.set
	entries := *s.entries.Load()
	pipe := s.link.scripts.Pipeline()
	syncs := l.queueSyncs(ctx, pipe, entries, time.Now())
	others, removedKeys := l.queueOthers(ctx, pipe, time.Now())
	if pipe.Len() > 0 {
		err := s.link.send(ctx, pipe)
		if err != nil {
			s.retryExpiry(removedKeys)
		}
		if ctx.Err() != nil {
			return
		}
		was := l.away
		l.away = err != nil || l.receive(syncs, others) == 0 && len(syncs) > 0
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
func (l *loop) receive(syncs []syncCall, others []redis.Cmder) (known int) {
	now := time.Now()
	for _, c := range syncs {
		if l.received(c, now) {
			known++
		}
	}
	for _, cmd := range others {
		if cmd.Err() != nil {
			l.set.link.errors.Inc()
		}
	}
	return known
}

// queueSyncs queues the commands for breakers: all with news, and the others periodically. While Redis is
// unavailable no observations are sent, because it would be unknown which of them arrived.
func (l *loop) queueSyncs(ctx context.Context, pipe redis.Pipeliner, entries map[machine.Key]*entry, now time.Time) (calls []syncCall) {
	s := l.set
	every := quietEvery
	if l.away || !s.events.connected.Load() && len(entries) <= maxEager || s.events.notified.Load() && now.Sub(l.full) >= minFull {
		every, l.full = 0, now
		s.events.notified.Store(false)
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
			evidenceBucket.Milliseconds(), evidenceBuckets, minFinished, minPercent,
			fleetOpen.Milliseconds(), maxFleetOpen.Milliseconds(), spread(), channelEvents, n.back)})
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

// queueOthers queues the other commands: this replica's heartbeat, and the expiry of removed backends' keys,
// but not while Redis is unavailable.
func (l *loop) queueOthers(ctx context.Context, pipe redis.Pipeliner, now time.Time) (cmds []redis.Cmder, removedKeys []machine.Key) {
	s := l.set
	if now.Sub(l.beat) >= beatEvery {
		l.beat = now
		cmds = append(cmds, pipe.Publish(ctx, channelEvents, s.events.beat))
	}
	if l.away {
		return cmds, nil
	}
	s.mu.Lock()
	removedKeys, s.removed = s.removed, nil
	s.mu.Unlock()
	for _, k := range removedKeys {
		cmds = append(cmds, pipe.PExpire(ctx, redisKey(k), goneAfter))
	}
	return cmds, removedKeys
}

// retryExpiry queues removed backends' keys for expiry again, as many as the limit allows.
func (s *Set) retryExpiry(removedKeys []machine.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = append(s.removed, removedKeys[:min(len(removedKeys), max(0, maxRemovedKeys-len(s.removed)))]...)
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
		s.change(e, now, func() { e.ApplyFleetView(v, cfg, now) })
	case errors.As(err, &wrong):
		s.change(e, now, func() { e.DropFleetView() })
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

// wrongKeyError is an error of Redis about a key.
type wrongKeyError struct{ reply string }

func (e *wrongKeyError) Error() string { return e.reply }

// viewOf parses the reply of the script sync that arrived at now. Values out of range count as closed, or
// over.
func viewOf(cmd *redis.Cmd, now time.Time) (machine.View, error) {
	n, rest, err := numbers(cmd, 5)
	if err != nil {
		return machine.View{}, err
	}
	if len(rest) != 1 {
		return machine.View{}, errors.New("a script's reply has another shape")
	}
	if reply, _ := rest[0].(string); reply != "" {
		return machine.View{}, &wrongKeyError{reply}
	}
	v := machine.View{Cut: n[4] == 1, At: now}
	left := time.Duration(0)
	switch n[0] {
	case 1:
		v.State, left = machine.HalfOpen, ms(n[3])
	case 2:
		v.State, left = machine.Open, ms(n[2])
	}
	v.Until = now.Add(left)
	return v, nil
}

// ms converts a script's time, within its valid range.
func ms(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 2*maxFleetOpen.Milliseconds())) * time.Millisecond
}

// checkTime handles changes by time alone: stale views, and breakers that are due.
func (l *loop) checkTime(ctx context.Context, entries map[machine.Key]*entry) {
	s := l.set
	now := time.Now()
	for _, e := range entries {
		v := s.change(e, now, func() { e.Refresh(now) })
		if v.Probe != machine.NoProbe && !e.probing.Swap(true) {
			l.start(ctx, e, v.Probe)
		}
	}
}
