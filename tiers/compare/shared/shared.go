// Package shared keeps what [compare.Recorder] is told in Redis, summed over all replicas. Start at [Store].
//
// Each batch has an id that Redis remembers for an hour, so one whose reply was lost is sent again and counted once. A batch
// that Redis did not confirm within 30 minutes is dropped.
package shared

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/compare"
)

// Keys in Redis: the pairs by the time of their last change, ids of batches, and a hash of sums per pair. They are deleted
// 30 days after their last change.
const (
	keyPairs = "foregate:{fg}:compare:pairs"
	keySent  = "foregate:{fg}:compare:sent"
	keySums  = "foregate:{fg}:compare:sums:"
)

const (
	// MaxPairs bounds the pairs in Redis, and those that a process holds; what is told of others is dropped.
	MaxPairs  = 64
	interval  = 5 * time.Second
	timeout   = 2 * time.Second // of one round of writing
	batchLife = 30 * time.Minute
)

//go:embed add.lua
var source string

// each calls f with each number of a pair and its field in Redis.
func each(b *compare.Both, f func(name string, v *float64)) {
	b.Incumbent.Each(func(name string, v *float64) { f("i|"+name, v) })
	b.Candidate.Each(func(name string, v *float64) { f("c|"+name, v) })
	m := &b.Mirror
	f("m|made", &m.Made)
	f("m|skipped", &m.Skipped)
	f("m|failed", &m.Failed)
	f("m|generated", &m.Generated)
	f("m|scored", &m.Scored)
	f("m|usd", &m.USD)
}

// batch is on its way to Redis.
type batch struct {
	id    string
	since time.Time
	args  []any
}

// Options configure a [Store].
type Options struct {
	Client     redis.UniversalClient // nil: only the metrics are registered, and nothing else may be called
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Store is a recorder that shares its sums. It is safe for concurrent use; one goroutine runs [Store.Run].
type Store struct {
	client redis.UniversalClient
	logger zerolog.Logger
	runner *script.Runner
	add    *script.Script
	lost   prometheus.Counter
	away   bool // the last flush failed; of Run's goroutine

	compare.Memory // not in a batch

	writing sync.Mutex
	batches map[compare.Pair]*batch // of the holder of writing
}

var _ compare.Recorder = (*Store)(nil)

// New returns a store; it sends nothing before [Store.Run] or [Store.Flush].
func New(o Options) *Store {
	add := script.New(source)
	s := &Store{
		client: o.Client, logger: o.Logger, runner: script.NewRunner(o.Client, add), add: add,
		batches: map[compare.Pair]*batch{},
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "foregate_comparisons_lost_total",
			Help: "Numbers of comparisons of targets that were dropped: there are too many pairs of targets, or Redis did not take them for 30 minutes.",
		}),
	}
	s.Max, s.Lost = MaxPairs, s.lost.Inc
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.lost)
	}
	return s
}

// Run writes every few seconds until ctx ends, and once more then. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	panics.KeepRunning(ctx, func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				s.tell(s.Flush(context.WithoutCancel(ctx)))
				return
			case <-tick.C:
				s.tell(s.Flush(ctx)) // what was not confirmed is sent again
			}
		}
	})
	return nil
}

// tell logs when Redis stops taking the sums, and when it takes them again.
func (s *Store) tell(err error) {
	switch {
	case err != nil && !s.away:
		s.logger.Warn().Err(err).Msg("comparisons of targets are kept by this replica: Redis does not take them")
	case err == nil && s.away:
		s.logger.Info().Msg("comparisons of targets are in Redis again")
	}
	s.away = err != nil
}

// Flush writes what Redis does not have, for at most 2 s. It returns the first error; what was not confirmed is kept.
func (s *Store) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.take()
	for p, b := range s.batches {
		if time.Since(b.since) > batchLife {
			s.lost.Add(float64(len(b.args) / 2))
			delete(s.batches, p)
			continue
		}
		name := member(p)
		args := append([]any{name, b.id, MaxPairs}, b.args...)
		added, err := s.runner.Run(ctx, s.add, []string{keyPairs, keySent, keySums + name}, args...).Int()
		if err != nil {
			return fmt.Errorf("comparison of %s: %w", p.Route, s.add.Explain(err))
		}
		if added < 0 { // there are too many pairs
			s.lost.Add(float64(len(b.args) / 2))
		}
		delete(s.batches, p)
	}
	return nil
}

// take makes batches of the sums of pairs that have none on its way, and keeps the others. s.writing is held.
func (s *Store) take() {
	for p, sums := range s.Take() {
		if s.batches[p] != nil || len(s.batches) >= MaxPairs {
			s.Merge(p, sums)
			continue
		}
		b := &batch{id: rand.Text(), since: time.Now()}
		each(sums, func(name string, v *float64) {
			if *v != 0 {
				b.args = append(b.args, name, strconv.FormatFloat(*v, 'g', 17, 64))
			}
		})
		s.batches[p] = b
	}
}

// Read returns the pairs of a route, or of all where it is "". What is not a number of this package is an error.
func (s *Store) Read(ctx context.Context, route string) (map[compare.Pair]*compare.Both, error) {
	members, err := s.client.ZRange(ctx, keyPairs, 0, MaxPairs-1).Result()
	if err != nil {
		return nil, err
	}
	out := map[compare.Pair]*compare.Both{}
	for _, m := range members {
		var p compare.Pair
		if err := json.Unmarshal([]byte(m), &p); err != nil {
			return nil, fmt.Errorf("%s: member %.60q: %w", keyPairs, m, err)
		}
		if route != "" && p.Route != route {
			continue
		}
		fields, err := s.client.HGetAll(ctx, keySums+m).Result()
		if err != nil {
			return nil, err
		}
		if out[p], err = parse(fields); err != nil {
			return nil, fmt.Errorf("%s%s: %w", keySums, m, err)
		}
	}
	return out, nil
}

// parse reads the fields of a pair. Fields that it does not know are those of a newer version.
func parse(fields map[string]string) (*compare.Both, error) {
	b, err := &compare.Both{}, error(nil)
	each(b, func(name string, v *float64) {
		text, ok := fields[name]
		if !ok || err != nil {
			return
		}
		x, bad := strconv.ParseFloat(text, 64)
		if bad != nil || !(x >= 0 && x < 1e300) {
			err = fmt.Errorf("field %s: %.40q is not a number from 0", name, text)
			return
		}
		*v = x
	})
	return b, err
}

// Reset forgets what Redis has of a pair. Replicas may add what they have not written yet.
func (s *Store) Reset(ctx context.Context, p compare.Pair) error {
	m := member(p)
	if err := s.client.Del(ctx, keySums+m).Err(); err != nil {
		return err
	}
	return s.client.ZRem(ctx, keyPairs, m).Err()
}

// member is the pair's name in Redis.
func member(p compare.Pair) string {
	b, _ := json.Marshal(p) //nolint:errchkjson // three strings
	return string(b)
}
