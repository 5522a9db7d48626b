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

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	defaultInterval = 500 * time.Millisecond
	minInterval     = 50 * time.Millisecond
	// maxInterval lets two heartbeats fall within goneAfter.
	maxInterval = 650 * time.Millisecond
	jitter      = 0.1
	tidyEvery   = 30 * time.Second
	tidyAfter   = 60 * time.Second // a reading that nobody renews
	publishable = 10 * time.Second // an older reading says nothing any more
)

// Pool is what a fleet tells of what others know. Its methods are called by one goroutine,
// [Fleet.Run]'s, and must not wait.
type Pool interface {
	Name() string
	// ReceiveReading tells of a reading that another replica took. Its At is local time. It may be
	// older than what the pool has. False is: no such backend.
	ReceiveReading(backend string, r pressure.Reading) bool
	// ReceivePlacements tells what other replicas placed, in the order of the log, the same for
	// all. At start that includes what was placed before. said is only lent.
	ReceivePlacements(said []prefix.Placement)
	// ReceiveDrains tells which of the pool's backends are drained, and why: all of them, each
	// time that changed. Backends that the pool does not have may be among them.
	ReceiveDrains(drained map[string]string)
}

// Options are what a [Fleet] needs to know.
type Options struct {
	// Redis is where the fleet meets; nil is alone. The client must have
	// ContextTimeoutEnabled, or a frozen server holds a tick for the client's own timeout,
	// and no retries, or placements are told twice.
	Redis   redis.UniversalClient
	Replica string // 1..64 printable ASCII characters, unlike every other replica's; "" is a random one
	Pools   []Pool
	// Expect is how many replicas there are, for one that has not heard of more; 0 is 1.
	Expect int
	// Interval is between ticks, live; nil or 0 is 500 ms. It is held to 50..650 ms, so that
	// one lost heartbeat does not make a replica look gone.
	Interval func() time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Fleet is this replica's end. Its methods are safe for concurrent use.
type Fleet struct {
	redis    redis.UniversalClient
	scripts  *script.Runner // nil without Redis
	self     string
	pools    []*pool
	byName   map[string]*pool
	interval func() time.Duration
	log      zerolog.Logger
	metrics  *metrics
	now      func() time.Time

	view      atomic.Pointer[view]
	wakeup    chan struct{} // a tick is wanted now
	begun     time.Time
	expect    int
	known     atomic.Int64          // replicas heard of
	lastError atomic.Pointer[error] // unheard, for others

	// Of the goroutine that ticks.
	degradation    degradation
	fewerSince     time.Time // since when fewer than known are heard of
	heartbeatError error     // why the last tick's heartbeat did not count
	modeLogged     bool      // the first mode was logged
	mode           Mode      // as last logged
	clock          clock
	tidied         time.Time
	drains         map[string]drain // by field
	problems       map[string]bool  // by what is in trouble, for one log line each
}

// clock is Redis' clock as this replica last heard it.
type clock struct {
	ms int64     // Redis' time
	at time.Time // the local time before that was asked
}

// when is Redis' time at a local time, as far as one knows.
func (c clock) when(at time.Time) int64 {
	if c.at.IsZero() {
		return 0
	}
	return c.ms + at.Sub(c.at).Milliseconds()
}

// pool is one of the pools and what is on its way to and from others.
type pool struct {
	Pool
	name, pressure, placed string // the name, the two keys

	mu        sync.Mutex
	toPublish map[string]pressure.Reading // to publish, the newest of each backend
	toPlace   []prefix.Placement          // to tell

	// Of the goroutine that ticks.
	readings      map[string]field // the hash as last read
	spareReadings map[string]field // for the next read
	logRead       bool             // the log was read
	lastEntry     entryID          // of the log, read last
	drained       map[string]string
}

// field is a value of a hash, remembered so that only what changed is read again.
type field struct {
	value  string
	seq    int64
	ahead  bool // of Redis' clock: looked at again
	broken bool // and so nobody's
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
		redis: o.Redis, self: o.Replica, byName: map[string]*pool{}, interval: o.Interval, log: o.Logger, now: o.Now,
		wakeup: make(chan struct{}, 1), problems: map[string]bool{}, expect: max(o.Expect, 1),
	}
	if o.Redis != nil {
		f.scripts = script.NewRunner(o.Redis, beatScript, shareScript, tidyScript, drainScript)
	}
	f.begun = f.now()
	for _, p := range o.Pools {
		name := p.Name()
		if name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("fleet: pool name %q is empty or has a slash", name)
		}
		if f.byName[name] != nil {
			return nil, fmt.Errorf("fleet: two pools are named %q", name)
		}
		f.byName[name] = &pool{
			Pool: p, name: name, pressure: keyPressure + name, placed: keyPlaced + name,
			toPublish: map[string]pressure.Reading{}, readings: map[string]field{}, spareReadings: map[string]field{},
		}
		f.pools = append(f.pools, f.byName[name])
	}
	f.metrics = newMetrics(o.Registerer)
	f.tidied = f.begun
	return f, nil
}

// Self is what this replica calls itself.
func (f *Fleet) Self() string { return f.self }

// Mine says whether this replica is the one to scrape a backend. It is true of every
// backend for a replica that is alone, as far as it knows: two owners are harmless, none
// is not. It reads memory only, about 0.1 µs at 50 replicas.
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
		return f.begun
	}
	return v.entered(f.now())
}

// LastError is why this replica is not [Shared] at the moment, as its last tick found it: nil when
// that tick went well, or none was made.
func (f *Fleet) LastError() error {
	if why := f.lastError.Load(); why != nil {
		return *why
	}
	return nil
}

// Known is the number of replicas that were last known to live, this one included, however
// long ago that was, and at least what [Options] expect: what a limit for all of them is
// divided by while Redis is away. It counts one more at once, one less only after 10 s of
// [Shared].
func (f *Fleet) Known() int { return max(int(f.known.Load()), f.expect) }

// Sharing reports whether the replicas hear of each other now.
func (f *Fleet) Sharing() bool { return f.Mode() == Shared }

// Members are the ids of the replicas that live, sorted, this one's among them.
func (f *Fleet) Members() []string {
	v := f.view.Load()
	if v.mode(f.now()) == Local {
		return []string{f.self}
	}
	return slices.Clone(v.members)
}

// Publish tells others of a reading at the next tick; of a backend's readings until then,
// the newest. It never waits. Unknown pools, and readings that are out of range, are not
// told.
func (f *Fleet) Publish(pool, backend string, r pressure.Reading) {
	p := f.byName[pool]
	if p == nil || f.redis == nil || backend == "" || len(backend) > maxID || check(r) != nil {
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

// Place tells others of placements at the next tick, in this order: up to 512 of a pool and
// tick, further ones are dropped and counted. It never waits, and keeps nothing of said.
func (f *Fleet) Place(pool string, said []prefix.Placement) {
	p := f.byName[pool]
	if p == nil || f.redis == nil {
		return
	}
	p.mu.Lock()
	room := min(len(said), maxPlaced-len(p.toPlace))
	p.toPlace = append(p.toPlace, said[:room]...)
	p.mu.Unlock()
	if room < len(said) {
		f.metrics.dropped.Add(float64(len(said) - room))
	}
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

// giveBack queues readings again that could not be told, unless there are newer ones.
func (p *pool) giveBack(readings map[string]pressure.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for backend, r := range readings {
		p.queue(backend, r)
	}
}

// wake has Run tick now.
func (f *Fleet) wake() {
	select {
	case f.wakeup <- struct{}{}:
	default: // it will
	}
}
