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

	errNoClock  = errors.New("the time of Redis is not known")
	errReplaced = errors.New("another order for the backend came")
)

const (
	maxWhy    = 256     // bytes of a reason that is stored
	maxDrain  = 2048    // bytes of a stored drain: a reason of 256 bytes, escaped
	maxUntil  = 1 << 52 // ms
	orderTime = 1500 * time.Millisecond
	keepEnded = time.Minute // a drain that has ended is removed after it
)

// drain is a stored drain. All versions read it.
type drain struct {
	Why   string `json:"why"`
	Until int64  `json:"until"` // ms by Redis' clock; 0: no end

	value  string
	broken bool
}

// expired reports whether a drain has ended.
func (d drain) expired(now int64) bool { return d.Until > 0 && d.Until <= now }

// decodeDrain parses a stored drain. An operator may have typed it: missing parts are empty.
func decodeDrain(value string) (d drain) {
	d.broken = len(value) > maxDrain || json.Unmarshal([]byte(value), &d) != nil || d.Until < 0 || d.Until > maxUntil
	d.value = value
	return d
}

// order is an operator's, or a drain that Redis has lost: it is sent in each tick until Redis has stored it, or the drain
// has ended.
type order struct {
	undrain bool // such an order is not sent again
	why     string
	until   time.Time  // local; zero: no end
	result  chan error // of the first try
}

// value is a drain as it is stored.
func (o *order) value(c clock) string {
	d := drain{Why: o.why}
	if !o.until.IsZero() {
		d.Until = c.when(o.until)
	}
	text, err := json.Marshal(d)
	if err != nil { // a text and a number have none
		return "{}"
	}
	return string(text)
}

// Drain tells all replicas to send nothing more to a backend, for d, or until Undrain if d is 0. It returns when Redis has
// stored it and this replica has applied it, within 1.5 s; others do at their next tick. If Redis cannot store it now, that
// is an error, and Redis is told as soon as it can, unless Undrain comes first. Up to 256 bytes of why are stored.
func (f *Fleet) Drain(ctx context.Context, pool, backend, why string, d time.Duration) error {
	if d < 0 || d.Milliseconds() == 0 && d > 0 {
		return fmt.Errorf("fleet: a drain of %s is too short", d)
	}
	o := &order{why: strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")}
	if d > 0 {
		o.until = time.Now().Add(d)
	}
	return f.give(ctx, pool, backend, o)
}

// Undrain ends a drain; a backend that is not drained is no error.
func (f *Fleet) Undrain(ctx context.Context, pool, backend string) error {
	return f.give(ctx, pool, backend, &order{undrain: true})
}

// give has the next tick carry out an order, and waits for its result.
func (f *Fleet) give(ctx context.Context, pool, backend string, o *order) error {
	switch {
	case f.redis == nil:
		return ErrNoRedis
	case f.pool(pool) == nil:
		return fmt.Errorf("%w: %q", ErrNoPool, pool)
	case backend == "" || len(backend) > maxID:
		return fmt.Errorf("fleet: backend id %.64q is not 1 to %d bytes long", backend, maxID)
	}
	field := pool + "/" + backend
	o.result = make(chan error, 1)
	f.queueMu.Lock()
	if old := f.orders[field]; old != nil {
		old.answer(errReplaced)
	}
	f.orders[field] = o
	f.queueMu.Unlock()
	f.Wake()
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	var err error
	select {
	case err = <-o.result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	if o.undrain || errors.Is(err, ErrFull) {
		f.finish(field, o)
	}
	return fmt.Errorf("fleet: drain of %s: %w", field, err)
}

// answer tells who gave the order what came of its first try.
func (o *order) answer(err error) {
	select {
	case o.result <- err: // a lost drain has no channel
	default:
	}
}

// finish forgets an order.
func (f *Fleet) finish(field string, o *order) {
	f.queueMu.Lock()
	defer f.queueMu.Unlock()
	if f.orders[field] == o {
		delete(f.orders, field)
	}
}

// queueDrains carries out the orders, and reads all drains. If there are too many, they are not deleted, unlike texts,
// because operators made them.
func (f *Fleet) queueDrains(t *turn) {
	ctx := context.Background() // the round trip has the deadline
	f.queueMu.Lock()
	orders := maps.Clone(f.orders)
	f.queueMu.Unlock()
	for field, o := range orders {
		_, known := f.drains[field]
		var cmd redis.Cmder
		switch {
		case !o.until.IsZero() && !t.at.Before(o.until):
			f.finish(field, o)
			continue
		case o.undrain:
			cmd = t.pipe.HDel(ctx, keyDrain, field)
		case f.clock.at.IsZero() && !o.until.IsZero():
			o.answer(errNoClock)
			continue
		case !known && len(f.drains) >= maxDrains:
			o.answer(ErrFull)
			continue
		default:
			cmd = t.pipe.HSet(ctx, keyDrain, field, o.value(f.clock))
		}
		t.calls = append(t.calls, call{cmd: cmd, kind: errDrain, key: keyDrain, done: func(err error) {
			if err == nil {
				f.finish(field, o)
			}
			t.answers = append(t.answers, func() { o.answer(err) })
		}})
	}
	all := t.pipe.HGetAll(ctx, keyDrain)
	t.calls = append(t.calls, call{cmd: all, kind: errDrain, key: keyDrain, receive: func() error {
		return f.receiveDrains(t, all.Val())
	}})
}

// receiveDrains processes the hash of drains. What Redis has lost is ordered again.
func (f *Fleet) receiveDrains(t *turn, all map[string]string) (wrong error) {
	if len(all) > maxDrains {
		return fmt.Errorf("more than %d fields", maxDrains) // existing drains remain
	}
	next := make(map[string]drain, len(all))
	for field, value := range all {
		d, known := f.drains[field]
		if !known || d.value != value {
			d = decodeDrain(value)
		}
		if d.broken {
			wrong = fmt.Errorf("field %.64q is no drain", field)
		}
		next[field] = d
	}
	if t.lost {
		f.orderAgain(t, next)
	}
	f.drains = next
	return wrong
}

// orderAgain puts the drains into next that Redis has lost, and orders them again.
func (f *Fleet) orderAgain(t *turn, next map[string]drain) {
	f.queueMu.Lock()
	defer f.queueMu.Unlock()
	for field, d := range f.drains {
		if _, there := next[field]; there || d.broken || d.expired(f.clock.when(t.at)) || f.orders[field] != nil {
			continue
		}
		next[field] = d
		o := &order{why: d.Why}
		if d.Until > 0 {
			o.until = t.at.Add(time.Duration(d.Until-f.clock.when(t.at)) * time.Millisecond)
		}
		f.orders[field] = o
	}
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

// ended are the drains that ended a while ago.
func (f *Fleet) ended(now int64) (fields []string) {
	for field, d := range f.drains {
		if d.expired(now - keepEnded.Milliseconds()) {
			fields = append(fields, field)
		}
	}
	return fields
}
