package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors of [Fleet.Drain] and [Fleet.Undrain].
var (
	ErrNoRedis = errors.New("fleet: there is no Redis to share a drain through")
	ErrNoPool  = errors.New("fleet: no such pool")
	ErrFull    = errors.New("fleet: 4096 drains are too many")
)

// pendingDrain is a drain that Redis could not be told: it is sent again in each tick, until it ends.
type pendingDrain struct {
	head  string    // of the stored value, up to its end
	until time.Time // local; zero: no end
}

// Drain tells all replicas to send nothing more to a backend, for d, or until Undrain if d is 0. It returns
// when Redis has stored it, within 1.5 s; this replica applies it at once, others at their next tick. If Redis cannot
// store it now, that is an error, and Redis is told as soon as it can, unless Undrain comes first. It does
// not check whether the backend exists. Up to 256 bytes of why are stored.
func (f *Fleet) Drain(ctx context.Context, pool, backend, why string, d time.Duration) error {
	field, err := f.drainField(pool, backend)
	if err != nil {
		return err
	}
	if d < 0 || d.Milliseconds() == 0 && d > 0 {
		return fmt.Errorf("fleet: a drain of %s is too short", d)
	}
	text, err := json.Marshal(strings.ToValidUTF8(why[:min(len(why), maxWhy)], ""))
	if err != nil {
		return fmt.Errorf("fleet: drain: %w", err)
	}
	o := pendingDrain{head: `{"why":` + string(text) + `,"until":`}
	if d > 0 {
		o.until = f.now().Add(d)
	}
	pipe := f.scripts.Pipeline()
	cmd := f.sendDrain(pipe, field, o)
	if err := f.once(ctx, pipe, cmd); err != nil {
		f.addPending(field, o)
		return fmt.Errorf("fleet: drain: %w", err)
	}
	f.dropPending(field)
	if cmd.Val() == int64(0) {
		return ErrFull
	}
	return nil
}

// sendDrain adds a drain to a pipeline.
func (f *Fleet) sendDrain(pipe redis.Pipeliner, field string, o pendingDrain) *redis.Cmd {
	left := time.Duration(0)
	if !o.until.IsZero() {
		left = max(o.until.Sub(f.now()), time.Millisecond)
	}
	return drainScript.EvalSha(context.Background(), pipe, []string{keyDrain}, maxDrains, field, o.head, left.Milliseconds())
}

// addPending notes a drain to be sent later.
func (f *Fleet) addPending(field string, o pendingDrain) {
	f.pendingMu.Lock()
	defer f.pendingMu.Unlock()
	if len(f.pending) < maxDrains {
		f.pending[field] = o
	}
}

// dropPending forgets a drain that was to be sent later.
func (f *Fleet) dropPending(field string) {
	f.pendingMu.Lock()
	defer f.pendingMu.Unlock()
	delete(f.pending, field)
}

// queuePending sends the drains that Redis could not be told.
func (f *Fleet) queuePending(t *turn) {
	f.pendingMu.Lock()
	defer f.pendingMu.Unlock()
	for field, o := range f.pending {
		if !o.until.IsZero() && !t.at.Before(o.until) {
			delete(f.pending, field)
			continue
		}
		cmd := f.sendDrain(t.pipe, field, o)
		t.calls = append(t.calls, call{cmd, func() {
			if cmd.Err() != nil {
				f.metrics.errors.WithLabelValues(errDrain).Inc()
				return
			}
			f.dropPending(field) // also if there are too many
		}})
	}
}

// Undrain ends a drain; a backend that is not drained is no error.
func (f *Fleet) Undrain(ctx context.Context, pool, backend string) error {
	field, err := f.drainField(pool, backend)
	if err != nil {
		return err
	}
	f.dropPending(field)
	pipe := f.scripts.Pipeline()
	if err := f.once(ctx, pipe, pipe.HDel(ctx, keyDrain, field)); err != nil {
		return fmt.Errorf("fleet: undrain: %w", err)
	}
	return nil
}

// once sends a pipeline of one command outside a tick, and starts a tick that reads the change.
func (f *Fleet) once(ctx context.Context, pipe redis.Pipeliner, cmd redis.Cmder) error {
	err := f.exchange(ctx, pipe)
	if err == nil {
		err = cmd.Err()
	}
	f.wake()
	return err
}

// drainField is the field of a backend's drain.
func (f *Fleet) drainField(pool, backend string) (string, error) {
	switch {
	case f.redis == nil:
		return "", ErrNoRedis
	case f.pool(pool) == nil:
		return "", fmt.Errorf("%w: %q", ErrNoPool, pool)
	case backend == "" || len(backend) > maxID:
		return "", fmt.Errorf("fleet: backend id %.64q is not 1 to %d bytes long", backend, maxID)
	}
	return pool + "/" + backend, nil
}

// queueDrains reads all drains. If there are too many, they are not deleted, unlike readings, because
// operators made them.
func (f *Fleet) queueDrains(pipe redis.Pipeliner) call {
	return queue(pipe, shareScript, keyDrain, []any{maxDrains, "keep"}, func(_ int64, wrong string, values []any) {
		if wrong != "" {
			f.countProblem(errDrain, keyDrain, errors.New(wrong)) // existing drains remain
			return
		}
		f.countProblem(errDrain, keyDrain, nil)
		f.receiveDrains(values)
	}, func(err error) { f.countProblem(errDrain, keyDrain, err) })
}

// receiveDrains processes the hash of drains.
func (f *Fleet) receiveDrains(values []any) {
	var wrong error
	next := make(map[string]drain, len(values)/2)
	for field, value := range pairs(values) {
		d, known := f.drains[field]
		if !known || d.value != value {
			var err error
			if d, err = decodeDrain(value); err != nil {
				f.metrics.errors.WithLabelValues(errWhy).Inc()
				d.broken = true
			}
			d.value = value
		}
		if d.broken {
			wrong = fmt.Errorf("field %.64q is no drain", field)
		}
		next[field] = d
	}
	f.drains = next
	f.logChange(errWhy, keyDrain, wrong)
}

// applyDrains updates every pool whose drains changed: by Redis, or because one expired, which works without
// Redis.
func (f *Fleet) applyDrains(now int64) {
	for _, p := range f.pools.Load().all {
		drained := map[string]string{}
		for field, d := range f.drains {
			if backend, ok := strings.CutPrefix(field, p.name+"/"); ok && backend != "" && !d.broken && !d.expired(now) {
				drained[backend] = d.Why
			}
		}
		if !maps.Equal(drained, p.drained) {
			p.drained = drained
			p.ReceiveDrains(maps.Clone(drained))
		}
	}
}

// expiredDrains returns the expired drains with their values, for deletion.
func (f *Fleet) expiredDrains(now int64) []any {
	var ended []any
	for field, d := range f.drains {
		if d.expired(now) && len(ended) < 2*maxTidied {
			ended = append(ended, field, d.value)
		}
	}
	return ended
}
