package tiers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// brittle breaks the first call as a kept connection breaks, calls then, and answers the others.
type brittle struct {
	calls atomic.Int32
	then  func()
}

func (b *brittle) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.calls.Add(1) > 1 {
		return http.DefaultTransport.RoundTrip(r)
	}
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true})
	b.then()
	return nil, io.EOF
}

// dispatched has a cascade dispatch one call of a draft, which may try twice, to a pool.
func dispatched(t *testing.T, p *pool.Pool, o Options) error {
	t.Helper()
	cfg := testConfig()
	cfg.MaxRetries = 1
	o.Routes = []Route{{Model: "m", Target: p, Config: func() plan.Config { return cfg }}}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	req, err := openai.Scan(openai.Chat, []byte(chat("Hello", `,"stream":true`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	caller := c.newRequest(routeOf(c), &cfg, &Request{Body: req}).Caller(receipt.NewRecorder(&receipt.Receipt{}, time.Now))
	of := inflight.Pool{Pool: p, Tier: plan.Draft}
	call := caller.NewRequest(of, &engine.Draft{Terms: caller.Terms(of), Request: req})
	call.Ticket.NoWait = true
	x, err := caller.Open(t.Context(), call)
	if err == nil {
		x.Drop()
	}
	return err
}

// permit is leave to call a backend, with what becomes of it.
type permit func(error)

func (p permit) Report(err error) { p(err) }

// picks is a queue that counts who comes.
type picks int

func (n *picks) Enter(_ context.Context, _ dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	*n++
	return 0, try(pool.Admission{})
}

func TestADraftWhoseOnlyBackendMayNotBeAskedTakesNoRetry(t *testing.T) {
	for name, shuts := range map[string]bool{"may be asked": false, "may not": true} {
		engine := newScripted(t, ending)
		var shut atomic.Bool
		p, err := pool.New(pool.Options{
			Name: "drafts", Model: "small", Backends: []string{engine.URL}, Shut: func(string) bool { return shut.Load() },
		})
		if err != nil {
			t.Fatal(err)
		}
		var n picks
		o := optionsBy(&brittle{then: func() { shut.Store(shuts) }})
		o.Queue = &n
		err = dispatched(t, p, o)
		if want := map[bool]picks{false: 3, true: 2}[shuts]; n != want || (err != nil) != shuts {
			t.Errorf("%s: %d picks, want %d; %v", name, n, want, err)
		}
	}
}

// onceShut is a breaker that lets the first backend in once, and each other from the second time on.
type onceShut struct {
	first   string
	refused map[string]bool
}

func (g *onceShut) Allow(_, backend string) (dispatch.Permit, error) {
	switch {
	case g.first == "":
		g.first = backend
	case backend == g.first || !g.refused[backend]:
		g.refused[backend] = true
		return nil, io.ErrNoProgress
	}
	return permit(func(error) {}), nil
}

func TestABackendThatItsGateKeptOutMayBeAskedInTheLastTry(t *testing.T) {
	a, b := newScripted(t, ending), newScripted(t, ending)
	p := testPool(t, "drafts", "small", a.URL, b.URL)
	o := optionsBy(&brittle{then: func() {}})
	o.Breaker = &onceShut{refused: map[string]bool{}}
	if err := dispatched(t, p, o); err != nil {
		t.Error(err)
	}
}
