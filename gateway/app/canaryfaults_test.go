package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
)

// diverted is the count of requests that the incumbent answered for the canary.
func diverted(t *testing.T, r *apptest.Replica) (n int) {
	t.Helper()
	_, _ = fmt.Sscanf(apptest.Lines(r.Metrics(t), `foregate_canary_diverted_total{`), `foregate_canary_diverted_total{pool="new",route="chat"} %d`, &n)
	return n
}

// isDiverted reports whether the status shows that the canary takes no requests.
func isDiverted(t *testing.T, r *apptest.Replica) bool {
	t.Helper()
	return slices.ContainsFunc(r.Status(t).Targets[0].Targets, func(v gateway.TargetView) bool { return v.Pool == poolNew && v.Diverted })
}

// shows fails if a diverted request cannot be told from others.
func (w *canaryWorld) showsDiversion(t *testing.T, conversation int) {
	t.Helper()
	before := diverted(t, w.Replica)
	_, head := apptest.Post(t, w.URL+chat, turn(conversation, 2))
	var r struct {
		TargetPool   string `json:"target_pool"`
		DivertedFrom string `json:"diverted_from"`
		Attempts     []struct{ Pool string }
	}
	w.Read(t, "/admin/receipts/"+head.Get("X-Request-Id"), &r)
	if r.TargetPool != poolOld || r.DivertedFrom != poolNew || len(r.Attempts) != 1 || r.Attempts[0].Pool != poolOld {
		t.Errorf("the receipt of a diverted request is %+v", r)
	}
	if got := diverted(t, w.Replica); got != before+1 {
		t.Errorf("%d requests are counted as diverted, before there were %d", got, before)
	}
}

// TestADeadCanaryIsNoOutage kills the engine of the canary, and starts it again at the same address.
func TestADeadCanaryIsNoOutage(t *testing.T) {
	w := startCanary(t, targets(50, 50), "")
	fresh := w.of(t, poolNew, 0)
	address := w.new.Listener.Addr().String()
	w.new.CloseClientConnections()
	w.new.Close()
	failed, began := 0, time.Now()
	apptest.Eventually(t, "the incumbent answers", func() bool {
		got := answerer(t, w.Replica, turn(fresh, 1))
		if got == "" {
			failed++
		}
		return got == poolOld
	})
	t.Logf("%d requests failed in the %v before the dead canary was noticed", failed, time.Since(began))
	for c := range 200 {
		if got := answerer(t, w.Replica, turn(c, 1, fmt.Sprintf(`"stream":%t`, c%2 == 0))); got != poolOld {
			t.Fatalf("%q answers conversation %d", got, c)
		}
	}
	w.showsDiversion(t, fresh)
	if !isDiverted(t, w.Replica) {
		t.Error("the status does not show it")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("somebody else has %s now: %v", address, err)
	}
	again := &httptest.Server{Listener: listener, Config: &http.Server{Handler: w.new}}
	again.Start()
	t.Cleanup(again.Close)
	apptest.Eventually(t, "the canary answers again", func() bool { return answerer(t, w.Replica, turn(fresh, 3)) == poolNew })
}
