package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

const (
	// period is between two readings of Redis.
	period = time.Second
	// askedFor is how long the view of a key is kept up to date that nobody asks for.
	askedFor = 10 * time.Minute
	// tidyEvery is between two looks for keys that nobody uses, tidied how many are looked at.
	tidyEvery, tidied = time.Minute, 16
	// keptFor is how long a key is kept that nobody uses, and fullFor where there are [mostKeys].
	keptFor, fullFor = 7 * 24 * time.Hour, time.Hour
	// batch is how many states are read at once.
	batch = 64
)

// views are the states that requests go by, as they were last seen.
type views struct {
	mu    sync.RWMutex
	known map[risk.Key]*view // mostKeys at most
}

type view struct {
	asked atomic.Int64 // unix ns
	seen  atomic.Pointer[seen]
	met   atomic.Bool // a request was told that it is the first
}

// seen is a state that Redis had at a time or later.
type seen struct {
	risk.State
	at time.Time
}

// ask is the view of a key, which is kept up to date from then on.
func (v *views) ask(k risk.Key, now time.Time) *view {
	v.mu.RLock()
	e := v.known[k]
	v.mu.RUnlock()
	if e == nil {
		if _, err := nameOf(k); err != nil {
			return &view{} // nothing will ever be known of it
		}
		e = v.add(k)
	}
	e.asked.Store(now.UnixNano())
	return e
}

// add makes room for another key: that which was not asked for the longest goes.
func (v *views) add(k risk.Key) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.known[k]; e != nil {
		return e
	}
	if v.known == nil {
		v.known = make(map[risk.Key]*view)
	}
	for len(v.known) >= mostKeys {
		var oldest risk.Key
		var at *view
		for k, e := range v.known {
			if at == nil || e.asked.Load() < at.asked.Load() {
				oldest, at = k, e
			}
		}
		delete(v.known, oldest)
	}
	e := &view{}
	v.known[k] = e
	return e
}

// learn takes over a state of a key that is asked for. One that was asked earlier than what is
// known is no news. A warm-up is not begun anew by a Redis that has forgotten it.
func (v *views) learn(k risk.Key, s risk.State, asked time.Time) {
	v.mu.RLock()
	e := v.known[k]
	v.mu.RUnlock()
	if e == nil {
		return
	}
	for {
		was, next := e.seen.Load(), &seen{s, asked}
		if was != nil {
			next.Warmup = s.Warmup.After(was.Warmup)
		}
		if was != nil && was.at.After(asked) || e.seen.CompareAndSwap(was, next) {
			return
		}
	}
}

// wanted are the keys that were asked for of late; the others are forgotten.
func (v *views) wanted(now time.Time) []risk.Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := make([]risk.Key, 0, len(v.known))
	for k, e := range v.known {
		if now.UnixNano()-e.asked.Load() > askedFor.Nanoseconds() {
			delete(v.known, k)
		} else {
			keys = append(keys, k)
		}
	}
	return keys
}

// listing is which keys Redis had at a time.
type listing struct {
	names map[string]bool
	at    time.Time
}

// View is what requests of a key go by: never more than a second old while Redis answers. It
// does not wait. Of a key that was never asked for before, and that Redis has, nothing is known, and Seen is zero; so it is
// while Redis takes no word of what warm-ups serve. Where Redis has no such key, and room for it, one caller is told that it is New;
// without a Redis all are, until [Book.Drafted] is told of the first. A view that is too old serves nothing, unless [Options.StaleServes].
func (b *Book) View(k risk.Key) risk.View {
	r, now := b.opts.Rule(k.Route), b.now()
	if b.local != nil {
		return b.local.view(r, k)
	}
	asked := b.views.ask(k, now)
	known := asked.seen.Load()
	if known == nil {
		v := new(risk.State).View(r)
		if l := b.listed.Load(); l != nil && !l.names[k.String()] && !b.drafted.untold(now) {
			v.Seen, v.New = l.at, len(l.names) < mostKeys && asked.met.CompareAndSwap(false, true)
		}
		return v
	}
	s := known.State
	if now.Sub(known.at) > b.opts.Stale(k.Route) && !b.opts.StaleServes(k.Route) {
		s.Op = 0
	}
	v := s.View(r)
	if v.Seen = known.at; b.drafted.untold(now) {
		v.Seen = time.Time{}
	}
	return v
}

