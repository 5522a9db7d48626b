package admission

import (
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	low    = identity.Low
	normal = identity.Normal
	high   = identity.High
)

// start is when the tests' clocks begin.
var start = time.Unix(1_800_000_000, 0)

// memory is the memory of one backend as a try finds it.
type memory struct {
	usage   float64
	places  int           // requests that it still takes; −1 is any number
	waiting int           // that it tells
	wait    time.Duration // that it foresees
	minimum float64       // limit for which there is room by what answers will grow to
	asked   []pool.Admission
}

func (m *memory) try(l pool.Admission) error {
	m.asked = append(m.asked, l)
	e := &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: m.usage, Peak: m.usage, PeakLimit: l.MaxUsage, Waiting: m.waiting, Queue: l.MaxQueue, Wait: m.wait}
	switch {
	case l.MaxUsage > 0 && m.usage >= l.MaxUsage, l.MaxQueue > 0 && m.waiting > l.MaxQueue:
		return e
	case l.MaxUsage > 0 && (m.places == 0 || l.MaxUsage < m.minimum):
		e.Peak = l.MaxUsage + 0.01
		return e
	case m.places > 0:
		m.places--
	}
	return nil
}

// bench is a line with a clock and one backend's memory.
type bench struct {
	*Queue
	t   *testing.T
	now time.Time
	mem memory
	cfg Config
}

func newBench(t *testing.T) *bench {
	return &bench{
		Queue: &Queue{Pool: "p", Rand: func() float64 { return 0 }},
		t:     t, now: start, mem: memory{places: -1}, cfg: defaultConfig(),
	}
}

// asked is one request of a test: what became of it.
type asked struct {
	Ticket
	err  error
	done int
}

// request makes one that would enter; change may be nil.
func (b *bench) request(class identity.Priority, tenant string, change func(*Ticket)) *asked {
	a := &asked{Ticket: Ticket{Route: "r", Class: class, Tenant: tenant, Tokens: 100, Config: b.cfg, Try: b.mem.try}}
	a.Done = func(err error) {
		a.err = err
		a.done++
	}
	if change != nil {
		change(&a.Ticket)
	}
	return a
}

// enter has one enter.
func (b *bench) enter(class identity.Priority, tenant string, change func(*Ticket)) *asked {
	a := b.request(class, tenant, change)
	b.Enter(&a.Ticket, b.now)
	return a
}

// serve moves the clock and looks.
func (b *bench) serve(d time.Duration) {
	b.now = b.now.Add(d)
	b.Serve(b.now)
}

// is says what became of one: "in", "waits", or why it was shed.
func (a *asked) is() string {
	switch shed, ok := errors.AsType[*ShedError](a.err); {
	case a.done == 0:
		return "waits"
	case a.done > 1:
		return "told twice"
	case a.err == nil:
		return "in"
	case ok:
		return shed.Reason
	default:
		return a.err.Error()
	}
}

// want fails where something else became of it.
func (b *bench) want(a *asked, want string) {
	b.t.Helper()
	if got := a.is(); got != want {
		b.t.Errorf("%s of %s: %s, want %s", a.Class, a.Tenant, got, want)
	}
}

// defaultConfig returns the default values.
func defaultConfig() Config {
	return Config{
		Threshold: [3]float64{0.85, 0.95, 1}, Hysteresis: 0.05, Forecast: true,
		MaxWait: [3]time.Duration{10 * time.Second, 15 * time.Second, 30 * time.Second},
	}
}
