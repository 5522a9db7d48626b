package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/panics"
)

// Config is what an operator may tune, live.
type Config struct {
	Enabled         bool          // cache.mode
	TTL             time.Duration // cache.ttl: how long an answer is kept, 1s … 24h; the last tenth of it is left to chance
	LookupTimeout   time.Duration // cache.lookup_timeout: the longest wait of a request for Redis
	MaxEntryBytes   int           // cache.max_entry_bytes: bytes of an answer that is kept
	ToolCalls       bool          // cache.tool_calls: answers that call tools are kept
	CoalesceTimeout time.Duration // cache.coalesce_timeout: how long a request waits for an identical one before it goes on by itself; 0 is not at all
	CoalesceSampled bool          // cache.coalesce_sampled: sampled requests wait for identical ones, too
	IsolatePrefixes bool          // cache.isolate_prefixes: engines are told to share no prefixes between tenants
}

// Options wires a Store.
type Options struct {
	// Redis is of answers, for requests; nil keeps none. Its timeouts bound a command, so they should be short
	// (100 ms), and it should not retry.
	Redis      redis.UniversalClient
	Control    redis.UniversalClient // where the purge epochs are; nil where Redis is
	Budget     func() time.Duration  // live; nil and 0 are 15 ms
	MaxEntry   func() int            // live; nil and 0 are 1 MiB
	Sealer     *Sealer               // nil is one without keys
	LocalBytes int64                 // of the copies in this process; 0 is 32 MiB, below 0 none
	Tracking   redis.UniversalClient // a client of its own for invalidations ([Tracked]); nil lets copies live one second
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Store looks answers up and keeps them. It is safe for concurrent use. Run must run.
type Store struct {
	redis    redis.UniversalClient
	control  redis.UniversalClient
	tracking *redis.Client // nil: copies live one second
	budget   func() time.Duration
	maxEntry func() int
	sealer   *Sealer
	log      zerolog.Logger
	now      func() time.Time
	metrics  *metrics
	told     atomic.Int64 // when the log last told of a value that was refused, in Unix nanoseconds

	scripts   *script.Runner // of look-ups
	asker     *lookup.Client
	crowdWait time.Duration
	local     *local
	queue     queue
	purges    purgeState
}

// What Options leave open.
const (
	defaultBudget   = 15 * time.Millisecond
	defaultMaxEntry = 1 << 20
	defaultLocal    = 32 << 20
)

// NewStore wires a store; nothing is asked before Run.
func NewStore(o Options) *Store {
	s := &Store{
		redis: o.Redis, control: o.Control, sealer: o.Sealer, log: o.Logger, now: o.Now,
		budget:   orDefault(o.Budget, defaultBudget),
		maxEntry: orDefault(o.MaxEntry, defaultMaxEntry),
		queue:    newQueue(), crowdWait: crowdWait, scripts: script.NewRunner(o.Redis, lookScript),
	}
	if s.control == nil {
		s.control = s.redis
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.sealer == nil {
		s.sealer, _ = NewSealer() // without keys nothing can be wrong with them
	}
	if o.LocalBytes == 0 {
		o.LocalBytes = defaultLocal
	}
	s.local = newLocal(o.LocalBytes)
	s.tracking, _ = o.Tracking.(*redis.Client) // invalidations come on one connection to one node
	s.metrics = newMetrics(o.Registerer, s)
	s.asker = lookup.New(lookup.Options{
		Budget: s.budget, Slots: maxLooks, Wait: true, IsAnswer: replied, Now: s.now,
		OnAway: func(err error) {
			s.log.Warn().Err(err).Msg("the cache is not asked: Redis does not answer")
		},
	})
	return s
}

// orDefault is what a live value is, or the default where it is none.
func orDefault[T int | time.Duration](live func() T, other T) func() T {
	return func() T {
		if live != nil {
			if v := live(); v > 0 {
				return v
			}
		}
		return other
	}
}

// Local is the copy of an entry in this process, if there is a good one. The entry must not be changed.
func (s *Store) Local(k Key) (*Entry, bool) { return s.local.get(k, s.now()) }

const (
	probeInterval = 100 * time.Millisecond // looks whether a try is due
	// backgroundTime bounds a round trip that nobody waits for.
	backgroundTime = 250 * time.Millisecond
	// lastTime is for what is left at the end.
	lastTime = time.Second
)

// Run writes what Put queued, hears of purges and invalidations, and tries a Redis that was away, until ctx ends;
// then it writes what is left, a second at most, and returns nil.
func (s *Store) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	if s.control != nil {
		all.Go(func() { panics.KeepRunning(ctx, s.watchPurges) })
	}
	if s.redis == nil {
		<-ctx.Done()
		return nil
	}
	if s.tracking != nil {
		all.Go(func() { panics.KeepRunning(ctx, s.watchInvalidations) })
	}
	all.Go(func() { s.runQueue(ctx) })
	_ = inBackground(ctx, s.load) // a failure shows at the first look
	every(ctx, probeInterval, func() {
		if s.asker.ProbeDue() {
			s.probe(ctx)
		}
	})
	s.asker.Drain(lastTime)
	return nil
}

// probe asks a Redis that was away as a request would, and it must be in time. It asks twice,
// because the first has a connection to make.
func (s *Store) probe(ctx context.Context) {
	ask := func(ctx context.Context) error {
		_, err := s.eval(ctx, keyProbe, nil)
		if replied(err) {
			return nil
		}
		return err
	}
	good := inBackground(ctx, ask) == nil
	if good {
		began := s.now()
		good = inBackground(ctx, ask) == nil && s.now().Sub(began) <= s.budget()
	}
	s.asker.Probed(good)
	if good {
		s.log.Info().Msg("the cache is asked again")
	}
}

// every calls do at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// inBackground bounds a round trip that nobody waits for. A client that panics, as it may at what a server
// said, has failed.
func inBackground(ctx context.Context, do func(context.Context) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do(bounded)
}

// Result is what came of a request's lookup, as metrics name it.
type Result string

// The results. Served from the cache are hit, local and coalesced; bypass did not ask.
const (
	ResultHit       Result = "hit"       // from Redis
	ResultLocal     Result = "local"     // from the copy in this process
	ResultCoalesced Result = "coalesced" // from the answer to an identical request that was under way
	ResultMiss      Result = "miss"
	ResultAway      Result = "away" // a miss because Redis was not asked
	ResultLate      Result = "late" // a miss because it did not answer within the budget
	ResultError     Result = "error"
	ResultBypass    Result = "bypass"
)

// Count books one request; e is what was served, nil when nothing was.
func (s *Store) Count(route, tenant string, r Result, e *Entry) {
	s.metrics.count(route, tenant, r, e, s.now())
}

// Stats is what a replica knows of its cache since it began.
type Stats struct {
	Routes       []RouteStats // sorted by route
	LocalEntries int
	LocalBytes   int64
	Tracked      bool              // copies are invalidated by Redis; else they live one second
	Away         bool              // Redis is not asked for now
	Queued       int               // entries that wait to be written
	Refused      map[string]uint64 // values that did not open, by reason
	Dropped      map[string]uint64 // answers that were to be kept and are not, by reason
}

// RouteStats are one route's.
type RouteStats struct {
	Route       string
	Requests    map[Result]uint64
	HitRatio    float64 // of the last five minutes; 0 where nothing was asked
	SavedTokens uint64
	SavedUSD    float64
}

// Stats tells them.
func (s *Store) Stats() Stats {
	out := Stats{
		Routes: s.metrics.stats(s.now()), Refused: s.metrics.refused.all(), Dropped: s.metrics.dropped.all(),
		Tracked: s.local.hearing.Load() != nil, Away: s.asker.Away(), Queued: s.queue.waiting(),
	}
	out.LocalEntries, out.LocalBytes = s.local.holds()
	return out
}
