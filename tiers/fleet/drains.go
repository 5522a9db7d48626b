package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Errors of [Fleet.Drain] and [Fleet.Undrain].
var (
	ErrNoRedis = errors.New("fleet: there is no Redis to share through")
	ErrNoPool  = errors.New("fleet: no such pool")
	ErrFull    = errors.New("fleet: 4096 drains are too many")
)

// topicDrains names the topic of drains, by "<pool>/<backend>". Each replica knows all, and of two orders about a backend the later
// one: so what Redis has lost is told again by any.
const topicDrains = "drains:1"

const (
	maxDrains = 4096
	maxWhy    = 256 // bytes of a reason that is stored
	// keepDrain is how long an end is known, for replicas that are cut off meanwhile.
	keepDrain = 24 * time.Hour
)

// drain is the last order about a backend.
type drain struct {
	Why    string `json:"why,omitempty"`
	At     int64  `json:"at"`               // ms by Redis' clock, later than that of the order before
	Until  int64  `json:"until,omitempty"`  // as above; 0: no end
	Undone bool   `json:"undone,omitempty"` // the backend is drained no more
}

// active reports whether the backend is drained.
func (d drain) active(now int64) bool { return !d.Undone && (d.Until == 0 || now < d.Until) }

// now is Redis' time as far as it is known. The caller holds drainMu.
func (f *Fleet) now() int64 {
	at := time.Now()
	if f.clock.at.IsZero() {
		return at.UnixMilli()
	}
	return f.clock.when(at)
}

// Drain tells all replicas to send nothing more to a backend, for d, or until Undrain if d is 0. It is in force here at once, and
// when it returns Redis has it; others have it at their next tick. If Redis cannot store it within 1.5 s, that is an error, and Redis
// is told as soon as it can be. Up to 256 bytes of why are stored.
func (f *Fleet) Drain(ctx context.Context, pool, backend, why string, d time.Duration) error {
	if d < 0 || d.Milliseconds() == 0 && d > 0 {
		return fmt.Errorf("fleet: a drain of %s is too short", d)
	}
	return f.order(ctx, pool, backend, drain{Why: strings.ToValidUTF8(why[:min(len(why), maxWhy)], ""), Until: d.Milliseconds()})
}

// Undrain ends a drain; a backend that is not drained is no error.
func (f *Fleet) Undrain(ctx context.Context, pool, backend string) error {
	return f.order(ctx, pool, backend, drain{Undone: true})
}

// order takes an order, whose Until is from now on, and shares it.
func (f *Fleet) order(ctx context.Context, pool, backend string, d drain) error {
	switch {
	case f.pool(pool) == nil:
		return fmt.Errorf("%w: %q", ErrNoPool, pool)
	case backend == "" || len(backend) > maxID:
		return fmt.Errorf("fleet: backend id %.64q is not 1 to %d bytes long", backend, maxID)
	}
	field := pool + "/" + backend
	if !f.setDrain(field, d) {
		return ErrFull
	}
	if err := f.Share(ctx); err != nil {
		return fmt.Errorf("fleet: drain of %s: %w", field, err)
	}
	return nil
}

// setDrain puts an order of this replica into force. False: there are too many.
func (f *Fleet) setDrain(field string, d drain) bool {
	f.drainMu.Lock()
	defer f.drainMu.Unlock()
	was, known := f.drains[field]
	if !known && len(f.drains) >= maxDrains {
		return false
	}
	now := f.now()
	if d.At = max(now, was.At+1); d.Undone && (!known || !was.active(now)) {
		d.At += slack // another replica may have drained it a moment ago
	}
	if d.Until > 0 {
		d.Until += now
	}
	f.drains[field] = d
	f.applyDrains()
	return true
}

// tellDrains returns all orders but those of an end that all have heard of, which are forgotten.
func (f *Fleet) tellDrains() map[string]string {
	f.drainMu.Lock()
	defer f.drainMu.Unlock()
	out, now := map[string]string{}, f.now()
	for field, d := range f.drains {
		if !d.active(now) && now-max(d.At, d.Until) > keepDrain.Milliseconds() {
			delete(f.drains, field)
		} else if text, err := json.Marshal(d); err == nil {
			out[field] = string(text)
		}
	}
	return out
}

// takeDrain takes over an order of another replica, if it is later than what is known.
func (f *Fleet) takeDrain(field, text string, _ time.Duration) {
	var d drain
	if json.Unmarshal([]byte(text), &d) != nil || len(d.Why) > maxWhy || min(d.At, d.Until) < 0 || max(d.At, d.Until) > maxTime {
		f.metrics.errors.WithLabelValues(errDrain).Inc()
		return
	}
	f.drainMu.Lock()
	defer f.drainMu.Unlock()
	if was, known := f.drains[field]; known && d.At <= was.At || !known && len(f.drains) >= maxDrains {
		return
	}
	f.drains[field] = d
}

// maxTime is later than any time, in ms.
const maxTime = 1 << 52

// applyDrains updates every pool whose drains changed: by an order, or because one is over. The caller holds drainMu.
func (f *Fleet) applyDrains() {
	now := f.now()
	for _, p := range f.pools.Load().all {
		drained := map[string]string{}
		for field, d := range f.drains {
			if backend, ok := strings.CutPrefix(field, p.name+"/"); ok && backend != "" && d.active(now) {
				drained[backend] = d.Why
			}
		}
		if !maps.Equal(drained, p.drained) {
			p.drained = drained
			p.ReceiveDrains(maps.Clone(drained))
		}
	}
}

// updateDrains is applyDrains with the lock.
func (f *Fleet) updateDrains() {
	f.drainMu.Lock()
	defer f.drainMu.Unlock()
	f.applyDrains()
}