// Run refreshes the views of the keys that were asked for of late, once a second, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	t := time.NewTicker(period)
	defer t.Stop()
	var swept time.Time
	for {
		b.tellDrafted(ctx)
		b.tick(ctx)
		if now := b.now(); now.Sub(swept) >= tidyEvery {
			b.tidy(ctx)
			swept = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// tick reads all that views need in one round trip, and the calibrated scores that are news in
// another.
func (b *Book) tick(ctx context.Context) {
	if b.local != nil {
		return
	}
	now := b.now()
	keys := b.views.wanted(now)
	routes := b.maps.wanted(now)
	states := make([]*redis.SliceCmd, len(keys))
	var lists *redis.SliceCmd
	var index *redis.StringSliceCmd
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) {
		index = p.ZRange(ctx, keyIndex, 0, mostKeys)
		lists = p.HMGet(ctx, keyMaps, append([]string{versionsOf("")}, each(routes, versionsOf)...)...)
		for i, k := range keys {
			states[i] = p.HMGet(ctx, keyRisk+k.String(), viewed...)
		}
	})
	if err != nil {
		return
	}
	if found, err := index.Result(); err == nil {
		b.listed.Store(listingOf(found, now))
	}
	for i, k := range keys {
		f, err := fieldsOf(viewed, states[i])
		if err != nil {
			b.doubt(k, err, now)
			continue
		}
		s, err := viewOf(f)
		if err != nil {
			b.doubt(k, err, now)
			continue
		}
		b.views.learn(k, s, now)
	}
	if err := lists.Err(); err != nil {
		b.health.note(refused, err)
	} else if err := b.hearMaps(ctx, routes, lists.Val()[1:]); err != nil {
		return
	}
	b.health.well()
}

// listingOf is of the names of the index.
func listingOf(names []string, at time.Time) *listing {
	l := &listing{names: make(map[string]bool, len(names)), at: at}
	for _, name := range names {
		l.names[name] = true
	}
	return l
}

// doubt is for a state that could not be read: it grows old where Redis refuses, and is nothing
// where it is not ours.
func (b *Book) doubt(k risk.Key, err error, now time.Time) {
	err = fmt.Errorf("%.200s: %w", k, err)
	if refusal(err) {
		b.health.note(refused, err)
		return
	}
	b.health.note(foreign, err)
	b.views.learn(k, risk.State{}, now)
}

// fieldsOf is the reply to a reading of fields.
func fieldsOf(names []string, cmd *redis.SliceCmd) (fields, error) {
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	return named(names, cmd.Val())
}

// tidy forgets some of the keys that nobody uses.
func (b *Book) tidy(ctx context.Context) {
	if b.local != nil {
		b.local.tidy()
		return
	}
	offered, err := b.oldest(ctx, tidied)
	if err != nil || len(offered) == 0 {
		return
	}
	keys, args := []string{keyIndex}, []any{0, mostKeys, int(keptFor.Seconds()), int(fullFor.Seconds())}
	for _, o := range offered {
		keys, args = append(keys, keyRisk+o.name), append(args, o.name)
	}
	_, _ = b.call(ctx, forgetScript, keys, args...) // noted; it is tried again in a minute
}

// indexed is a name in the index of keys, and when it was used last, to the minute.
type indexed struct {
	name string
	used time.Time
}

// oldest are the keys that were not used for the longest.
func (b *Book) oldest(ctx context.Context, most int) ([]indexed, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	found, err := b.opts.Redis.ZRangeWithScores(ctx, keyIndex, 0, int64(most)-1).Result()
	if err != nil {
		return nil, b.failed(err)
	}
	out := make([]indexed, 0, len(found))
	for _, z := range found {
		if name, ok := z.Member.(string); ok {
			out = append(out, indexed{name, time.Unix(int64(z.Score), 0)})
		}
	}
	return out, nil
}

// All returns the states of every key that Redis holds (1,024 at most), sorted by key. Those that
// are not ours are left out.
func (b *Book) All(ctx context.Context) ([]Known, error) {
	if b.local != nil {
		return b.local.all(b.opts.Rule), nil
	}
	found, err := b.oldest(ctx, mostKeys)
	if err != nil {
		return nil, err
	}
	var keys []risk.Key
	used := map[risk.Key]time.Time{}
	for _, f := range found {
		if k, ok := keyOf(f.name); ok {
			keys, used[k] = append(keys, k), f.used
		}
	}
	var out []Known
	for some := range slices.Chunk(keys, batch) {
		states, err := b.read(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, k := range some {
			switch s := states[i]; {
			case s.err != nil && refusal(s.err):
				b.health.note(refused, s.err)
			case s.err != nil:
				b.health.note(foreign, s.err)
			case !s.gone:
				out = append(out, Known{k, s.State, b.opts.Rule(k.Route), used[k]})
			}
		}
	}
	slices.SortFunc(out, func(a, b Known) int { return compare(a.Key, b.Key) })
	return out, nil
}

// looked is a state that was read, or why it could not be.
type looked struct {
	whole
	err error
}

// read reads whole states.
func (b *Book) read(ctx context.Context, keys []risk.Key) ([]looked, error) {
	cmds := make([]*redis.SliceCmd, len(keys))
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, k := range keys {
			cmds[i] = p.HMGet(ctx, keyRisk+k.String(), names...)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]looked, len(keys))
	for i := range keys {
		f, err := fieldsOf(names, cmds[i])
		if err == nil {
			out[i].whole, err = wholeOf(f)
		}
		if err != nil {
			out[i].err = errors.Join(err, fmt.Errorf("of %.200s", keys[i]))
		}
	}
	return out, nil
}
