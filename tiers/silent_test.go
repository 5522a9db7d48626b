package tiers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// underWay is one request in the making.
type underWay struct {
	out     collector
	began   chan struct{} // closed at its first text
	over    chan struct{} // closed at its end
	receipt *Receipt
	err     error
}

func (r *rig) begin(body string) *underWay {
	r.t.Helper()
	req := scan(r.t, openai.Chat, body)
	u := &underWay{began: make(chan struct{}), over: make(chan struct{})}
	u.out.onText = sync.OnceFunc(func() { close(u.began) })
	go func() {
		defer close(u.over)
		u.receipt, u.err = answerBy(r.t.Context(), r.cascade, arrival{Body: req, ID: "test", Header: http.Header{}}, &u.out)
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

func TestNobodyWaitsForTheOnlyTargetThatIsFrozen(t *testing.T) {
	frozen := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7})
	p := testPool(t, "targets", "big", frozen.URL())
	cfg := testConfig()
	cfg.Mode = plan.ModeOff
	cfg.Timeouts = plan.Timeouts{TargetFirstToken: time.Minute, StreamIdle: time.Minute, Total: 2 * time.Minute}
	r := &rig{t: t, cascade: newTestCascade(t, Route{Model: "m", Target: p, Config: func() plan.Config { return cfg }})}
	runs(t, p)
	eventually(t, "a reading", func() bool { return p.Snapshot()[0].Age != nil })
	stream := r.begin(chat("Hello", `,"max_tokens":4000,"ignore_eos":true,"stream":true`))
	<-stream.began
	if err := frozen.SetFault(vllmsim.Fault{Hang: "process"}); err != nil {
		t.Fatal(err)
	}
	within := func(u *underWay, limit time.Duration, what string) {
		t.Helper()
		select {
		case <-u.over:
		case <-time.After(limit):
			t.Fatalf("%s waits for more than %v", what, limit)
		}
	}
	for _, body := range []string{`,"max_tokens":20`, `,"max_tokens":20,"stream":true`} {
		u := r.begin(chat("Hi", body))
		within(u, 10*time.Second, "who came before it was known")
		if FailureCauseOf(u.err, false) != plan.CauseUnavailable || len(u.out.writes) > 0 {
			t.Errorf("%v after %d writes, want that the pool is unavailable", u.err, len(u.out.writes))
		}
	}
	late := r.begin(chat("Hi", `,"max_tokens":20`))
	within(late, 2*time.Second, "who comes when it is known")
	if !errors.Is(late.err, pool.ErrNoBackend) {
		t.Errorf("who comes when it is known: %v", late.err)
	}
	drafting := testConfig()
	drafting.Accept.Threshold = -100
	small := vllmsim.Start(t, vllmsim.Options{Model: "small", Profile: "h100-8b", Seed: 7, TimeScale: 4})
	drafts := &rig{t: t, cascade: newTestCascade(t, Route{
		Model: "m", Draft: testPool(t, "drafts", "small", small.URL()), Target: p, SameTokenizer: true, Config: func() plan.Config { return drafting },
	})}
	drafted := drafts.begin(chat("Hi", `,"max_tokens":20,"stream":true`))
	within(drafted, 5*time.Second, "whoever a draft would do for")
	if drafted.err != nil || drafted.receipt.Tier != plan.Draft {
		t.Errorf("a draft that is accepted: %v by %s", drafted.err, drafted.receipt.Tier)
	}
	within(stream, 15*time.Second, "a stream that nobody can continue")
	if _, broken := errors.AsType[*BrokenError](stream.err); !broken {
		t.Errorf("the stream ended with %v", stream.err)
	}
}
