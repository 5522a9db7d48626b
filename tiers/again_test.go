package tiers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

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
	cfg.RetryAttempts = 1
	o.Routes = []Route{{Model: "m", Target: p, Config: func() plan.Config { return cfg }}}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.dispatch(t.Context(), call{pool: p, tier: plan.Draft, turn: Turn{Now: true}, path: openai.Chat.Path(), body: []byte("{}"), stream: true}, cfg, &receipt.Receipt{})
	if err == nil {
		x.drop()
	}
	return err
}

// picks is a line that counts who comes.
type picks int

func (n *picks) Enter(_ context.Context, _ Turn, try func(pool.Limit) error) (time.Duration, error) {
	*n++
	return 0, try(pool.Limit{})
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
		err = dispatched(t, p, Options{Line: &n, Transport: &brittle{then: func() { shut.Store(shuts) }}})
		if want := map[bool]picks{false: 3, true: 2}[shuts]; n != want || (err != nil) != shuts {
			t.Errorf("%s: %d picks, want %d; %v", name, n, want, err)
		}
	}
}

// onceShut is a gate that lets the first backend in once, and each other from the second time on.
type onceShut struct {
	first   string
	refused map[string]bool
}

func (g *onceShut) Allow(_, backend string) (func(error), error) {
	switch {
	case g.first == "":
		g.first = backend
	case backend == g.first || !g.refused[backend]:
		g.refused[backend] = true
		return nil, io.ErrNoProgress
	}
	return func(error) {}, nil
}

func TestABackendThatItsGateKeptOutMayBeAskedInTheLastTry(t *testing.T) {
	a, b := newScripted(t, ending), newScripted(t, ending)
	p := testPool(t, "drafts", "small", a.URL, b.URL)
	if err := dispatched(t, p, Options{Gate: &onceShut{refused: map[string]bool{}}, Transport: &brittle{then: func() {}}}); err != nil {
		t.Error(err)
	}
}
