package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

func TestAnswersOfFallbacksAreExported(t *testing.T) {
	for _, own := range []string{"dead", "shared"} {
		c, hosted := newLogCollector(t), startHosted(t)
		url := deadURL(t)
		if own == "shared" {
			engine := startHeld(t) // it breaks the generation that others may share
			engine.release()
			url = engine.URL
		}
		r := apptest.Serve(t, fallbackFile(url, hosted.URL, "{pool: hosted, max_usd_per_hour: 20}", "export: {otlp_logs: "+c.url+", share: 1, content: full}\n"))
		for _, stream := range []bool{false, true} {
			body := chatBody("llama-3", `"temperature":0`, fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream))
			status, head, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Tenant-ID", "acme")
			if status != http.StatusOK || head.Get("X-Tier") != "fallback" {
				t.Fatalf("%s, stream %t: status %d, tier %q: %s", own, stream, status, head.Get("X-Tier"), answer)
			}
			rec := c.of(t, head.Get("X-Request-Id"))
			for key, want := range map[string]string{
				"gen_ai.output.messages": `[{"finish_reason":"stop","parts":[{"content":"from outside","type":"text"}],"role":"assistant"}]`,
				"gen_ai.response.model":  "theirs", "gen_ai.request.model": "llama-3",
				"foregate.tier": "fallback", "foregate.truncated": "", "gen_ai.usage.output_tokens": "5",
			} {
				if got := about(rec.Attributes, key); got != want {
					t.Errorf("%s, stream %t: %s is %q, want %q", own, stream, key, got, want)
				}
			}
		}
	}
}

func TestAFallbackThatBrokeOffIsExportedAsFarAsItCame(t *testing.T) {
	c, hosted := newLogCollector(t), startHosted(t)
	hosted.set(0, true)
	r := apptest.Serve(t, fallbackFile(deadURL(t), hosted.URL, "{pool: hosted, max_usd_per_hour: 20}", "export: {otlp_logs: "+c.url+", share: 1, content: full}\n"))
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
	rec := c.of(t, answer.Header.Get("X-Request-Id"))
	const want = `[{"finish_reason":"error","parts":[{"content":"from ","type":"text"}],"role":"assistant"}]`
	if got := about(rec.Attributes, "gen_ai.output.messages"); got != want || about(rec.Attributes, "foregate.truncated") == "" {
		t.Errorf("output %s of %v", got, rec.Attributes)
	}
}

func TestARecordHasTheModelOfTheDraftThatIsTheAnswer(t *testing.T) {
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: none}")
	for tier, want := range map[string]string{"draft": simDraft, "target": simTarget} {
		id, _ := exported(t, r, fmt.Sprintf(asked, "llama-3", false), "X-Tier", tier)
		rec := c.of(t, id)
		if got := about(rec.Attributes, "gen_ai.response.model"); got != want || about(rec.Attributes, "foregate.tier") != tier {
			t.Errorf("tier %s: model %q of %v", tier, got, rec.Attributes)
		}
	}
}

func TestARecordHasTheTargetThatAnswersAConversation(t *testing.T) {
	c := newLogCollector(t)
	w := startCanary(t, targets(50, 50), "export: {otlp_logs: "+c.url+", share: 1, content: none}\n")
	old, fresh := w.of(t, poolOld, 0), w.of(t, poolNew, 0)
	w.exports(t, c, old, poolOld, "")
	w.exports(t, c, fresh, poolNew, "")
	w.new.broke.Store(true)
	apptest.Eventually(t, "the incumbent answers", func() bool { return answerer(t, w.Replica, turn(fresh, 1)) == poolOld })
	w.exports(t, c, fresh, poolOld, poolNew)
}

// exports fails if the record of a conversation does not say that a pool answers, in place of another one, if any.
func (w *canaryWorld) exports(t *testing.T, c *logCollector, conversation int, pool, diverted string) {
	t.Helper()
	id, _ := exported(t, w.Replica, turn(conversation, 2))
	rec := c.of(t, id)
	for key, want := range map[string]string{"gen_ai.response.model": pool + "-model", "foregate.target_pool": pool, "foregate.diverted_from": diverted} {
		if got := about(rec.Attributes, key); got != want {
			t.Errorf("conversation %d: %s is %q, want %q", conversation, key, got, want)
		}
	}
}
