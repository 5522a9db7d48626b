package gateway

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// within is an Inside of fixed answers.
type within struct{ s Status }

func (w within) Status() Status { return w.s }

func (w within) Settings(route string) []SettingView {
	return []SettingView{{Name: "shed.low@" + route, Value: "0.8", Default: "0.85", Range: "0 … 1"}}
}

func TestTheStatusTellsWhatTheGatewayAndWhatTheReplicaKnow(t *testing.T) {
	told := Status{
		Version: "v1", Uptime: 12.5, Replicas: []string{"a", "b"},
		Redis:    RedisView{Name: "single h:1", Level: "degraded", Since: 1.5, Why: "timeout"},
		Settings: SettingsView{Age: 0.2, Changed: []SettingView{}, Rejected: []RejectedSettingView{{"shed.low", "x", "no"}}, Unknown: []RejectedSettingView{}},
		Breakers: []BreakerView{{Pool: "p", Backend: "b", State: "open", SecondsLeft: 3}},
		Shedding: []SheddingView{{Pool: "p", Priorities: []string{"low"}}},
	}
	ready := "no route can serve: no backend is up"
	states := func() []RouteState { return []RouteState{{"m", false, RouteDown}} }
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Fleet, o.Inspector, o.Routes = twoPools(), within{told}, states
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
	told.Ready, told.Pools, told.Routes = got.Ready, got.Pools, states()
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	status, body = g.send(t, http.MethodGet, admin+"/admin/settings?route=llama-3", "")
	if want := `{"route":"llama-3","settings":[{"name":"shed.low@llama-3","value":"0.8","default":"0.85","range":"0 … 1"}]}` + "\n"; status != http.StatusOK || body != want {
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
	for _, at := range []string{"/admin/status", "/admin/settings"} {
		if status, _ := g.send(t, http.MethodPost, admin+at, ""); status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d", at, status)
		}
		if status, _ := g.send(t, http.MethodGet, g.url+at, ""); status != http.StatusNotFound {
			t.Errorf("%s on the public listener: status %d", at, status)
		}
	}
}
