package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/pool"
)

func TestLiveSettingsAreInForceWithoutARestart(t *testing.T) {
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
		apptest.Eventually(t, "X-Acceptance says "+want, func() bool { return strings.HasPrefix(acceptance(), want) })
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
	apptest.Eventually(t, "the bad values are named in /metrics", func() bool {
		page := p.Metrics(t)
		return strings.Contains(page, `foregate_settings_rejected{name="speculation.threshold_nats"} 1`) &&
			strings.Contains(page, `foregate_settings_unknown{name="speculation.treshold"} 1`) &&
			strings.Contains(page, `foregate_settings_rejected{name="shed.low"} 1`)
	})
	if got := acceptance(); !strings.HasPrefix(got, "accepted") {
		t.Errorf("a refused value changed the decision: %s", got)
	}
	hset("speculation.threshold_nats", "-5")
	apptest.Eventually(t, "a mended value is no longer named", func() bool {
		return !strings.Contains(p.Metrics(t), `foregate_settings_rejected{name="speculation.threshold_nats"}`)
	})
	if lines := strings.Count(p.Log.String(), "speculation.treshold"); lines != 1 {
		t.Errorf("the bad field was logged %d times, want once", lines)
	}
}

// TestAFlushedRedisGetsSettingsAndDrainsAgainAndNobodyNotices empties the Redis of three replicas.
func TestAFlushedRedisGetsSettingsAndDrainsAgainAndNobodyNotices(t *testing.T) {
	client := redistest.Start(t).Client
	if err := client.HSet(t.Context(), "foregate:settings", "shed.low", "0.6").Err(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {p: {model: m, backends: [%q, %q]}}
routes: [{model: m, target: p}]
drain: {delay: 0s, grace: 2s}
`, client.Options().Addr, newRecorder(t).url, newRecorder(t).url)
	replicas := []*apptest.Replica{apptest.Serve(t, text), apptest.Serve(t, text), apptest.Serve(t, text)}
	for _, r := range replicas {
		r.Ready(t)
	}
	id := replicas[0].Pool("p").Snapshot()[0].ID
	if status, _, body := apptest.Send(t, http.MethodPost, replicas[0].Admin+"/admin/drain?backend="+id+"&why=disk", ""); status != http.StatusOK {
		t.Fatal(body)
	}
	inForce := func() bool {
		return !slices.ContainsFunc(replicas, func(r *apptest.Replica) bool {
			drained := slices.ContainsFunc(r.App.Pool("p").Snapshot(), func(s pool.Backend) bool { return s.ID == id && s.State == pool.StateDrained })
			return !drained || r.App.Settings.Snapshot().Global().Admission.Threshold[identity.Low] != 0.6
		})
	}
	apptest.Eventually(t, "all have the setting and the drain", inForce)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "both are in Redis again", func() bool {
		if !inForce() {
			t.Fatal("out of force")
		}
		return client.HGet(t.Context(), "foregate:settings", "shed.low").Val() == "0.6" && client.HExists(t.Context(), "foregate:{fg}:drain", "p/"+id).Val()
	})
	apptest.Eventually(t, "the status says so", func() bool { s := replicas[2].Status(t); return s.Redis.LostData > 0 && len(s.Settings.Lost) == 0 })
	if n := client.XLen(t.Context(), "{foregate:settings}:log").Val(); n != 1 {
		t.Errorf("%d entries of the history", n)
	}
	if err := client.Del(t.Context(), "foregate:settings").Err(); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "what is deleted on purpose is deleted", func() bool {
		return !slices.ContainsFunc(replicas, func(r *apptest.Replica) bool {
			return r.App.Settings.Snapshot().Global().Admission.Threshold[identity.Low] == 0.6
		})
	})
}
