package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
)

// settingsWithin is how soon a live setting must be in force.
const settingsWithin = time.Second

func TestLiveSettingsAreInForceWithinASecond(t *testing.T) {
	client := redistest.Start(t).Client
	if err := client.HSet(t.Context(), "foregate:settings", "speculation.mode", "confidence").Err(); err != nil {
		t.Fatal(err)
	}
	b := newRecorder(t)
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: small, backends: [%q]}
  large: {model: large, backends: [%q]}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}]
drain: {delay: 0s, grace: 2s}
`, client.Options().Addr, b.url, newRecorder(t).url))
	p.Ready(t)
	hset := func(name, value string) {
		t.Helper()
		if err := client.HSet(t.Context(), "foregate:settings", name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// acceptance is what the gateway says of a draft now.
	acceptance := func() string {
		_, head := apptest.Post(t, p.URL+"/v1/chat/completions", chatBody("llama-3"), "Cache-Control", "no-store")
		return head.Get("X-Acceptance")
	}
	becomes := func(want string) {
		t.Helper()
		apptest.Within(t, settingsWithin, "X-Acceptance says "+want, func() bool { return strings.HasPrefix(acceptance(), want) })
	}
	becomes("accepted;reason=confident")
	hset("speculation.threshold_nats", "20")
	becomes("rejected;reason=low_score")
	hset("speculation.mode", "off")
	becomes("bypassed;reason=mode_off")
	hset("speculation.mode@llama-3", "confidence")
	becomes("rejected;reason=low_score")
	hset("speculation.threshold_nats", "-5")
	becomes("accepted;reason=confident")

	hset("speculation.threshold_nats", "very high")
	hset("speculation.treshold", "1")
	hset("shed.low", "NaN")
	apptest.Within(t, settingsWithin, "the bad values are named in /metrics", func() bool {
		page := p.Metrics(t)
		return strings.Contains(page, `foregate_settings_rejected{name="speculation.threshold_nats"} 1`) &&
			strings.Contains(page, `foregate_settings_unknown{name="speculation.treshold"} 1`) &&
			strings.Contains(page, `foregate_settings_rejected{name="shed.low"} 1`)
	})
	if got := acceptance(); !strings.HasPrefix(got, "accepted") {
		t.Errorf("a refused value changed the decision: %s", got)
	}
	hset("speculation.threshold_nats", "-5")
	apptest.Within(t, settingsWithin, "a mended value is no longer named", func() bool {
		return !strings.Contains(p.Metrics(t), `foregate_settings_rejected{name="speculation.threshold_nats"}`)
	})
	if lines := strings.Count(p.Log.String(), "speculation.treshold"); lines != 1 {
		t.Errorf("the bad field was logged %d times, want once", lines)
	}
}
