package tiers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// forwardBy has a cascade pass a request through by the route m.
func forwardBy(ctx context.Context, c *Cascade, path string, body *openai.Request, to Sink) (*Receipt, error) {
	own := &Metadata{Identity: dispatch.Identity{ID: "own"}}
	f, rc := &Forward{Arrival: Arrival{Metadata: own, Route: routeOf(c), Body: body}, Path: path}, NewReceipt("m", time.Now())
	return rc, NewPipeline(PipelineOptions{Cascade: c, CacheConfig: func(string) cache.Config { return cache.Config{} }}).forward(ctx, f, rc, to)
}

// passedBy has a backend answer a request that passes through.
func passedBy(t *testing.T, path, members string, sink Sink, answer http.HandlerFunc) (*Receipt, error) {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	cfg := testConfig()
	c := newTestCascade(t, Route{Model: "m", Target: testPool(t, "targets", "big", srv.URL), Config: func() plan.Config { return cfg }})
	body := []byte(`{"model":"m",` + members + `}`)
	env, err := openai.Peek(path, body, openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return forwardBy(t.Context(), c, path, env, sink)
}

func TestWhatNobodyPassesOnHasNoTimeOfTheTargets(t *testing.T) {
	rc, err := passedBy(t, "/v1/embeddings", `"input":"hi"`, &collector{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if err == nil || rc.Target != 0 || rc.First != 0 || rc.Tier != "" || len(rc.Tries) != 1 {
		t.Errorf("%v; %v until the first byte, %v of the target, from %q, %+v", err, rc.First, rc.Target, rc.Tier, rc.Tries)
	}
}

func TestAnAnswerOfAnotherTypeIsAskedOfAnotherBackend(t *testing.T) {
	var posts atomic.Int64
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && posts.Add(1) == 1 {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<script>")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":7}}`)
	})
	one, other := httptest.NewServer(answer), httptest.NewServer(answer)
	t.Cleanup(one.Close)
	t.Cleanup(other.Close)
	cfg := testConfig()
	c := newTestCascade(t, Route{Model: "m", Target: testPool(t, "targets", "big", one.URL, other.URL), Config: func() plan.Config { return cfg }})
	env, err := openai.Peek("/v1/embeddings", []byte(`{"model":"m","input":"hi"}`), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	out := &collector{}
	rc, err := forwardBy(t.Context(), c, "/v1/embeddings", env, out)
	if err != nil || out.head.ContentType != "application/json" || rc.PromptTokens != 7 || rc.Tier != plan.Target || len(rc.Tries) != 2 {
		t.Fatalf("%v, %+v, %+v", err, out.head, rc)
	}
	if rc.Tries[0].Failed != engine.BadResponse || rc.Tries[0].Call == rc.Tries[1].Call {
		t.Errorf("%+v", rc.Tries)
	}
}

// Audits, drafts in one piece and blocks of drafts are asked for as questions.
func TestTheUsageOfAQuestionIsCutToo(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}}`)
	}))
	t.Cleanup(srv.Close)
	cfg := testConfig()
	c := newTestCascade(t, Route{Model: "m", Target: testPool(t, "targets", "big", srv.URL), Config: func() plan.Config { return cfg }})
	r, err := openai.Scan(openai.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50}`), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var a openai.DraftAnswer
	rc := &Receipt{Began: time.Now()}
	q := c.arrive(Arrival{Metadata: &Metadata{}, Route: routeOf(c), Body: r})
	q.Receipt = rc
	caller := q.calls()
	o := caller.NewRequest(q.Target, &engine.Answer{Terms: q.Terms(q.Target), Request: r, Into: &a})
	if _, err := caller.Do(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if a.Usage.Completion != 50 || a.Usage.Prompt > len(r.Body)+5000 || rc.Tries[0].Tokens != 50 {
		t.Errorf("%+v, %+v", a.Usage, rc.Tries)
	}
}
