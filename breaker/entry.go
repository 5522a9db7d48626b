package breaker

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// buckets is into how many parts the window is cut; the oldest falls out
	// as a new one begins.
	buckets = 10
	// minFinished is how many calls must have finished within the window before
	// their share of faults means something.
	minFinished = 5
	// trialBound is how long the one request that tries a half-open breaker may
	// take. gobreaker waits for ever; a request that never tells its outcome
	// would keep the backend out until the process ends. It is well above the
	// longest wait for a first byte (30 s on a target).
	trialBound = time.Minute
)

// What gobreaker is told; the classes have been decided before.
var (
	errFault    = errors.New("fault")
	errExcluded = errors.New("excluded")
)

// phase is a breaker's state under our own names.
type phase = gobreaker.State

const (
	closed   = gobreaker.StateClosed
	halfOpen = gobreaker.StateHalfOpen
	open     = gobreaker.StateOpen
)

// entry is one backend's breaker: a gobreaker, and around it what gobreaker
// lacks (a random open time, a bound on trials, a change of config, a state
// that can be read without changing it), and what the fleet says of the backend.
type entry struct {
	key
	outcomes outcomes
	base     time.Time

	// Nanoseconds since base until which Open is true; 0 is never.
	shut atomic.Int64
	// The same for Shut.
	broken atomic.Int64
	// Nanoseconds since base when the last ramp began; 0 is none.
	ramping atomic.Int64
	// Somebody probes it from here.
	probing atomic.Bool

	// gobreaker has a lock of its own and calls back under it. All its calls
	// are made under ours, so that the callback may write what we guard.
	mu    sync.Mutex
	cfg   Config
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	phase phase         // this replica's own
	age   uint64        // counts the moves and the replacements of cb
	until time.Time     // when the own open time ends
	lasts time.Duration // how long that open time is in all
	trial *call         // who tries a half-open breaker
	cut   bool          // the last own fault: could not be reached

	view     view     // the fleet's
	evidence evidence // for the fleet
	told     told     // of it
	doubts   bool     // what was told is to be taken back
	period   uint64   // counts the closings

	shown phase     // the phase as last told
	since time.Time // when shown left closed
	looks time.Time // when Run last looked, which has probes test it, not requests
	may   bool      // the pool's floor lets it be shut for what it answered

	// Of the goroutine of Run.
	read    time.Time // when it was last asked for in Redis
	trouble bool      // its key there is of no use, and that was logged
}

// call is one request that was let through.
type call struct {
	step   func(error) // gobreaker's own done; nil after it was called, or where it was not asked
	age    uint64      // the entry's when the call began
	period uint64      // likewise
	at     time.Time
}

func newEntry(k key, base time.Time, cfg Config) *entry {
	e := &entry{key: k, base: base, may: true}
	e.fresh(cfg)
	return e
}

// fresh replaces the breaker by an empty, closed one. gobreaker can neither be
// reset nor reconfigured; a done of the old one then falls on the old one, which
// is right.
func (e *entry) fresh(cfg Config) {
	e.cfg = cfg
	e.age++
	e.phase, e.trial = closed, nil
	var cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     cfg.Window / buckets * buckets,
		BucketPeriod: cfg.Window / buckets,
		// Ours is the open time that counts, because gobreaker's cannot be
		// random; its own has always run out before ours.
		Timeout:      max(cfg.Open/2, 1), // 0 would mean 60 s
		ReadyToTrip:  func(c gobreaker.Counts) bool { return trips(c, cfg.Failures) },
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return errors.Is(err, errExcluded) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if e.cb == cb {
				e.moved(to, time.Now())
			}
		},
	})
	e.cb = cb
}

// trips decides whether the counts of a window open a breaker. The share is
// that of finished calls: Requests also counts those under way, and a burst of
// slow calls would hide that all fail.
func trips(c gobreaker.Counts, failures int) bool {
	if int(c.ConsecutiveFailures) >= failures {
		return true
	}
	faults := int(c.TotalFailures)
	finished := int(c.TotalSuccesses) + faults
	return finished >= max(minFinished, failures) && 2*faults >= finished
}

// moved notes a transition of gobreaker's. It is called under both locks and must
// not block.
func (e *entry) moved(to phase, now time.Time) {
	if e.phase == closed && to == open {
		e.evidence.doubt()
		e.doubts = true
	}
	e.phase = to
	e.age++
	e.trial = nil
	if to == open {
		e.opened(now)
	}
}

// opened begins an open time of this replica's own. The caller holds mu.
func (e *entry) opened(now time.Time) {
	e.lasts = time.Duration(float64(e.cfg.Open) * (0.8 + 0.4*rand.Float64()))
	e.until = now.Add(e.lasts)
}

// allow lets a request through or says why not.
func (e *entry) allow(cfg Config, now time.Time) (*call, move, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == closed && cfg != e.cfg {
		e.fresh(cfg)
	}
	if e.phase == halfOpen && e.trial != nil && now.Sub(e.trial.at) >= trialBound {
		e.settle(e.trial, errExcluded) // given up on: no evidence either way
	}
	refused := e.refuses(now)
	if refused != nil && !e.spared(now) {
		return nil, e.show(now), refused
	}
	c := &call{period: e.period, at: now}
	if refused == nil {
		step, err := e.cb.Allow()
		if err != nil { // cannot be: refuses has judged by the same state
			return nil, e.show(now), &OpenError{Pool: e.pool, Backend: e.backend, Probing: true}
		}
		c.step = step
	}
	c.age = e.age // Allow may have moved it
	if e.phase == halfOpen && c.step != nil {
		e.trial = c
	}
	return c, e.show(now), nil
}

// finish counts a call's outcome.
func (e *entry) finish(c *call, o Outcome, now time.Time) move {
	var told error
	switch o {
	case Success:
	case Fault, Unreachable:
		told = errFault
	default:
		told = errExcluded
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.period == e.period {
		e.evidence.note(o, now.Sub(e.base))
	}
	if e.stale(c, now) {
		// gobreaker drops an outcome that is older than its window without a
		// word; a backend that hangs until a 30 s timeout would never be found
		// out. Count it as a call of now.
		step, err := e.cb.Allow()
		if err != nil {
			return move{}
		}
		c.step = step
	}
	if told == errFault && c.step != nil && c.age == e.age {
		e.cut = o == Unreachable
	}
	e.settle(c, told)
	return e.show(now)
}

// stale tells whether gobreaker would drop the outcome for its age alone: the
// breaker was and is closed and is the same, but the call's bucket is about to
// leave the window or has left.
func (e *entry) stale(c *call, now time.Time) bool {
	return c.step != nil && e.phase == closed && c.age == e.age && now.Sub(c.at) > e.cfg.Window/buckets*(buckets-1)
}

// settle tells gobreaker an outcome, once, and frees the place of a trial.
func (e *entry) settle(c *call, told error) {
	if c.step == nil {
		return
	}
	step := c.step
	c.step = nil
	step(told)
	// Still the trial: the outcome was excluded, so another may try.
	if e.trial == c {
		e.trial = nil
	}
}
