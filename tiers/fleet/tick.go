package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Run ticks at once and then every interval until ctx ends. Then it leaves the set of replicas, so that others take over at
// their next tick, and returns nil, within 2 s even if Redis hangs: a tick in progress is not cancelled.
func (f *Fleet) Run(ctx context.Context) error {
	if f.redis == nil {
		f.endDrains(ctx)
		return nil
	}
	whole := context.WithoutCancel(ctx) // a cancelled heartbeat might take effect after the leaving
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.leave(whole)
			return nil
		case <-timer.C:
		case <-f.wakeup:
		}
		f.tick(whole)
		timer.Reset(f.pause())
	}
}

// endDrains ends drains whose time is over, where there is no Redis, until ctx ends.
func (f *Fleet) endDrains(ctx context.Context) {
	tick := time.NewTicker(defaultInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.updateDrains()
		}
	}
}

// pause is the time to the next tick. A replica alone needs to hear only of operators and of who joins.
func (f *Fleet) pause() time.Duration {
	d := defaultInterval
	if f.interval != nil {
		d = cmp.Or(f.interval(), d)
	}
	if f.isAlone() {
		d = max(d, defaultInterval)
	}
	return min(max(d, minInterval), maxInterval)
}

// isAlone reports whether the last successful tick has found no other replica.
func (f *Fleet) isAlone() bool {
	v := f.view.Load()
	return v != nil && len(v.members) == 1
}

// tick sends and receives everything once, in one round trip without errors. If Redis refuses the heartbeat,
// its other replies are processed anyway.
func (f *Fleet) tick(ctx context.Context) {
	was := f.clock
	t := &turn{at: time.Now(), pipe: f.scripts.Pipeline()}
	heartbeat := f.queueHeartbeat(t)
	f.queueTopics(t)
	for _, p := range f.pools.Load().all {
		f.queuePlacements(t, p)
	}
	look := f.detector.queue(ctx, t.pipe) // last, after everything that it is about
	err := f.scripts.Exec(ctx, t.pipe, deadline)
	f.heartbeatError = err
	if err == nil {
		f.heartbeatError = f.receiveHeartbeat(t, heartbeat)
	}
	well := f.heartbeatError == nil
	if !well {
		f.metrics.errors.WithLabelValues(errRedis).Inc()
		f.fewerSince = time.Time{}
	} else {
		f.look(t, look)
	}
	for _, c := range t.calls {
		f.take(c, err, well)
	}
	f.updateDrains()
	f.showSharing()
	if well && f.dueToTidy(t.at) {
		f.tidy(ctx, t.at)
	}
	if well {
		f.followClock(t, was)
	}
}

// followClock ticks again at once if only this tick has told the time of Redis: the first one, which has told nothing, or
// one that has told texts by another time.
func (f *Fleet) followClock(t *turn, was clock) {
	jump := f.clock.when(t.at) - was.when(t.at)
	if !was.at.IsZero() && max(jump, -jump) <= slack {
		return
	}
	f.again = t.told
	f.Wake()
}

// look finds whether Redis has lost data.
func (f *Fleet) look(t *turn, look func() (bool, error)) {
	lost, err := look()
	f.countProblem(errRun, keyRun, err)
	if !lost {
		return
	}
	f.metrics.lostData.Inc()
	f.lostAt.Store(&t.at)
	f.log.Error().Msg("fleet: Redis has lost data; replicas publish again what they know")
	for _, p := range f.pools.Load().all {
		p.lastEntry = "" // it is another log
	}
	for _, lost := range f.lost {
		lost()
	}
}

// setMembers takes over the live members.
func (f *Fleet) setMembers(members []string, at time.Time) {
	v, now := newView(members, at), time.Now()
	if was := f.view.Load(); was.shared(now) {
		v.since = was.since
	}
	f.view.Store(v)
	f.countReplicas(len(members), now)
}

