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

// pressed runs a replica over an idle draft and a full target, with the given settings,
// and waits until it knows both. Every draft is kept.
func pressed(t *testing.T, settings ...string) (r *apptest.Replica, draft *vllmsim.Server) {
	t.Helper()
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", append([]string{"speculation.threshold_nats", "-20", "speculation.mode", "confidence"}, settings...)...)
	draft = vllmsim.Start(t, vllmsim.Options{Model: "d", TimeScale: 20})
	r = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s"}
pools: {d: {model: d, backends: [%q]}, t: {model: t, backends: [%q]}}
routes: [{model: m, draft: d, target: t}, {model: alone, target: t}]
drain: {delay: 0s, grace: 1s}
`, store.Addr(), draft.URL(), apptest.LoadedBackend(t, "t", 0.99).URL))
	apptest.Eventually(t, "both pools have a reading", func() bool {
		return r.Pool("d").Snapshot()[0].Age != nil && r.Pool("t").Snapshot()[0].Age != nil
	})
	return r, draft
}

// shedBy sends a request of priority low and returns what it was shed for, "" when it
// was not.
func shedBy(t *testing.T, r *apptest.Replica, model, fields string) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hi"}]%s}`, model, fields)
	status, head, _ := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Priority", "low")
	reason := head.Get("X-Shed-Reason")
	if (reason != "") != (status == http.StatusServiceUnavailable) {
		t.Errorf("status %d with X-Shed-Reason %q", status, reason)
	}
	return reason
}

func TestARequestIsShedForThePoolsItCouldGoTo(t *testing.T) {
	r, _ := pressed(t)
	if got := shedBy(t, r, "m", ""); got != "" {
		t.Errorf("the draft pool has room, but a judged request was shed: %s", got)
	}
	for model, fields := range map[string]string{"m": `,"n":2`, "alone": ""} {
		if got := shedBy(t, r, model, fields); !strings.Contains(got, "pool=t;") {
			t.Errorf("%s %s goes straight to a full target, but was not shed for it: %q", model, fields, got)
		}
	}
}

func TestAboveItsThresholdLowIsShedAtOnceAndSaidToBe(t *testing.T) {
	r, _ := pressed(t, "shed.max_wait_low", "10m") // who waited would wait until the test's end
	for range 3 {
		if got := shedBy(t, r, "alone", ""); !strings.Contains(got, "pool=t;") {
			t.Errorf("got %q", got)
		}
	}
	if got := r.App.Status().Shedding; len(got) != 1 || got[0].Pool != "t" || got[0].Priorities[0] != "low" {
		t.Errorf("shedding %v", got)
	}
}
