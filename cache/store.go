package cache

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Config is what an operator may tune, live.
type Config struct {
	On       bool          // cache.mode
	TTL      time.Duration // cache.ttl: how long an answer is kept, 1s … 24h; the last tenth of it is left to chance
	Budget   time.Duration // cache.budget: the longest wait of a request for Redis
	MaxEntry int           // cache.max_entry: bytes of an answer that is kept
	Tools    bool          // cache.tools: answers that call tools are kept
	Follow   time.Duration // cache.follow: how long a request waits for an identical one before it goes on by itself; 0 is not at all
	Isolate  bool          // cache.isolate_prefixes: engines are told to share no prefixes between tenants
}

// Options wires a Store.
type Options struct {
	Redis      redis.UniversalClient // of answers, for requests; nil keeps none
	Control    redis.UniversalClient // where the purge epochs are; nil where Redis is
	Budget     func() time.Duration  // live
	MaxEntry   func() int            // live
	Sealer     *Sealer
	LocalBytes int64                 // of the copies in this process; 0 is 32 MiB, below 0 none
	Tracking   redis.UniversalClient // a client of its own for invalidations; nil lets copies live one second
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Store looks answers up and keeps them. It is safe for concurrent use. Run must run.
type Store struct{}

// NewStore wires a store; nothing is asked before Run.
func NewStore(o Options) *Store { panic("not built yet") }

// Epochs are the epochs of a tenant's requests to a route. ok is false while purges cannot be
// heard of, for longer than a second: then nothing may be served from the cache nor kept in it.
func (s *Store) Epochs(tenant, route string) (e Epochs, ok bool) { panic("not built yet") }

// Local is the copy of an entry in this process, if there is a good one. The entry must not be changed.
func (s *Store) Local(k Key) (*Entry, bool) { panic("not built yet") }

// Found says what a look found.
type Found string

// What a look may find.
const (
	FoundHit    Found = "hit"    // an entry
	FoundLead   Found = "lead"   // nothing, and the request under way is ours to answer
	FoundFollow Found = "follow" // nothing, and another replica is answering it
	FoundNone   Found = "none"   // nothing, and no lease was asked for
	FoundAway   Found = "away"   // Redis was not asked: it does not answer of late
	FoundLate   Found = "late"   // no reply within the budget
	FoundError  Found = "error"  // Redis failed
)

// Look asks Redis for an entry, in one round trip and no longer than the budget. Where there is
// none and lease is not nil, the lease is taken or, where another replica has it, followed: lease.Holder
// is then that replica's token. A value that does not open is unlinked, counted, and as good as none.
func (s *Store) Look(ctx context.Context, k Key, lease *Lease) (*Entry, Found) {
	panic("not built yet")
}

// Put keeps an entry for ttl, in the background; what the queue cannot take is dropped and counted. then, if
// not nil, is called once when it is kept, or will never be; it must not wait.
func (s *Store) Put(k Key, e *Entry, ttl time.Duration, then func()) { panic("not built yet") }

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
func (s *Store) Count(route, tenant string, r Result, e *Entry) { panic("not built yet") }

// Stats is what a replica knows of its cache since it began.
type Stats struct {
	Routes       []RouteStats // sorted by route
	LocalEntries int
	LocalBytes   int64
	Tracked      bool              // copies are invalidated by Redis; else they live one second
	Away         bool              // Redis is not asked for now
	Queued       int               // entries that wait to be written
	Refused      map[string]uint64 // values that did not open, by reason
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
func (s *Store) Stats() Stats { panic("not built yet") }

// Run writes what Put queued, hears of purges and invalidations, and tries a Redis that was away, until ctx ends;
// then it writes what is left, a second at most, and returns nil.
func (s *Store) Run(ctx context.Context) error { panic("not built yet") }
