package fleet

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	deadline        = 250 * time.Millisecond // of a round trip of any size
	defaultInterval = 500 * time.Millisecond
	minInterval     = 50 * time.Millisecond
	// maxInterval ensures two heartbeats within goneAfter.
	maxInterval = 650 * time.Millisecond
	tidyEvery   = 30 * time.Second
	keepReading = 60 * time.Second // a reading that is not renewed is removed after it
	publishable = 10 * time.Second // an older reading is useless
)

// Pool receives what other replicas share. Its methods must not block. Only [Fleet.Run]'s goroutine calls them, ReceiveDrains any.
type Pool interface {
	Name() string
	// ReceiveReading passes another replica's reading, maybe an old one. It returns false if there is no such backend.
	ReceiveReading(backend string, r pressure.Reading) bool
	// ReceivePlacements passes placements of other replicas, in the order of the log, the same for all
	// replicas. At the start this includes earlier placements. said is only valid during the call.
	ReceivePlacements(placements []prefix.Placement)
	// ReceiveDrains passes all drained backends with their reasons, after each change; some may be unknown to the pool.
	ReceiveDrains(drained map[string]string)
}

// Options configure a [Fleet].
type Options struct {
	// Redis is the shared Redis; nil: the replica is alone. The client must have ContextTimeoutEnabled, so that a frozen
	// server does not delay a tick, and no retries, so that placements are not sent twice.
	Redis   redis.UniversalClient
	Replica string // 1..64 printable ASCII characters, unlike every other replica's; "" is a random one
	Topics  []Topic
	// Lost are called when Redis has lost data: it was emptied, or has older data than before. They return at once.
	Lost []func()
	// Expect is the minimum number of replicas; 0 is 1.
	Expect int
	// Interval is the time between ticks, live, 50..650 ms; nil or 0 is 500 ms. While the replica is
	// alone it is 500 ms at least.
	Interval func() time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Fleet is this replica's membership in the fleet. Its methods are safe for concurrent use.
type Fleet struct {
	redis    redis.UniversalClient
	scripts  *calls.Runner // nil without Redis
	self     string
	pools    atomic.Pointer[pools]
	topics   map[string]*Topic // by name, that of readings among them
	lost     []func()
	interval func() time.Duration
	log      zerolog.Logger
	metrics  *metrics

	view      atomic.Pointer[view]
	wakeup    chan struct{} // requests a tick now
	startedAt time.Time
	expect    int
	replicas  atomic.Int64          // known number of replicas
	lastError atomic.Pointer[error] // of the last tick, for [Fleet.LastError]
	lostAt    atomic.Pointer[time.Time]

	drainMu sync.Mutex       // of what follows, the writing of clock, and the pools' drains
	drains  map[string]drain // by "<pool>/<backend>"

	queueMu  sync.Mutex                  // of what follows, and the pools' placements
	waiting  []chan error                // of those who wait in Share
	readings map[string]pressure.Reading // to tell, by "<pool>/<backend>"; the newest of each

	retake atomic.Bool // texts are taken again, because there are new pools

	// Used only by the goroutine that ticks.
	fewerSince     time.Time // since when fewer replicas than known are live
	detector       detector
	heartbeatError error // why the last tick's heartbeat failed
	logged         *bool // whether it was shared, as last logged
	clock          clock
	tidied         time.Time
	taken          map[string]string // texts as last read, by topic and field
	overfull       bool              // there were too many of them
	again          map[string]string // texts to be told again: Redis' clock has jumped
	problems       map[string]bool   // active problems, for one log line each
}

// pools are the pools, in the order of [Fleet.SetPools]. They are never changed, only replaced.
type pools struct {
	all    []*pool
	byName map[string]*pool
}

// clock is the last known time of Redis.
type clock struct {
	ms int64     // Redis' time
	at time.Time // local time before the request for it
}

// when is the estimated time of Redis at a local time.
func (c clock) when(at time.Time) int64 {
	if c.at.IsZero() {
		return 0
	}
	return c.ms + at.Sub(c.at).Milliseconds()
}

// pool is one of the pools, with its placements to and from other replicas.
type pool struct {
	Pool
	name, log string             // the name, the key of the placements
	toPlace   []prefix.Placement // to publish; Fleet.queueMu guards it

	lastEntry string            // id of the last read entry of the log; "": none was read; used only by the goroutine that ticks
	drained   map[string]string // Fleet.drainMu guards it
}

// New returns a fleet that is alone until it runs, and has no pools until [Fleet.SetPools].
func New(o Options) *Fleet {
	if o.Replica == "" {
		o.Replica = strings.ToLower(rand.Text())
	}
	f := &Fleet{
		redis: o.Redis, self: o.Replica, interval: o.Interval, log: o.Logger,
		wakeup: make(chan struct{}, 1), problems: map[string]bool{}, expect: max(o.Expect, 1),
		drains: map[string]drain{}, readings: map[string]pressure.Reading{}, topics: map[string]*Topic{},
		lost: o.Lost, metrics: newMetrics(o.Registerer), startedAt: time.Now(), tidied: time.Now(),
	}
	f.pools.Store(&pools{})
	if o.Redis != nil {
		f.scripts = calls.NewRunner(o.Redis, beatScript)
	}
	readings := Topic{Name: topicPressure, Tell: f.tellReadings, Take: f.takeReading, Max: maxBackends, Keep: keepReading}
	drains := Topic{Name: topicDrains, Tell: f.tellDrains, Take: f.takeDrain, Lasting: true, Max: maxDrains, Keep: keepDrain}
	for _, t := range append(slices.Clone(o.Topics), readings, drains) {
		t.Max, t.Keep = cmp.Or(t.Max, defaultMax), cmp.Or(t.Keep, defaultKeep)
		f.topics[t.Name] = &t
	}
	return f
}

// SetPools replaces the pools from the next tick on. A new one receives drains at once, and then what other replicas have shared of its name; one
// that stays goes on. Names differ, and have no slash. Only one SetPools may run at a time.
func (f *Fleet) SetPools(all []Pool) {
	was, next := f.pools.Load(), &pools{byName: make(map[string]*pool, len(all))}
	for _, p := range all {
		name := p.Name()
		own := was.byName[name]
		if own == nil || own.Pool != p {
			own = &pool{Pool: p, name: name, log: keyPlaced + name}
			f.retake.Store(true)
		}
		next.byName[name] = own
		next.all = append(next.all, own)
	}
	f.pools.Store(next)
	f.updateDrains()
}

// pool returns the pool with a name, or nil.
func (f *Fleet) pool(name string) *pool { return f.pools.Load().byName[name] }

// Mine reports whether this replica must scrape a backend: any if it believes to be alone, because two owners are harmless,
// and none is not. It reads memory only, about 0.1 µs with 50 replicas.
func (f *Fleet) Mine(pool, backend string) bool {
	v := f.view.Load()
	return !v.shared(time.Now()) || len(v.members) == 1 || v.owner(pool, backend) == f.self
}

// Sharing reports whether the replicas share their state now: a tick was good within the last 1.5 s. It reads memory only.
func (f *Fleet) Sharing() bool { return f.view.Load().shared(time.Now()) }

// Level is that as metrics and status name it: shared, or local.
func (f *Fleet) Level() string {
	if f.Sharing() {
		return "shared"
	}
	return "local"
}

// Since is since when it is so, by this replica's clock.
func (f *Fleet) Since() time.Time {
	switch v := f.view.Load(); {
	case v == nil:
		return f.startedAt
	case v.shared(time.Now()):
		return v.since
	default:
		return v.at.Add(goneAfter)
	}
}

// LastError is why the last tick failed, nil if it did not, or there was none.
func (f *Fleet) LastError() error { return *cmp.Or(f.lastError.Load(), new(error)) }

// LostData is when it was found last that Redis had lost data, nil if it never was.
func (f *Fleet) LostData() *time.Time { return f.lostAt.Load() }

// Replicas is the last known number of live replicas, including this one, and at least Options.Expect, however
// old the information is. While Redis is unavailable, a limit for all replicas is divided by it. It increases
// at once, and decreases only after 10 s of good ticks.
func (f *Fleet) Replicas() int { return max(int(f.replicas.Load()), f.expect) }

// Members returns the sorted ids of the live replicas, including this one.
func (f *Fleet) Members() []string {
	v := f.view.Load()
	if !v.shared(time.Now()) {
		return []string{f.self}
	}
	return slices.Clone(v.members)
}

// Wake makes Run tick now.
func (f *Fleet) Wake() {
	select {
	case f.wakeup <- struct{}{}:
	default: // a tick is pending
	}
}
