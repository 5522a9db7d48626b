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
	store.HSet("foregate:settings", "cache.lookup_timeout", "1s", "speculation.mode@plain", "off")
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

func TestWholeStreamedAndCachedAnswersAreTracedAlike(t *testing.T) {
	c := newCollector(t)
	r := newOptedIn(t, c)
	for _, model := range []string{"llama-3", "plain"} {
		var first string
		for i, stream := range []bool{false, true, false} {
			body := fmt.Sprintf(asked, model, stream)
			id, cached := "", ""
			if i < 2 {
				id, cached = requestID(t, r, body, "Cache-Control", "no-store")
			} else { // the first of these fills the cache, a later one gets the answer out of it
				apptest.Eventually(t, "the cache answers", func() bool {
					id, cached = requestID(t, r, body)
					return cached == "HIT"
				})
			}
			if hit := cached == "HIT"; hit != (i == 2) {
				t.Errorf("%s %d: X-Cache %q", model, i, cached)
			}
			span := c.of(t, id)
			out := about(span.Attributes, "gen_ai.output.messages")
			if first == "" {
				first = out
			}
			if out != first || !strings.Contains(out, `"parts":[{"type":"text","content":"`) {
				t.Errorf("%s %d: output %s, first %s", model, i, out, first)
			}
			for key, want := range map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.response.model": simTarget, "foregate.tenant": "default",
				"gen_ai.input.messages": askedMessages, "gen_ai.usage.output_tokens": "6", "foregate.truncated": "",
			} {
				if got := about(span.Attributes, key); got != want {
					t.Errorf("%s %d: %s is %q, want %q", model, i, key, got, want)
				}
			}
		}
	}
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

func TestLongMessagesAreTracedWithinTheBoundAndMarked(t *testing.T) {
	c := newCollector(t)
	r := newOptedIn(t, c)
	body := strings.Replace(fmt.Sprintf(asked, "plain", false), "Be brief.", strings.Repeat("Be brief. ", 4000), 1)
	id, _ := requestID(t, r, body)
	span := c.of(t, id)
	in := about(span.Attributes, "gen_ai.input.messages")
	if len(in) > 32<<10 || !strings.Contains(in, "Why is the sky blue?") || about(span.Attributes, "foregate.truncated") == "" {
		t.Errorf("%d bytes, truncated %q", len(in), about(span.Attributes, "foregate.truncated"))
	}
}

// TestEveryAPIIsTracedAlike asks the same, which the cache answers from the second time on, and once without the cache.
func TestEveryAPIIsTracedAlike(t *testing.T) {
	c := newCollector(t)
	r := newOptedIn(t, c)
	sent := map[string]string{} // what was sent, by request id
	for _, stream := range []bool{false, true} {
		for path, body := range map[string]string{
			chat:            asked,
			"/v1/responses": `{"model":%q,"stream":%t,"store":false,"temperature":0,"max_output_tokens":6,"instructions":"Be brief.","input":"Why is the sky blue?"}`,
			"/v1/messages":  `{"model":%q,"stream":%t,"temperature":0,"max_tokens":6,"system":"Be brief.","messages":[{"role":"user","content":"Why is the sky blue?"}]}`,
		} {
			for _, headers := range [][]string{{"Cache-Control", "no-store"}, nil} {
				code, h, answer := apptest.Send(t, http.MethodPost, r.URL+path, fmt.Sprintf(body, "plain", stream), headers...)
				if code != http.StatusOK {
					t.Fatalf("%s: status %d: %s", path, code, answer)
				}
				sent[h.Get("X-Request-Id")] = fmt.Sprintf("%s, stream %t, %v", path, stream, headers)
			}
		}
	}
	first := ""
	for id, what := range sent {
		span := c.of(t, id)
		var told []string
		for _, key := range []string{"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.usage.output_tokens"} {
			told = append(told, about(span.Attributes, key))
		}
		all := strings.Join(told, "\n")
		if first == "" {
			first = all
		}
		if all != first || told[2] != askedMessages || told[3] == "" {
			t.Errorf("%s:\n%s\nthe first:\n%s", what, all, first)
		}
	}
}
