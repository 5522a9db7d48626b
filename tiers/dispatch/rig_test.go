package dispatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/world"
)

// rig is a dispatcher whose world beside it a test plays: engines, queue, breaker, metrics and the record.
type rig struct {
	t    *testing.T
	d    *Dispatcher
	pool *pool.Pool

	answer   func(a *engine.Attempt) (engine.Stream, error) // of the engines
	enter    func() error                                   // of the queue, before it lets somebody in; nil is no word
	limit    pool.Admission                                 // of the queue
	allow    func(backend string) error                     // of the breaker; nil allows
	attempts []engine.Attempt
	tickets  []Ticket
	reports  []string // what breakers were told: backend and kind
	out      int      // permits that nobody has reported on
	window   int

	record
}

// record keeps what became of the calls of a request.
type record struct {
	full    bool // it takes no more calls
	waited  time.Duration
	tries   []Try
	settled int
	costs   int
}

func (r *record) Waited(d time.Duration) { r.waited += d }
func (r *record) Cost(Cost)              { r.costs++ }

func (r *record) Tried(t Try, _ time.Time) int {
	if r.full {
		return 0
	}
	r.tries = append(r.tries, t)
	return len(r.tries)
}

func (r *record) Settled(entry int, t Try) {
	r.settled++
	r.tries[entry-1] = t
}

// newRig makes a dispatcher over a pool of so many backends, which answer everything.
func newRig(t *testing.T, backends int) *rig {
	t.Helper()
	r := &rig{t: t, answer: func(*engine.Attempt) (engine.Stream, error) { return &stream{}, nil }}
	var urls []string
	for i := range backends {
		urls = append(urls, fmt.Sprintf("http://b%d", i))
	}
	var err error
	if r.pool, err = pool.New(pool.Options{Name: "p", Model: "big", Backends: urls}); err != nil {
		t.Fatal(err)
	}
	r.d = New(Options{
		World: world.System{}, Upstream: r, Queue: r, Breaker: r, Scores: NewScoreLimiter(),
		Window: func(string) int { return r.window },
	})
	return r
}

// order is a call for a streamed answer, which is tried at two backends.
func (r *rig) order() Request {
	return Request{
		Call: &engine.Draft{}, Pool: r.pool, Tier: plan.Target, Role: RoleTarget, Events: r,
		Retry: Retry{MaxRetries: 1, Budget: 0.2}, Identity: Identity{ID: "own"},
	}
}

// Open implements [engine.Upstream].
func (r *rig) Open(_ context.Context, a *engine.Attempt) (engine.Stream, error) {
	r.attempts = append(r.attempts, *a)
	return r.answer(a)
}

// Enter implements [Queue].
func (r *rig) Enter(_ context.Context, t Ticket, try func(pool.Admission) error) (time.Duration, error) {
	r.tickets = append(r.tickets, t)
	if r.enter != nil {
		if err := r.enter(); err != nil {
			return time.Second, err
		}
	}
	return time.Second, try(r.limit)
}

// Allow implements [Breaker].
func (r *rig) Allow(_, backend, _ string) (Permit, error) {
	if r.allow != nil {
		if err := r.allow(backend); err != nil {
			return nil, err
		}
	}
	r.out++
	return permit{r, backend}, nil
}

type permit struct {
	rig     *rig
	backend string
}

func (p permit) Report(err error) {
	p.rig.out--
	p.rig.reports = append(p.rig.reports, p.backend+" "+kindOf(err))
}

// failed is the number of failures that were counted, of all kinds.
func (r *rig) failed() (n int) {
	for _, f := range counted(r.d.metrics.failures) {
		n += int(f)
	}
	return n
}

// spent is the number of retries that the budget did not give.
func (r *rig) spent() int { return int(testutil.ToFloat64(r.d.metrics.budgetSpent)) }

// counted are the values of a counter's series.
func counted(c prometheus.Collector) (values []float64) {
	all := make(chan prometheus.Metric, 100)
	c.Collect(all)
	close(all)
	for m := range all {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			panic(err)
		}
		values = append(values, out.GetCounter().GetValue())
	}
	return values
}

// kindOf words an outcome: the kind of a failure, or "ok".
func kindOf(err error) string {
	f, ok := err.(*engine.Failure)
	switch {
	case err == nil:
		return "ok"
	case ok:
		return string(f.Kind)
	}
	return err.Error()
}

// stream is an answer whose chunks are at hand, and that ends with err; nil is a good end.
type stream struct {
	chunks []openai.Chunk
	err    error
	closed int
}

func (s *stream) Next(engine.Want) (*openai.Chunk, error) {
	if len(s.chunks) > 0 {
		c := &s.chunks[0]
		s.chunks = s.chunks[1:]
		return c, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, io.EOF
}

func (s *stream) Buffered() bool { return true }
func (s *stream) Close()         { s.closed++ }

// fails has the engines fail, the last of these again and again.
func (r *rig) fails(failures ...engine.Failure) {
	n := 0
	r.answer = func(*engine.Attempt) (engine.Stream, error) {
		f := failures[min(n, len(failures)-1)]
		n++
		if f.Kind == "" {
			return &stream{}, nil
		}
		return nil, &f
	}
}

// held is how many places, permits and tries are taken.
func (r *rig) held() int {
	n := r.out + int(r.d.active.Load()) + int(r.d.retrying.Load())
	for _, b := range r.pool.Snapshot() {
		n += b.InFlight
	}
	return n
}

// given fails the test where something is still held.
func (r *rig) given(what string) {
	r.t.Helper()
	if n := r.held(); n != 0 {
		r.t.Errorf("%s: %d places, permits and tries are held for ever", what, n)
	}
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func traced() http.Header { return http.Header{"Traceparent": {parent}} }
