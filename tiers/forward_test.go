package tiers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/dispatch"
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

func TestWhatPassesThroughHasTheTypeAndTheUsageOfItsAnswer(t *testing.T) {
	out := &collector{}
	rc, err := passedBy(t, "/v1/embeddings", `"input":"hi"`, out, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":7}}`)
	})
	if err != nil || out.head.ContentType != "application/json" || rc.PromptTokens != 7 || rc.Tier != plan.Target || len(rc.Tries) != 1 {
		t.Errorf("%v, %+v, %+v", err, out.head, rc)
	}
}
