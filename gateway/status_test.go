package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheStatusTellsWhatTheGatewayAndWhatTheReplicaKnow(t *testing.T) {
	told := Status{
		Version: "v1", Uptime: 12.5, Replicas: []string{"a", "b"},
		Redis:    RedisView{Name: "single h:1", Level: "degraded", Since: 1.5, Why: "timeout"},
		Breakers: []BreakerView{{Pool: "p", Backend: "b", State: "open", SecondsLeft: 3}},
		Shedding: []SheddingView{{Pool: "p", Priorities: []string{"low"}}},
	}
	ready := "no route can serve: no backend is up"
	r := serving(RouteState{Route: "llama-3", State: RouteDown})
	r.status = told
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Replica, o.Settings = r, setting(t, "shed.low@llama-3", "0.7", "timeout.write", "20s", "nothing.known", "1")
	})
	admin := "http://" + g.AdminAddr().String()
	status, body := g.send(t, http.MethodGet, admin+"/admin/status", "")
	var got Status
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	if got.Ready != ready || got.InFlight != 0 || len(got.Pools) != 2 || got.Pools[0].Pool != "big" || len(got.Pools[0].Backends) != 3 ||
		got.Pools[1].Backends[1].State != "drained" || got.Pools[1].Backends[1].KVUsage != nil {
		t.Errorf("got %+v", got)
	}
	if v := got.Settings; len(v.Changed) != 2 || v.Changed[0].Name != "shed.low@llama-3" || v.Changed[0].Value != "0.7" || v.Changed[1].Name != "timeout.write" ||
		len(v.Rejected) != 0 || len(v.Unknown) != 1 || v.Unknown[0].Name != "nothing.known" {
		t.Errorf("settings: %+v", v)
	}
	told.Ready, told.Pools, told.Routes, told.Settings = got.Ready, got.Pools, r.Health().Routes, got.Settings
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	status, body = g.send(t, http.MethodGet, admin+"/admin/settings?route=llama-3", "")
	if want := `{"name":"shed.low@llama-3","value":"0.7","default":"0.85","range":"0 … 1","meaning":"`; status != http.StatusOK || !strings.HasPrefix(body, `{"route":"llama-3","settings":[{"`) || !strings.Contains(body, want) {
		t.Errorf("status %d: %s", status, body)
	}
	for at, want := range map[string]int{
		"/admin/settings?route=nobody": http.StatusNotFound, "/admin/settings?rute=x": http.StatusBadRequest,
		"/admin/settings?route=%zz": http.StatusBadRequest, "/admin/settings": http.StatusOK,
	} {
		if status, body := g.send(t, http.MethodGet, admin+at, ""); status != want {
			t.Errorf("%s: status %d, want %d: %s", at, status, want, body)
		}
	}
}
