package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

func TestAnswersOfFallbacksAreTraced(t *testing.T) {
	for _, own := range []string{"dead", "shared"} {
		c, hosted := newCollector(t), startHosted(t)
		url := deadURL(t)
		if own == "shared" {
			engine := startHeld(t) // it breaks the generation that others may share
			engine.release()
			url = engine.URL
		}
		r := apptest.Serve(t, tracedFallbacks(c, url, hosted.URL, "{pool: hosted, max_usd_per_hour: 20}"))
		for _, stream := range []bool{false, true} {
			body := chatBody("llama-3", `"temperature":0`, fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream))
			status, head, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Tenant-ID", "acme")
			if status != http.StatusOK || head.Get("X-Tier") != "fallback" {
				t.Fatalf("%s, stream %t: status %d, tier %q: %s", own, stream, status, head.Get("X-Tier"), answer)
			}
			span := c.of(t, head.Get("X-Request-Id"))
			for key, want := range map[string]string{
				"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"from outside"}],"finish_reason":"stop"}]`,
				"gen_ai.response.model":  "theirs", "gen_ai.request.model": "llama-3",
				"foregate.tier": "fallback", "foregate.truncated": "", "gen_ai.usage.output_tokens": "5",
			} {
				if got := about(span.Attributes, key); got != want {
					t.Errorf("%s, stream %t: %s is %q, want %q", own, stream, key, got, want)
				}
			}
		}
	}
}

// tracedFallbacks is a fallback's file whose tenant acme opted in.
func tracedFallbacks(c *collector, own, hosted, fallback string) string {
	return strings.Replace(fallbackFile(own, hosted, fallback, tracingTo(c)), "{id: acme,", "{id: acme, trace_content: true,", 1)
}

func TestAFallbackThatBrokeOffIsTracedAsFarAsItCame(t *testing.T) {
	c, hosted := newCollector(t), startHosted(t)
	hosted.set(0, true)
	r := apptest.Serve(t, tracedFallbacks(c, deadURL(t), hosted.URL, "{pool: hosted, max_usd_per_hour: 20}"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+chat, strings.NewReader(chatBody("llama-3", `"max_tokens":20,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant-ID", "acme")
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body) // it breaks off
	_ = answer.Body.Close()
	span := c.of(t, answer.Header.Get("X-Request-Id"))
	const want = `[{"role":"assistant","parts":[{"type":"text","content":"from "}],"finish_reason":"error"}]`
	if got := about(span.Attributes, "gen_ai.output.messages"); got != want || about(span.Attributes, "foregate.truncated") == "" {
		t.Errorf("output %s of %v", got, span.Attributes)
	}
}

func TestASpanHasTheTargetThatAnswersAConversation(t *testing.T) {
	c := newCollector(t)
	w := startCanary(t, targets(50, 50), "tracing: {otlp: \""+c.url+"\", sample: 1}\n")
	old, fresh := w.of(t, poolOld, 0), w.of(t, poolNew, 0)
	w.tells(t, c, old, poolOld, "")
	w.tells(t, c, fresh, poolNew, "")
	w.new.broke.Store(true)
	apptest.Eventually(t, "the incumbent answers", func() bool { return answerer(t, w.Replica, turn(fresh, 1)) == poolOld })
	w.tells(t, c, fresh, poolOld, poolNew)
}

// tells fails if the span of a conversation does not say that a pool answers, in place of another one, if any.
func (w *canaryWorld) tells(t *testing.T, c *collector, conversation int, pool, diverted string) {
	t.Helper()
	id, _ := requestID(t, w.Replica, turn(conversation, 2))
	span := c.of(t, id)
	for key, want := range map[string]string{"gen_ai.response.model": pool + "-model", "foregate.target_pool": pool, "foregate.diverted_from": diverted} {
		if got := about(span.Attributes, key); got != want {
			t.Errorf("conversation %d: %s is %q, want %q", conversation, key, got, want)
		}
	}
}
