package fleet

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/dataloss"
	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	defaultInterval = 500 * time.Millisecond
	minInterval     = 50 * time.Millisecond
	// maxInterval ensures two heartbeats within goneAfter.
	maxInterval = 650 * time.Millisecond
	jitter      = 0.1
	tidyEvery   = 30 * time.Second
	tidyAfter   = 60 * time.Second // age of a reading that is not renewed
	publishable = 10 * time.Second // an older reading is useless
)

// Pool receives what other replicas share. Only [Fleet.Run]'s goroutine calls its methods, which must not
// block.
type Pool interface {
	Name() string
	// ReceiveReading passes a reading of another replica. Its At is local time. It may be older than the
	// pool's own. It returns false if the pool has no such backend.
	ReceiveReading(backend string, r pressure.Reading) bool
	// ReceivePlacements passes placements of other replicas, in the order of the log, the same for all
	// replicas. At the start this includes earlier placements. said is only valid during the call.
	ReceivePlacements(placements []prefix.Placement)
	// ReceiveDrains passes all drained backends of the pool with their reasons, after each change. Backends
	// that the pool does not have may be among them.
	ReceiveDrains(drained map[string]string)
}

// Options configure a [Fleet].
type Options struct {
	// Redis is the shared Redis; nil: the replica is alone. The client must have ContextTimeoutEnabled,
	// otherwise a frozen server delays a tick by the client's own timeout, and no retries, otherwise
	// placements are sent twice.
	Redis   redis.UniversalClient
	Replica string // 1..64 printable ASCII characters, unlike every other replica's; "" is a random one
	Pools   []Pool // at the start; [Fleet.SetPools] replaces them
	Topics  []Topic
	// Lost are called when Redis has lost data: it was emptied, or has older data than before. They return at once.
	Lost []func()
	// Expect is the minimum number of replicas; 0 is 1.
	Expect int
	// Interval is the time between ticks, live; nil or 0 is 500 ms. It is limited to 50..650 ms, so that one
	// lost heartbeat does not make a replica count as gone.
	Interval func() time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Fleet is this replica's membership in the fleet. Its methods are safe for concurrent use.
type Fleet struct {
	redis    redis.UniversalClient
	scripts  *script.Runner // nil without Redis
	self     string
	pools    atomic.Pointer[pools]
	topics   []*topic
	lost     []func()
	interval func() time.Duration
	log      zerolog.Logger
	metrics  *metrics
	now      func() time.Time

	view      atomic.Pointer[view]
	wakeup    chan struct{} // requests a tick now
	startedAt time.Time
	expect    int
	replicas  atomic.Int64          // known number of replicas
	lastError atomic.Pointer[error] // of the last tick, for [Fleet.LastError]
	lostAt    atomic.Pointer[time.Time]

	pendingMu sync.Mutex
	pending   map[string]pendingDrain // by field

	// Used only by the goroutine that ticks.
	degradation    degradation
	fewerSince     time.Time // since when fewer replicas than known are live
	detector       *dataloss.Detector
	heartbeatError error // why the last tick's heartbeat failed
	modeLogged     bool  // the first mode was logged
	mode           Mode  // last logged mode
	clock          clock
	tidied         time.Time
	drains         map[string]drain // by field
	problems       map[string]bool  // active problems, for one log line each
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

// pool is one of the pools, with its messages to and from other replicas.
type pool struct {
	Pool
	name, pressure, placed string // the name, the two keys

	mu        sync.Mutex
	toPublish map[string]pressure.Reading // the newest of each backend
	toPlace   []prefix.Placement          // to publish

	// Used only by the goroutine that ticks.
	readings      map[string]field // the hash as last read
	spareReadings map[string]field // reused for the next read
	logRead       bool             // the log was read
	lastEntry     entryID          // last read entry of the log
	drained       map[string]string
}

// field is a value of a hash, remembered so that only changed values are parsed.
type field struct {
	value  string
	seq    int64
	ahead  bool // of Redis' clock: check it again
	broken bool // invalid: it is ignored
}

// New returns a fleet that is alone until it runs.
func New(o Options) (*Fleet, error) {
	if o.Replica == "" {
		o.Replica = strings.ToLower(rand.Text())
	}
	if !validReplica(o.Replica) {
		return nil, fmt.Errorf("fleet: replica id %q is not 1 to %d printable ASCII characters", o.Replica, maxReplica)
	}
	if o.Interval == nil {
		o.Interval = func() time.Duration { return defaultInterval }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Fleet{
		redis: o.Redis, self: o.Replica, interval: o.Interval, log: o.Logger, now: o.Now,
		wakeup: make(chan struct{}, 1), problems: map[string]bool{}, pending: map[string]pendingDrain{}, expect: max(o.Expect, 1),
	}
	if o.Redis != nil {
		f.scripts = script.NewRunner(o.Redis, beatScript, shareScript, tidyScript, drainScript)
	}
	f.lost, f.detector = o.Lost, dataloss.New(keyRun)
	for _, t := range o.Topics {
		f.topics = append(f.topics, &topic{Topic: t, key: keyTopic + t.Name})
	}
	f.startedAt = f.now()
	f.pools.Store(&pools{})
	if err := f.SetPools(o.Pools); err != nil {
		return nil, err
	}
	f.metrics = newMetrics(o.Registerer)
	f.tidied = f.startedAt
	return f, nil
}

// SetPools replaces the pools from the next tick on. A new one receives what other replicas have shared of its name; one
// that stays goes on. An error changes nothing. Only one SetPools may run at a time.
func (f *Fleet) SetPools(all []Pool) error {
	was, next := f.pools.Load(), &pools{byName: make(map[string]*pool, len(all))}
	for _, p := range all {
		name := p.Name()
		switch {
		case name == "" || strings.Contains(name, "/"):
			return fmt.Errorf("fleet: pool name %q is empty or has a slash", name)
		case next.byName[name] != nil:
			return fmt.Errorf("fleet: two pools are named %q", name)
		}
		own := was.byName[name]
		if own == nil || own.Pool != p {
			own = &pool{
				Pool: p, name: name, pressure: keyPressure + name, placed: keyPlaced + name,
				toPublish: map[string]pressure.Reading{}, readings: map[string]field{}, spareReadings: map[string]field{},
			}
		}
		next.byName[name] = own
		next.all = append(next.all, own)
	}
	f.pools.Store(next)
	return nil
}

// pool returns the pool with a name, or nil.
func (f *Fleet) pool(name string) *pool { return f.pools.Load().byName[name] }

// Mine reports whether this replica must scrape a backend. It is true for every backend if this replica
// believes to be alone: two owners are harmless, no owner is not. It reads memory only, about 0.1 µs with 50
// replicas.
func (f *Fleet) Mine(pool, backend string) bool {
	v := f.view.Load()
	return v.mode(f.now()) == Local || len(v.members) == 1 || v.owner(pool, backend) == f.self
}

// Mode is the degradation level of this replica now. It reads memory only.
func (f *Fleet) Mode() Mode { return f.view.Load().mode(f.now()) }

// Since is when that mode was entered, by this replica's clock.
func (f *Fleet) Since() time.Time {
	v := f.view.Load()
	if v == nil {
		return f.startedAt
	}
	return v.entered(f.now())
}

// LastError is why this replica is not [Shared] now, from its last tick: nil if that tick succeeded, or there
// was none.
func (f *Fleet) LastError() error {
	if why := f.lastError.Load(); why != nil {
		return *why
	}
	return nil
}

// LostData is when it was found last that Redis had lost data; ok is false if it never was.
func (f *Fleet) LostData() (at time.Time, ok bool) {
	if t := f.lostAt.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Replicas is the last known number of live replicas, including this one, and at least Options.Expect, however
// old the information is. While Redis is unavailable, a limit for all replicas is divided by it. It increases
// at once, and decreases only after 10 s of [Shared].
func (f *Fleet) Replicas() int { return max(int(f.replicas.Load()), f.expect) }

// Sharing reports whether the replicas share their state now.
func (f *Fleet) Sharing() bool { return f.Mode() == Shared }

// Members returns the sorted ids of the live replicas, including this one.
func (f *Fleet) Members() []string {
	v := f.view.Load()
	if v.mode(f.now()) == Local {
		return []string{f.self}
	}
	return slices.Clone(v.members)
}

// Publish sends a reading at the next tick, only the newest of each backend. It never blocks. Unknown pools,
// and readings out of range, are ignored.
func (f *Fleet) Publish(pool, backend string, r pressure.Reading) {
	p := f.pool(pool)
	if p == nil || f.redis == nil || backend == "" || len(backend) > maxID || r.Check() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue(backend, r)
}

// queue keeps the newest reading of a backend.
func (p *pool) queue(backend string, r pressure.Reading) {
	old, queued := p.toPublish[backend]
	if !queued && len(p.toPublish) >= maxBackends || queued && !r.At.After(old.At) {
		return
	}
	p.toPublish[backend] = r
}

// Place sends placements at the next tick, in this order: up to 512 per pool and tick; more are dropped. It never
// blocks, and keeps no reference to them.
func (f *Fleet) Place(pool string, placements []prefix.Placement) {
	p := f.pool(pool)
	if p == nil || f.redis == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	room := min(len(placements), maxPlaced-len(p.toPlace))
	p.toPlace = append(p.toPlace, placements[:room]...)
}

// take empties both queues.
func (p *pool) take() (map[string]pressure.Reading, []prefix.Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var readings map[string]pressure.Reading
	if len(p.toPublish) > 0 {
		readings = p.toPublish
		p.toPublish = make(map[string]pressure.Reading, len(readings))
	}
	places := p.toPlace
	p.toPlace = nil
	return readings, places
}

// giveBack queues readings again that could not be sent, unless there are newer ones.
func (p *pool) giveBack(readings map[string]pressure.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for backend, r := range readings {
		p.queue(backend, r)
	}
}

// wake makes Run tick now.
func (f *Fleet) wake() {
	select {
	case f.wakeup <- struct{}{}:
	default: // a tick is pending
	}
}