// countReplicas records the number of live replicas of a good tick. Fewer must be live for dropAfter before the number decreases:
// after a flush or a failover they return one by one.
func (f *Fleet) countReplicas(n int, now time.Time) {
	switch {
	case int64(n) < f.replicas.Load() && f.fewerSince.IsZero():
		f.fewerSince = now
	case int64(n) >= f.replicas.Load(), now.Sub(f.fewerSince) >= dropAfter:
		f.replicas.Store(int64(n))
		f.fewerSince = time.Time{}
	}
}

// showSharing exports whether replicas share, and logs a change.
func (f *Fleet) showSharing() {
	shared, members, why := f.Sharing(), f.Members(), f.heartbeatError
	f.metrics.show(shared, len(members))
	f.lastError.Store(&why)
	if f.logged != nil && *f.logged == shared {
		return
	}
	f.logged = &shared
	e, what := f.log.Info(), "fleet: shared with others through Redis"
	if !shared {
		e, what = f.log.Warn().Err(why), "fleet: who else lives cannot be read from Redis; this replica works alone"
	}
	e.Str("mode", f.Level()).Int("replicas", len(members)).Int("known", f.Replicas()).Str("replica", f.self).Msg(what)
}

// queueHeartbeat queues the heartbeat, whose reply has Redis' time, an error text, and the live replicas.
func (f *Fleet) queueHeartbeat(t *turn) *redis.Cmd {
	args := []any{f.self, goneAfter.Milliseconds(), dropAfter.Milliseconds(), maxMembers}
	return beatScript.EvalSha(context.Background(), t.pipe, []string{keyReplicas}, args...) // the round trip has the deadline
}

// receiveHeartbeat takes over the time and the members, or says why it cannot.
func (f *Fleet) receiveHeartbeat(t *turn, heartbeat *redis.Cmd) error {
	if err := heartbeat.Err(); err != nil {
		f.metrics.errors.WithLabelValues(errReplicas).Inc()
		return err
	}
	reply, _ := heartbeat.Val().([]any)
	if len(reply) != 3 {
		return errors.New("the heartbeat's reply has another shape")
	}
	now, ok := reply[0].(int64)
	wrong, ok2 := reply[1].(string)
	values, ok3 := reply[2].([]any)
	if !ok || !ok2 || !ok3 {
		return errors.New("the heartbeat's reply has other types")
	}
	f.drainMu.Lock()
	f.clock = clock{ms: now, at: t.at}
	f.drainMu.Unlock()
	if wrong != "" {
		f.metrics.errors.WithLabelValues(errReplicas).Inc()
		return fmt.Errorf("%s: %s", keyReplicas, wrong)
	}
	ids := make([]string, 0, len(values))
	for _, m := range values {
		id, _ := m.(string) // a value of another type is invalid, too
		ids = append(ids, id)
	}
	f.setMembers(liveMembers(ids, f.self), t.at)
	return nil
}

// dueToTidy reports after a good tick whether it is this replica's turn to delete unused fields.
func (f *Fleet) dueToTidy(at time.Time) bool {
	return f.view.Load().members[0] == f.self && at.Sub(f.tidied) >= tidyEvery
}

// tidy deletes unused fields. They were just read; what is told in this moment may be lost: texts are told again.
func (f *Fleet) tidy(ctx context.Context, at time.Time) {
	f.tidied = at
	now := f.clock.when(at)
	pipe := f.scripts.Pipeline()
	fields := f.forgotten(now)
	if len(fields) == 0 {
		return
	}
	pipe.HDel(ctx, keyTold, fields[:min(len(fields), maxTidied)]...)
	if f.scripts.Exec(ctx, pipe, deadline) != nil {
		f.metrics.errors.WithLabelValues(errRedis).Inc()
	}
}

// leave removes this replica from the set.
func (f *Fleet) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := f.redis.ZRem(ctx, keyReplicas, f.self).Err(); err != nil {
		f.metrics.errors.WithLabelValues(errRedis).Inc()
		f.log.Warn().Err(err).Msg("fleet: cannot leave; others take over in 1.5 s")
	}
}
