package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// tracingTo traces nobody but the tenants that opted in.
func tracingTo(c *collector) string { return fmt.Sprintf("tracing: {otlp: %q, sample: 0}\n", c.url) }

// newOptedIn serves a replica, one of whose tenants, named default, opted in to content on its traces; the tenant other did not.
func newOptedIn(t *testing.T, c *collector) *apptest.Replica {
	t.Helper()
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Profile: "a10g-8b", Seed: simSeed, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: simScale})
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", "redis.timeout", "1s", "speculation.mode@plain", "off")
	r := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {small: {model: %s, backends: [%q]}, large: {model: %s, backends: [%q]}}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}, {model: plain, target: large}]
tenants: [{id: default, trace_content: true}, {id: other}]
drain: {delay: 0s, grace: 5s}
%s`, store.Addr(), simDraft, draft.URL(), simTarget, target.URL(), tracingTo(c)))
	r.Ready(t)
	return r
}

const asked = `{"model":%q,"stream":%t,"temperature":0,"max_tokens":6,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"}]}`

// askedMessages are the messages of asked on a span.
const askedMessages = `[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"Why is the sky blue?"}]}]`

// requestID sends a request, and returns the answer's request id and cache result.
func requestID(t *testing.T, r *apptest.Replica, body string, headers ...string) (id, cached string) {
	t.Helper()
	code, h, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, headers...)
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, answer)
	}
	return h.Get("X-Request-Id"), h.Get("X-Cache")
}

// TestOnlyATenantThatOptedInIsTracedWithContent lets both ask with and without a trace of their own.
func TestOnlyATenantThatOptedInIsTracedWithContent(t *testing.T) {
	c := newCollector(t)
	r := newOptedIn(t, c)
	body := fmt.Sprintf(asked, "plain", false)
	unsampled := strings.TrimSuffix(sampled, "1") + "0"
	silent, _ := requestID(t, r, body, "X-Tenant-ID", "other")
	traced, _ := requestID(t, r, body, "X-Tenant-ID", "other", "Traceparent", sampled)
	if span := c.of(t, traced); about(span.Attributes, "gen_ai.input.messages") != "" || about(span.Attributes, "gen_ai.output.messages") != "" {
		t.Errorf("a tenant that did not opt in: %v", span.Attributes)
	}
	for _, headers := range [][]string{nil, {"Traceparent", unsampled}} { // the span is forced
		id, _ := requestID(t, r, body, headers...)
		if got := about(c.of(t, id).Attributes, "gen_ai.input.messages"); got != askedMessages {
			t.Errorf("%v: messages %q", headers, got)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if about(s.Attributes, "foregate.request_id") == silent {
			t.Errorf("a request that nobody wanted traced: %v", s)
		}
	}
}

func TestNoHeaderOfARequestIsTraced(t *testing.T) {
	const secret = "canary-4711"
	c := newCollector(t)
	r := newOptedIn(t, c)
	id, _ := requestID(t, r, fmt.Sprintf(asked, "plain", true), "Authorization", "Bearer "+secret, "X-Api-Key", secret, "Cookie", "k="+secret, "User-Agent", secret)
	c.of(t, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wire := c.wire.String(); strings.Contains(wire, secret) || !strings.Contains(wire, "Why is the sky blue?") {
		t.Errorf("the collector got %q", wire)
	}
}
