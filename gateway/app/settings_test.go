package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/pool"
)

func TestLiveSettingsAreInForceWithoutARestart(t *testing.T) {
	client := redistest.Start(t).Client
	if err := client.HSet(t.Context(), "foregate:settings", "speculation.mode", "confidence").Err(); err != nil {
		t.Fatal(err)
	}
	p := apptest.Serve(t, conf(`redis: {url: "redis://%s/0"}
pools:
  small: {model: small, backends: [%q]}
  large: {model: large, backends: [%q]}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}]
`, client.Options().Addr, newRecorder(t).url, newRecorder(t).url))
	p.Ready(t)
	hset := func(name, value string) {
		t.Helper()
		if err := client.HSet(t.Context(), "foregate:settings", name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(want string) {
		t.Helper()
		apptest.Eventually(t, "X-Acceptance says "+want, func() bool {
			_, head := apptest.Post(t, p.URL+chat, chatBody("llama-3"), "Cache-Control", "no-store")
			return strings.HasPrefix(head.Get("X-Acceptance"), want)
		})
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
	apptest.Eventually(t, "the bad values are named in /metrics", func() bool {
		page := p.Metrics(t)
		return strings.Contains(page, `foregate_settings_rejected{name="speculation.threshold_nats"} 1`) && strings.Contains(page, `foregate_settings_unknown{name="speculation.treshold"} 1`)
	})
	becomes("accepted;reason=confident")
	if lines := strings.Count(p.Log.String(), "speculation.treshold"); lines != 1 {
		t.Errorf("the bad field was logged %d times, want once", lines)
	}
}

// TestAFlushedRedisGetsSettingsAndDrainsAgainAndNobodyNotices empties the Redis of three replicas.
func TestAFlushedRedisGetsSettingsAndDrainsAgainAndNobodyNotices(t *testing.T) {
	client := redistest.Start(t).Client
	if _, err := settings.NewStore(client, nil).Set(t.Context(), settings.Edit{Who: "ann"}, map[string]string{"shed.low": "0.6"}, nil); err != nil {
		t.Fatal(err)
	}
	text := conf("redis: {url: \"redis://%s/0\"}\npools: {p: {model: m, backends: [%q, %q]}}\nroutes: [{model: m, target: p}]\n", client.Options().Addr, newRecorder(t).url, newRecorder(t).url)
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
		return client.HGet(t.Context(), "foregate:settings", "shed.low").Val() == "0.6" && client.HExists(t.Context(), "foregate:{fg}:told1", "drains:1/p/"+id).Val()
	})
	apptest.Eventually(t, "the status says so", func() bool { s := replicas[2].Status(t); return s.Redis.LostData > 0 && len(s.Settings.Lost) == 0 })
}

// TestARequestIsShedAtOnceForThePoolsItCouldGoTo has an idle draft and a full target. Every draft is kept, and who waited
// would wait until the test's end.
func TestARequestIsShedAtOnceForThePoolsItCouldGoTo(t *testing.T) {
	draft := vllmsim.Start(t, vllmsim.Options{Model: "d", TimeScale: 20})
	r := apptest.Serve(t, conf(`%spools: {d: {model: d, backends: [%q]}, t: {model: t, backends: [%q]}}
routes: [{model: m, draft: d, target: t}, {model: alone, target: t}]
`, withSettings(t, "speculation.threshold_nats", "-20", "speculation.mode", "confidence", "shed.max_wait_low", "10m"), draft.URL(), apptest.LoadedBackend(t, "t", 0.99).URL))
	apptest.Eventually(t, "both pools have a reading", func() bool {
		return r.Pool("d").Snapshot()[0].Age != nil && r.Pool("t").Snapshot()[0].Age != nil
	})
	for _, c := range []struct {
		model, fields string
		shed          bool
	}{{"m", "", false}, {"m", `,"n":2`, true}, {"alone", "", true}, {"alone", "", true}} { // a judged request finds room at the draft
		body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hi"}]%s}`, c.model, c.fields)
		status, head, _ := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Priority", "low")
		if reason := head.Get("X-Shed-Reason"); strings.Contains(reason, "pool=t;") != c.shed || (status == http.StatusServiceUnavailable) != c.shed || !c.shed && reason != "" {
			t.Errorf("%+v: status %d with X-Shed-Reason %q", c, status, reason)
		}
	}
	if got := r.App.Status().Shedding; len(got) != 1 || got[0].Pool != "t" || got[0].Priorities[0] != "low" {
		t.Errorf("shedding %v", got)
	}
}
