// Package authbackoff says how failed authentication is answered: at first at once, then with a wait that doubles.
// Start at [Table.Fail].
//
// It counts the failures of each credential and of each address apart, and guarantees that it holds no more than
// a bounded number of both, and no credential: only a digest under a key of this process. Whoever shows what is
// right is never asked about here, so nobody is locked out by what others do at the same address.
package authbackoff

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	allowedFailures = 5                // of a source, before it is told to wait
	firstPause      = time.Second      // the first time; it doubles with each failure after it
	maxPause        = time.Minute      // the longest
	failureLifetime = 10 * time.Minute // without a failure, after which a source begins anew

	maxSources  = 4096 // of a kind in a generation, of which there are two
	maxLogLines = 20   // of the log in a second
)

// Failure is a request whose credential was not believed.
type Failure struct {
	Credential string     // as it was shown; "" is none
	Address    netip.Addr // by which its client counts; the zero Addr where it speaks for many clients, or is not known
}

// Verdict says how a failure is answered and told.
type Verdict struct {
	Wait  time.Duration // until the source may try again; 0 is a plain refusal
	Began bool          // the wait begins with this failure
	Quiet bool          // it is not to be logged: its source waits, or too many others were logged in this second
}

// Options are what a [Table] needs to know.
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
	second      time.Time // that lines are counted in
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

// Fail counts a failure and says how it is answered. While a source waits, nothing more is counted against it.
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

// judge asks the address first: while it waits, the credentials that it tries take no place in the table.
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

// takeLogLine takes one of this second's lines of the log, if there is one left.
func (t *Table) takeLogLine(now time.Time) bool {
	if second := now.Truncate(time.Second); !second.Equal(t.second) {
		t.second, t.logLines = second, 0
	}
	t.logLines++
	return t.logLines <= maxLogLines
}

// source is somebody who failed.
type source struct {
	failures int
	last     time.Time // of them that counted
	until    time.Time // which it is to wait
}

// fail decides what a failure at now means for a source.
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
	if over < 8 { // 2^7 s are beyond the longest
		pause = min(maxPause, firstPause<<(over-1))
	}
	s.until = now.Add(pause)
	return s, Verdict{Wait: pause, Began: true}
}

// sources are those of one kind, in two generations: when the young one is full, the old one is forgotten.
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
