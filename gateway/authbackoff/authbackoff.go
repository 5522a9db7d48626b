// Package authbackoff limits failed authentication: the first failures are answered immediately, later ones
// with a wait that doubles. Start at [Table.Fail]. It counts the failures of each credential and of each
// address separately. It guarantees that it stores a bounded number of both, and no credential: only a digest
// under a random key of this process. Valid credentials never come here, so nobody is locked out by others at
// the same address.
package authbackoff

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	allowedFailures = 5                // of a source, before it must wait
	firstPause      = time.Second      // the first wait; it doubles with each failure
	maxPause        = time.Minute      // the longest
	failureLifetime = 10 * time.Minute // after this time without a failure the count restarts

	maxSources  = 4096 // per kind and generation; there are two generations
	maxLogLines = 20   // log lines per second
)

// Failure is a request with an invalid credential.
type Failure struct {
	Credential string     // as it was shown; "" is none
	Address    netip.Addr // by which its client is counted; the zero Addr if unknown, or if it stands for many clients
}

// Verdict says how to answer and log a failure.
type Verdict struct {
	Wait  time.Duration // until the source may try again; 0 is a refusal without a wait
	Began bool          // this failure starts the wait
	Quiet bool          // do not log it: its source waits, or this second's log lines are used up
}

// Options configure a [Table].
type Options struct {
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Table counts failures. It is safe for concurrent use.
type Table struct {
	now     func() time.Time
	seed    maphash.Seed
	answers *prometheus.CounterVec

	mu          sync.Mutex
	credentials sources[uint64]
	addresses   sources[netip.Addr]
	second      time.Time // of logLines
	logLines    int
}

// New makes a table without failures.
func New(o Options) *Table {
	t := &Table{now: o.Now, seed: maphash.MakeSeed(), answers: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_auth_failures_total", Help: "Requests with invalid credentials, by answer: refused (401) or wait (429).",
	}, []string{"answer"})}
	if t.now == nil {
		t.now = time.Now
	}
	for _, answer := range []string{"refused", "wait"} {
		t.answers.WithLabelValues(answer)
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(t.answers)
	}
	return t
}

// Fail counts a failure and says how to answer it. While a source waits, its failures are not counted.
func (t *Table) Fail(f Failure) Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	v := t.judge(f, now)
	v.Quiet = v.Quiet || !t.takeLogLine(now)
	if v.Wait > 0 {
		t.answers.WithLabelValues("wait").Inc()
	} else {
		t.answers.WithLabelValues("refused").Inc()
	}
	return v
}

// judge checks the address first: while it waits, its credentials take no place in the table.
func (t *Table) judge(f Failure, now time.Time) Verdict {
	var v Verdict
	if f.Address.IsValid() {
		v = t.addresses.fail(f.Address, now)
	}
	if f.Credential == "" || v.Quiet {
		return v
	}
	c := t.credentials.fail(maphash.String(t.seed, f.Credential), now)
	return Verdict{max(v.Wait, c.Wait), v.Began || c.Began, c.Quiet}
}

// takeLogLine takes one of this second's log lines, if one is left.
func (t *Table) takeLogLine(now time.Time) bool {
	if second := now.Truncate(time.Second); !second.Equal(t.second) {
		t.second, t.logLines = second, 0
	}
	t.logLines++
	return t.logLines <= maxLogLines
}

// source is an address or a credential that has failed.
type source struct {
	failures int
	last     time.Time // last counted failure
	until    time.Time // end of the wait
}

// fail applies a failure at now to a source.
func (s source) fail(now time.Time) (source, Verdict) {
	if left := s.until.Sub(now); left > 0 {
		return s, Verdict{Wait: left, Quiet: true}
	}
	if now.Sub(s.last) > failureLifetime {
		s = source{}
	}
	s.failures++
	s.last = now
	over := s.failures - allowedFailures
	if over <= 0 {
		return s, Verdict{}
	}
	pause := maxPause
	if over < 8 { // 2^7 s are more than the longest wait
		pause = min(maxPause, firstPause<<(over-1))
	}
	s.until = now.Add(pause)
	return s, Verdict{Wait: pause, Began: true}
}

// sources holds the sources of one kind, in two generations: when the young one is full, the old one is
// dropped.
type sources[K comparable] struct {
	young, old map[K]source
}

func (g *sources[K]) fail(key K, now time.Time) Verdict {
	s, ok := g.young[key]
	if !ok {
		s = g.old[key]
	}
	s, v := s.fail(now)
	if !ok && (g.young == nil || len(g.young) >= maxSources) {
		g.young, g.old = make(map[K]source), g.young
	}
	g.young[key] = s
	return v
}
