package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/calls"
)

// Config is the live configuration of the cache.
type Config struct {
	Enabled         bool          `setting:"cache.mode" default:"on" choice:"on,off" doc:"'on': answers are cached, and an identical request of the same tenant gets the cached answer. 'off': nothing is cached or read from the cache."`
	TTL             time.Duration `setting:"cache.ttl" default:"1h" min:"1s" max:"24h" doc:"How long an answer stays in the cache. Up to 10 % is subtracted at random, so that entries do not expire together."`
	MaxEntryBytes   int           `setting:"cache.max_entry_bytes,fleet" default:"1048576" min:"1024" max:"16777216" doc:"Largest answer that is cached, in bytes."`
	IsolatePrefixes bool          `setting:"cache.isolate_prefixes" default:"yes" choice:"yes,no" doc:"Whether engines keep the prefix caches of tenants apart ('cache_salt'). With 'no' tenants with equal prompt prefixes share KV cache, which saves prefill but lets a tenant measure that another one uses the same prefix."`
}

// Options configures a Store.
type Options struct {
	// Redis holds the answers and serves look-ups; nil stores none. Its timeouts bound a command, so they
	// should be short (100 ms), and it should not retry.
	Redis    redis.UniversalClient
	Budget   func() time.Duration // live; nil and 0 are 15 ms
	MaxEntry func() int           // live; nil and 0 are 1 MiB
	Sealer   *Sealer              // nil is one without keys
	// Share returns when the other replicas can hear of what [Store.Tell] says. nil: there are none, and nobody calls [Store.Take]
	// and [Store.Heard].
	Share      func(context.Context) error
	LocalBytes int64 // of the copies in this process; 0 is 32 MiB, below 0 none
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Store reads and writes answers. It is safe for concurrent use. Run must run.
type Store struct {
	redis           redis.UniversalClient
	budget          func() time.Duration
	maxEntry        func() int
	sealer          *Sealer
	log             zerolog.Logger
	now             func() time.Time
	metrics         *metrics
	refusalLoggedAt atomic.Int64 // last log line about a refused value, in Unix nanoseconds
	fullLoggedAt    atomic.Int64 // that about a full Redis

	asker  *calls.Client // counts for or against Redis
	local  local
	queue  queue
	purges purges
}

// Defaults of Options.
const (
	defaultBudget   = 15 * time.Millisecond
	defaultMaxEntry = 1 << 20
	defaultLocal    = 32 << 20
)

// NewStore makes a store; it does not use Redis before Run.
func NewStore(o Options) *Store {
	s := &Store{
		redis: o.Redis, sealer: o.Sealer, log: o.Logger, now: o.Now,
		budget:   orDefault(o.Budget, defaultBudget),
		maxEntry: orDefault(o.MaxEntry, defaultMaxEntry),
		queue:    queue{turns: make(chan struct{}, writers), ended: make(chan struct{})},
	}
	s.purges.share = o.Share
	s.purges.known.Store(&map[Scope]uint64{})
	if s.now == nil {
		s.now = time.Now
	}
	if s.sealer == nil {
		s.sealer, _ = NewSealer() // cannot fail without keys
	}
	if o.LocalBytes == 0 {
		o.LocalBytes = defaultLocal
	}
	s.local = newLocal(o.LocalBytes)
	s.metrics = newMetrics(o.Registerer, s)
	s.asker = calls.New(calls.Options{
		Budget: s.budget, Slots: maxLooks, Now: s.now,
		OnAway: func(err error) {
			s.log.Warn().Err(err).Msg("the cache is not asked: Redis does not answer")
		},
	})
	return s
}

// orDefault is a live value, or other if it is not set.
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

// Local returns this process' copy of an entry, if there is a current one. It is read-only.
func (s *Store) Local(k Key) (*Entry, bool) { return s.local.get(k, s.now()) }

// Run probes an unavailable Redis until ctx ends. Then it waits for the entries of Put that are being written, for at most a second,
// and returns nil. Later ones are dropped.
func (s *Store) Run(ctx context.Context) error {
	if s.redis == nil {
		<-ctx.Done()
		return nil
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	ended.Go(func() { <-ctx.Done(); s.queue.end() })
	s.asker.Run(ctx, calls.Background{
		Probe: func(ctx context.Context) error {
			_, err := s.ask(ctx, keyProbe)
			return err
		},
		Back: func(context.Context) { s.log.Info().Msg("the cache is asked again") },
	})
	return nil
}

// Result is the cache result of a request, as in the metrics.
type Result string

// The results. hit, local and coalesced are served from the cache; bypass did not use it.
const (
	ResultHit       Result = "hit"       // from Redis
	ResultLocal     Result = "local"     // from the copy in this process
	ResultCoalesced Result = "coalesced" // from the answer to an identical request in progress
	ResultMiss      Result = "miss"
	ResultAway      Result = "away" // a miss because Redis was not asked
	ResultLate      Result = "late" // a miss because it did not answer within the budget
	ResultError     Result = "error"
	ResultBypass    Result = "bypass"
)

// Count counts one request; e is the served entry, nil if there is none.
func (s *Store) Count(route string, r Result, e *Entry) { s.metrics.count(route, r, e) }

// served reports whether the cache answered the request.
func (r Result) served() bool { return r == ResultHit || r == ResultLocal || r == ResultCoalesced }

// Totals are what the cache of a replica did on all routes since its start.
type Totals struct {
	Requests    uint64 // that it could have answered
	Served      uint64 // that it answered
	SavedTokens uint64
	SavedUSD    float64
}

// Totals returns the totals now.
func (s *Store) Totals() Totals {
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	return s.metrics.totals
}
