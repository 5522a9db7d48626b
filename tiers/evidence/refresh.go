package evidence

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// tidyEvery is the time between two searches for unused keys, tidied the number of keys per search.
	tidyEvery, tidied = time.Minute, 16
	// batch is the number of states per read.
	batch = 64
)

// View is the evidence that requests of a key use, at most a second old while Redis answers. It does not
// block. Seen is zero if nothing is known: on the first request for a key that Redis has, and while Redis
// accepts no counts of warm-ups. If Redis has no such key and space for it, one caller gets New; without a
// Redis all callers do, until [Store.Drafted] was called first. A view that is too old serves nothing.
func (b *Store) View(k risk.Key) risk.View {
	r, now := b.opts.Rule(k.Route), b.now()
	if b.local != nil {
		return b.local.view(r, k)
	}
	asked := b.views.ask(k, now)
	known := asked.seen.Load()
	if known == nil {
		v := new(risk.State).View(r)
		if l := b.listed.Load(); l != nil && !l.names[k.String()] && !b.drafted.syncOverdue(now) {
			v.Seen, v.New = l.at, len(l.names) < maxKeys && asked.met.CompareAndSwap(false, true)
		}
		return v
	}
	v := known.View(r)
	if now.Sub(known.at) > b.opts.Stale(k.Route) {
		v = known.StaleView(r)
	}
	if v.Seen = known.at; b.drafted.syncOverdue(now) {
		v.Seen = time.Time{}
	}
	return v
}

// Run refreshes the views of the recently used keys, once a second, until ctx ends.
func (b *Store) Run(ctx context.Context) error {
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

// tick reads everything for the views in one round trip.
func (b *Store) tick(ctx context.Context) {
	if b.local != nil {
		return
	}
	now := b.now()
	keys := b.views.recentKeys(now)
	states := make([]*redis.SliceCmd, len(keys))
	var index *redis.StringSliceCmd
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) {
		index = p.ZRange(ctx, keyIndex, 0, maxKeys)
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
}

// doubt handles a state that could not be read: it becomes stale if Redis refuses, and empty if it is
// foreign.
func (b *Store) doubt(k risk.Key, err error, now time.Time) {
	err = fmt.Errorf("%.200s: %w", k, err)
	if script.Answered(err) {
		b.health.note(refused, err)
		return
	}
	b.health.note(foreign, err)
	b.views.learn(k, risk.State{}, now)
}

// tidy deletes some unused keys.
func (b *Store) tidy(ctx context.Context) {
	if b.local != nil {
		b.local.tidy()
		return
	}
	offered, err := b.oldest(ctx, tidied)
	if err != nil || len(offered) == 0 {
		return
	}
	keys, args := []string{keyIndex}, []any{0, maxKeys, int(keptFor.Seconds()), int(fullFor.Seconds())}
	for _, o := range offered {
		keys, args = append(keys, keyRisk+o.name), append(args, o.name)
	}
	_, _ = b.call(ctx, forgetScript, keys, args...) // counted; it is tried again in a minute
}

// indexed is a name in the index of keys, with its last use, to the minute.
type indexed struct {
	name string
	used time.Time
}

// oldest returns the keys with the oldest last use.
func (b *Store) oldest(ctx context.Context, maxCount int) ([]indexed, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	found, err := b.opts.Redis.ZRangeWithScores(ctx, keyIndex, 0, int64(maxCount)-1).Result()
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

// All returns the states of every key in Redis (at most 1,024), sorted by key. Foreign ones are left out.
func (b *Store) All(ctx context.Context) ([]KeyState, error) {
	if b.local != nil {
		return b.local.all(b.opts.Rule), nil
	}
	found, err := b.oldest(ctx, maxKeys)
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
	var out []KeyState
	for some := range slices.Chunk(keys, batch) {
		states, err := b.read(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, k := range some {
			switch s := states[i]; {
			case s.err != nil && script.Answered(s.err):
				b.health.note(refused, s.err)
			case s.err != nil:
				b.health.note(foreign, s.err)
			case !s.missing:
				out = append(out, KeyState{k, s.State, b.opts.Rule(k.Route), used[k]})
			}
		}
	}
	slices.SortFunc(out, func(a, b KeyState) int { return compare(a.Key, b.Key) })
	return out, nil
}
