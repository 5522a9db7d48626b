package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/dataloss"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// turn is one tick's exchange with Redis.
type turn struct {
	at    time.Time // local, before anything was sent
	pipe  redis.Pipeliner
	calls []call    // the heartbeat first
	sent  []message // one of each pool
}

// message holds what was taken from a pool's queues.
type message struct {
	pool     *pool
	readings map[string]pressure.Reading
}

// heartbeatErr is why the heartbeat was refused, nil if it was not.
func (t *turn) heartbeatErr() error {
	err := t.calls[0].cmd.Err()
	if err == nil {
		return nil
	}
	return beatScript.Explain(err)
}

// Run ticks at once and then every interval until ctx ends, and returns nil. Then it leaves the set of
// replicas, so that others take over at their next tick. A tick in progress is not cancelled; Run returns
// within 2 s of ctx's end even if Redis hangs.
func (f *Fleet) Run(ctx context.Context) error {
	if f.redis == nil {
		<-ctx.Done()
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

// pause is the time to the next tick.
func (f *Fleet) pause() time.Duration {
	d := f.interval()
	if d <= 0 {
		d = defaultInterval
	}
	d = min(max(d, minInterval), maxInterval)
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

// tick sends and receives everything once, in one round trip without errors. If Redis refuses the heartbeat,
// its other replies are processed anyway.
func (f *Fleet) tick(ctx context.Context) {
	t := f.turn()
	err := f.exchange(ctx, t.pipe)
	answered := err == nil
	if answered {
		err = t.heartbeatErr()
	}
	f.heartbeatError = err
	if err != nil {
		f.failed(t)
	}
	for _, c := range t.calls {
		if answered && (err == nil || c.cmd.Err() == nil) {
			c.receive()
		}
	}
	f.applyDrains(f.clock.when(f.now()))
	f.showMode()
}

// turn queues the commands of a tick, the heartbeat first.
func (f *Fleet) turn() *turn {
	t := &turn{at: f.now(), pipe: f.scripts.Pipeline()}
	t.calls = append(t.calls, f.queueHeartbeat(t))
	f.queuePending(t)
	t.calls = append(t.calls, f.queueDrains(t.pipe))
	tidy := f.dueToTidy(t.at)
	for _, p := range f.pools.Load().all {
		readings, places := p.take()
		packed := encodePlacements(places)
		t.sent = append(t.sent, message{p, readings})
		t.calls = append(t.calls, f.queueReadings(t, p, readings))
		if packed != "" {
			t.calls = append(t.calls, f.queuePlacements(t.pipe, p, packed))
		}
		t.calls = append(t.calls, f.queueLog(t, p))
		if tidy {
			f.queueTidy(t, errPressure, p.pressure, stale(p.readings, f.clock.when(t.at)))
		}
	}
	for _, o := range f.topics {
		f.queueTopic(t, o)
	}
	if tidy {
		f.tidied = t.at
		f.queueTidy(t, errDrain, keyDrain, f.expiredDrains(f.clock.when(t.at)))
	}
	f.queueRun(t)
	return t
}

// queueRun looks whether Redis has lost data, after everything else was written.
func (f *Fleet) queueRun(t *turn) {
	look := f.detector.Queue(context.Background(), t.pipe)
	t.calls = append(t.calls, call{t.calls[0].cmd, func() {
		loss, err := look()
		f.countProblem(errRun, keyRun, err)
		if loss == dataloss.None {
			return
		}
		f.metrics.lostData.Inc()
		now := f.now()
		f.lostAt.Store(&now)
		f.log.Error().Msg("fleet: Redis has lost data; replicas publish again what they know")
		for _, lost := range f.lost {
			lost()
		}
	}})
}

// failed handles a tick without any usable reply. Readings are sent again, until they are too old; placements
// are not, because some may have arrived.
func (f *Fleet) failed(t *turn) {
	f.metrics.errors.WithLabelValues(errRedis).Inc()
	for _, m := range t.sent {
		m.pool.giveBack(m.readings)
	}
	f.degrade()
}

// degrade keeps the members of the last successful tick.
func (f *Fleet) degrade() {
	now := f.now()
	v := f.view.Load()
	level := f.degradation.afterFailure(v.mode(now), now)
	if v != nil && v.mode(now) != level {
		older := *v
		older.level, older.since = level, now
		f.view.Store(&older)
	}
}

// setMembers takes over the live members.
func (f *Fleet) setMembers(members []string, at time.Time) {
	now := f.now()
	was, since := f.Mode(), f.Since()
	v := newView(members, at)
	if v.level = f.degradation.afterSuccess(was, now); v.level == was {
		v.since = since
	} else {
		v.since = now
	}
	f.view.Store(v)
	f.countReplicas(len(members), now)
}

// fewerAfter is how long fewer replicas must be live, in mode Shared, before Known decreases: after a flush
// or a failover they return one by one.
const fewerAfter = dropAfter

// countReplicas records the number of live replicas of a tick.
func (f *Fleet) countReplicas(n int, now time.Time) {
	switch {
	case int64(n) >= f.replicas.Load():
		f.replicas.Store(int64(n))
		f.fewerSince = time.Time{}
	case f.Mode() != Shared:
		f.fewerSince = time.Time{}
	case f.fewerSince.IsZero():
		f.fewerSince = now
	case now.Sub(f.fewerSince) >= fewerAfter:
		f.replicas.Store(int64(n))
		f.fewerSince = time.Time{}
	}
}

// showMode exports the mode, and logs a change.
func (f *Fleet) showMode() {
	mode, members := f.Mode(), f.Members()
	f.metrics.show(mode, len(members))
	why := f.heartbeatError
	f.lastError.Store(&why)
	if f.modeLogged && mode == f.mode {
		return
	}
	e := f.log.Warn().Err(f.heartbeatError)
	what := "fleet: who else lives cannot be read from Redis; this replica works alone"
	switch mode {
	case Shared:
		e, what = f.log.Info(), "fleet: shared with others through Redis"
	case Degraded:
		what = "fleet: who else lives cannot be read from Redis; the last members are believed for 1.5 s"
	}
	e.Str("mode", mode.String()).Int("replicas", len(members)).Int("known", f.Replicas()).Str("replica", f.self).Msg(what)
	f.modeLogged, f.mode = true, mode
}

// queueHeartbeat queues the heartbeat, whose reply has the live replicas and Redis' time.
func (f *Fleet) queueHeartbeat(t *turn) call {
	args := []any{f.self, goneAfter.Milliseconds(), dropAfter.Milliseconds(), maxMembers}
	return queue(t.pipe, beatScript, keyReplicas, args, func(now int64, wrong string, values []any) {
		f.clock = clock{ms: now, at: t.at}
		if wrong != "" {
			f.metrics.errors.WithLabelValues(errReplicas).Inc()
			f.heartbeatError = fmt.Errorf("%s: %s", keyReplicas, wrong)
			f.degrade()
			return
		}
		ids := make([]string, 0, len(values))
		for _, m := range values {
			id, _ := m.(string) // a value of another type is invalid, too
			ids = append(ids, id)
		}
		f.setMembers(liveMembers(ids, f.self), t.at)
	}, func(err error) {
		f.metrics.errors.WithLabelValues(errReplicas).Inc()
		f.heartbeatError = err
		f.degrade()
	})
}

// queueReadings sends a pool's readings and reads all.
func (f *Fleet) queueReadings(t *turn, p *pool, readings map[string]pressure.Reading) call {
	args := []any{maxBackends, "drop"}
	for backend, r := range readings {
		age := max(t.at.Sub(r.At), 0)
		tail, err := encodeReading(f.self, r)
		if err != nil || age > publishable {
			continue
		}
		args = append(args, backend, age.Milliseconds(), tail)
	}
	return queue(t.pipe, shareScript, p.pressure, args, func(now int64, wrong string, values []any) {
		if wrong == "" {
			f.countProblem(errPressure, p.pressure, nil)
		} else {
			f.countProblem(errPressure, p.pressure, errors.New(wrong))
		}
		if wrong == "" || len(values) > 0 { // if writing failed, reading may have worked
			f.receiveReadings(t, p, now, values)
		}
	}, func(err error) { f.countProblem(errPressure, p.pressure, err) })
}

// receiveReadings passes the new readings in a pool's hash to the pool.
func (f *Fleet) receiveReadings(t *turn, p *pool, now int64, values []any) {
	var wrong error
	next := p.spareReadings
	for id, value := range pairs(values) {
		old, known := p.readings[id]
		if known && old.value == value && !old.ahead {
			next[id] = old
			if old.broken {
				wrong = errNotOurs
			}
			continue
		}
		seq, source, r, err := decodeReading(value)
		_, stamped := stamp(value)
		next[id] = field{value: value, seq: seq, ahead: stamped && seq > now, broken: !stamped}
		switch {
		case err != nil:
			wrong = fmt.Errorf("field %.64q: %w", id, err)
			f.metrics.errors.WithLabelValues(errReading).Inc()
		case seq <= now && source != f.self:
			r.At = t.at.Add(-time.Duration(now-seq) * time.Millisecond)
			p.ReceiveReading(id, r) // if the pool has no such backend now, it may later
		}
	}
	clear(p.readings)
	p.readings, p.spareReadings = next, p.readings
	f.logChange(errReading+" "+p.name, p.pressure, wrong)
}

// dueToTidy reports whether it is this replica's turn to delete unused fields.
func (f *Fleet) dueToTidy(at time.Time) bool {
	v := f.view.Load()
	return v.mode(at) == Shared && v.members[0] == f.self && at.Sub(f.tidied) >= tidyEvery
}

// queueTidy queues the deletion of fields, if there are any.
func (f *Fleet) queueTidy(t *turn, kind, key string, args []any) {
	if len(args) > 0 {
		t.calls = append(t.calls, f.counted(tidyScript.EvalSha(context.Background(), t.pipe, []string{key}, args...), kind))
	}
}

// counted is a call whose errors are only counted. The reader of the key logs them.
func (f *Fleet) counted(cmd redis.Cmder, kind string) call {
	return call{cmd, func() {
		if cmd.Err() != nil {
			f.metrics.errors.WithLabelValues(kind).Inc()
		}
	}}
}

// stale returns the fields of a hash of readings that are not renewed, with their values.
func stale(entries map[string]field, now int64) []any {
	var old []any
	for id, v := range entries {
		far := max(now-v.seq, v.seq-now)
		if v.broken || far > tidyAfter.Milliseconds() {
			old = append(old, id, v.value)
		}
		if len(old) >= 2*maxTidied {
			break
		}
	}
	return old
}

// queuePlacements queues this replica's entry in a pool's log.
func (f *Fleet) queuePlacements(pipe redis.Pipeliner, p *pool, packed string) call {
	return f.counted(pipe.XAdd(context.Background(), &redis.XAddArgs{
		Stream: p.placed, MaxLen: keptEntries, Approx: true, Values: []any{"by", f.self, "said", packed},
	}), errPlaced)
}

// queueLog reads the new entries of a pool's log. A new replica begins at its end. So does one whose last
// entry is ahead of Redis' clock: after the clock was set back, the ids of a new log would be lower for
// hours.
func (f *Fleet) queueLog(t *turn, p *pool) call {
	ahead := p.lastEntry.ms > uint64(max(f.clock.ms, 0))+slack
	back := !p.logRead || ahead
	ctx := context.Background()
	var cmd redis.Cmder
	if back {
		cmd = t.pipe.XRevRangeN(ctx, p.placed, "+", "-", firstRead)
	} else {
		cmd = t.pipe.XRead(ctx, &redis.XReadArgs{Streams: []string{p.placed, p.lastEntry.String()}, Count: readEntries, Block: -1})
	}
	return call{cmd, func() {
		entries, err := entriesOf(cmd)
		f.countProblem(errPlaced, p.placed, err)
		if err == nil {
			f.receivePlacements(t, p, entries, back)
		}
	}}
}

// receivePlacements passes other replicas' placements to a pool.
func (f *Fleet) receivePlacements(t *turn, p *pool, entries []entry, back bool) {
	if back && (len(entries) == 0 || p.lastEntry.after(entries[len(entries)-1].id)) {
		p.lastEntry = entryID{} // it is another log
	}
	p.logRead = true
	var placements []prefix.Placement
	var wrong error
	for _, e := range entries {
		if !e.id.after(p.lastEntry) {
			continue
		}
		p.lastEntry = e.id
		old := f.clock.when(t.at) - int64(min(e.id.ms, maxSeq))
		if e.by == f.self || old > warmFor.Milliseconds() {
			continue
		}
		var err error
		if placements, err = decodePlacements(placements, e.placements); err != nil {
			f.metrics.errors.WithLabelValues(errPlacement).Inc()
			wrong = fmt.Errorf("entry %s: %w", e.id, err)
		}
	}
	if len(entries) > 0 {
		f.logChange(errPlacement+" "+p.name, p.placed, wrong)
	}
	if len(placements) > 0 {
		p.ReceivePlacements(placements)
	}
}

// leave removes this replica from the set.
func (f *Fleet) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := f.redis.ZRem(ctx, keyReplicas, f.self).Err(); err != nil {
		f.metrics.errors.WithLabelValues(errRedis).Inc()
		f.log.Warn().Err(err).Msg("fleet: cannot leave; others take over in " + strconv.Itoa(int(goneAfter.Milliseconds())) + " ms")
	}
}
