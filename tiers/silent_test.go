package tiers

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// underWay is one request in the making.
type underWay struct {
	out     collector
	began   chan struct{} // closed at its first text
	over    chan struct{} // closed at its end
	receipt *receipt.Receipt
	err     error
}

func (r *rig) begin(body string) *underWay {
	r.t.Helper()
	req, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		r.t.Fatal(err)
	}
	u := &underWay{began: make(chan struct{}), over: make(chan struct{})}
	u.out.onText = sync.OnceFunc(func() { close(u.began) })
	go func() {
		defer close(u.over)
		u.receipt, u.err = r.cascade.Answer(r.t.Context(), Request{Body: req, ID: "test", Header: http.Header{}}, &u.out)
	}()
	return u
}

// runs has a pool read its backends until the test ends.
func runs(t *testing.T, p *pool.Pool) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestCallsAtAProcessThatFallsSilentAreMadeByAnother(t *testing.T) {
	frozen := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: 4})
	other := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: 4})
	p := testPool(t, "targets", "big", frozen.URL(), other.URL())
	cfg := testConfig()
	cfg.Mode = plan.ModeOff
	cfg.Timeouts = plan.Timeouts{TargetFirstToken: time.Minute, StreamIdle: time.Minute, Total: 2 * time.Minute}
	r := &rig{t: t, cascade: newTestCascade(t, Route{Model: "m", Target: p, Config: func() plan.Config { return cfg }})}
	runs(t, p)
	eventually(t, "readings", func() bool { s := p.Snapshot(); return s[0].HasReading && s[1].HasReading })

	var streams, waiting []*underWay
	for _, q := range prompts(4) {
		streams = append(streams, r.begin(chat(q, `,"max_tokens":300,"ignore_eos":true,"stream":true`)))
	}
	for _, u := range streams {
		<-u.began
	}
	if err := frozen.SetFault(vllmsim.Fault{Hang: "process"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range prompts(8)[4:] {
		waiting = append(waiting, r.begin(chat(q, `,"max_tokens":20`)))
	}
	silent := func(all []*underWay, kind func(dispatch.Try) engine.FailureKind) (n int) {
		for _, u := range all {
			<-u.over
			if u.err != nil {
				t.Error(u.err)
			}
			for _, try := range u.receipt.Tries {
				if kind(try) == engine.Silent {
					n++
				}
			}
		}
		return n
	}
	if silent(streams, func(t dispatch.Try) engine.FailureKind { return t.Broke }) == 0 {
		t.Error("no stream was carried on elsewhere: the test shows nothing")
	}
	if silent(waiting, func(t dispatch.Try) engine.FailureKind { return t.Failed }) == 0 {
		t.Error("no call that waited was moved: the test shows nothing")
	}
	for _, u := range streams {
		if a := read(t, true, bytes.Join(u.out.writes, nil)); !a.done || a.finish != "length" {
			t.Errorf("a stream ended with %q, done %v", a.finish, a.done)
		}
	}
}

func TestADraftPoolWhoseOnlyBreakerIsOpenIsNotAskedThoughThePoolKeepsItsLast(t *testing.T) {
	r := newRig(t, 7, 0.1, true)
	drafts, err := pool.New(pool.Options{
		Name: "drafts", Model: "small", Backends: []string{r.draft.URL()},
		Open: func(string) bool { return false }, Shut: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.cascade = newTestCascade(t, Route{
		Model: "m", Draft: drafts, Target: testPool(t, "targets", "big", r.target.URL()), SameTokenizer: true,
		Config: func() plan.Config { return r.cfg },
	})
	_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20`))
	if err != nil || rc.Tier != plan.Target || rc.Plan.Reason != "draft_unavailable" || len(rc.Tries) != 1 {
		t.Errorf("%v; %s, %s, %+v", err, rc.Tier, rc.Plan.Reason, rc.Tries)
	}
	// Who asks for the draft has nowhere else to go.
	if _, rc, err = r.ask(openai.Chat, plan.Draft, chat("Hello", `,"max_tokens":20`)); err != nil || rc.Tier != plan.Draft {
		t.Errorf("%v; %s", err, rc.Tier)
	}
}

// dropping is an engine that takes a request in and drops the connection it came on after a time, once a
// connection has carried one before: kept connections die, new ones do not.
func dropping(t *testing.T, after time.Duration) (url string, generations *atomic.Int32, drop *atomic.Bool) {
	generations, drop = new(atomic.Int32), new(atomic.Bool)
	var used sync.Map
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		generations.Add(1)
		if _, kept := used.LoadOrStore(r.Context().Value(connection{}), true); kept && drop.Load() {
			time.Sleep(after)
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","created":1,"model":"big","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	}))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, generations, drop
}

type connection struct{}

// judgedAt is a target alone, whose faults are counted.
func judgedAt(t *testing.T, url string) (*rig, *classes) {
	t.Helper()
	cfg := testConfig()
	cfg.Mode = plan.ModeOff
	gate := &classes{}
	o := testOptions(t)
	o.Breaker, o.Routes = gate, []Route{{
		Model: "m", Target: testPool(t, "targets", "big", url), Config: func() plan.Config { return cfg },
	}}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, cascade: c}, gate
}

func TestEveryTryAtABackendThatDropsKeptConnectionsIsInTheReceipt(t *testing.T) {
	url, generations, drop := dropping(t, 0)
	r, gate := judgedAt(t, url)
	var all []*underWay
	for range 6 { // as many connections, all of them kept
		all = append(all, r.begin(chat("Hello", "")))
	}
	for _, u := range all {
		if <-u.over; u.err != nil {
			t.Fatal(u.err)
		}
	}
	drop.Store(true)
	generations.Store(0)
	for range 20 {
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", ""))
		made := int(generations.Swap(0))
		if len(rc.Tries) != made || made > 1+testConfig().MaxRetries {
			t.Errorf("%d generations, %d tries: %+v", made, len(rc.Tries), rc.Tries)
		}
		if err != nil && made <= 1 {
			t.Errorf("not tried again on a new connection: %v", err)
		}
	}
	if gate.faults.Load() > 0 {
		t.Errorf("%d kept connections that died are held against the backend", gate.faults.Load())
	}
}

// classes is a breaker that counts the faults.
type classes struct{ faults atomic.Int32 }

func (g *classes) Allow(string, string) (dispatch.Permit, error) {
	return permit(func(err error) {
		if engine.Classify(err) == engine.ClassFault {
			g.faults.Add(1)
		}
	}), nil
}

func TestWhoBreaksAKeptConnectionWhileItWorksIsHeldToIt(t *testing.T) {
	url, _, drop := dropping(t, time.Second/2) // longer than what was closed while it was idle takes to break
	r, gate := judgedAt(t, url)
	if _, _, err := r.ask(openai.Chat, plan.Auto, chat("Hello", "")); err != nil {
		t.Fatal(err)
	}
	drop.Store(true)
	_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", ""))
	if err != nil || len(rc.Tries) != 2 || gate.faults.Load() != 1 {
		t.Errorf("%d faults; %v, %+v", gate.faults.Load(), err, rc.Tries)
	}
}

func TestADraftThatFallsSilentBeforeItIsSentIsLeftWithoutFailover(t *testing.T) {
	draft := vllmsim.Start(t, vllmsim.Options{Model: "small", Profile: "h100-70b-tp4", Seed: 7})
	target := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: 4})
	drafts := testPool(t, "drafts", "small", draft.URL())
	cfg := testConfig()
	cfg.MidstreamFailover, cfg.HoldbackTokens, cfg.Holdback = false, 1000, time.Minute
	cfg.Timeouts = plan.Timeouts{DraftFirstToken: time.Minute, TargetFirstToken: time.Minute, StreamIdle: time.Minute, Total: 2 * time.Minute}
	r := &rig{t: t, cascade: newTestCascade(t, Route{
		Model: "m", Draft: drafts, Target: testPool(t, "targets", "big", target.URL()), SameTokenizer: true, Config: func() plan.Config { return cfg },
	})}
	runs(t, drafts)
	eventually(t, "readings", func() bool { return drafts.Snapshot()[0].HasReading })
	u := r.begin(chat("Hello", `,"max_tokens":400,"ignore_eos":true,"stream":true`))
	eventually(t, "a running draft", func() bool { return drafts.Snapshot()[0].Reading.Running > 0 })
	if err := draft.SetFault(vllmsim.Fault{Hang: "process"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-u.over:
	case <-time.After(10 * time.Second):
		t.Fatal("the client waits for a draft that is silent, of which it has nothing")
	}
	if u.err != nil || u.receipt.Tier != plan.Mixed || u.receipt.Tries[0].Broke != engine.Silent {
		t.Errorf("%v; %s, %+v", u.err, u.receipt.Tier, u.receipt.Tries)
	}
}
