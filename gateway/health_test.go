package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/pool"
)

func TestProbesMayAskForTheHeadAlone(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
		for _, url := range []string{
			g.url + "/livez", g.url + "/readyz", g.url + "/health", g.url + "/ping", g.url + "/version", g.url + "/v1/models", g.url + "/v1/models/llama-3",
			g.admin + "/livez", g.admin + "/readyz",
		} {
			if r := g.call(t, method, url, ""); r.status != want || want == 405 && r.head.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q, want %d", method, url, r.status, r.head.Get("Allow"), want)
			}
		}
	}
	if r := g.call(t, http.MethodGet, g.url+"/v1/completions", ""); r.status != 405 || r.head.Get("Allow") != "POST" {
		t.Errorf("GET /v1/completions: %d, %v", r.status, r.head)
	}
}

func TestToolsThatKnowVLLMFindItsProbes(t *testing.T) {
	r := serving(RouteState{Route: "m", Ready: true})
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Version, o.Replica = "v1.2.3", r })
	for _, want := range []int{200, 503} {
		for _, path := range []string{"/health", "/ping"} {
			if r := g.get(t, path, ""); r.status != want || r.body != "" {
				t.Errorf("%s: %d %q, want %d and nothing more, as of vLLM", path, r.status, r.body, want)
			}
		}
		r.health.Store(&Health{Routes: []RouteState{{Route: "m", State: RouteDown}}})
	}
	for path, want := range map[string]struct {
		status     int
		says, none string // nothing else
	}{
		"/version": {200, `{"version":"v1.2.3"}`, ":9"},
		"/metrics": {404, "metrics are on the admin listener, port " + g.admin[strings.LastIndex(g.admin, ":")+1:], `"v1.2.3"`},
		"/nothing": {404, "", "admin"},
	} {
		if r := g.get(t, path, ""); r.status != want.status || !strings.Contains(r.body, want.says) || strings.Contains(r.body, want.none) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestAReplicaIsReadyWhileARouteCanServe(t *testing.T) {
	m, n := RouteState{Route: "m", Ready: true, State: RouteOK}, RouteState{Route: "n", Ready: false, State: RouteDown}
	r := serving()
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = r })
	both, half := Health{Routes: []RouteState{m, n}}, Health{Routes: []RouteState{{Route: "m", Ready: true, State: RouteDraftOnly}, n}}
	for _, c := range []struct {
		health Health
		query  string
		code   int
		text   string
	}{
		{both, "", 200, "ok\nroute m: ok\nroute n: down\n"},
		{both, "?route=m", 200, "ok\nroute m: ok\nroute n: down\n"},
		{both, "?route=n", 503, "route n cannot serve\nroute m: ok\nroute n: down\n"},
		{both, "?route=m&route=n", 503, "route n cannot serve\nroute m: ok\nroute n: down\n"},
		{both, "?route=o", 404, "there is no such route\n"},
		{both, "?probe=1", 200, "ok\nroute m: ok\nroute n: down\n"},
		{half, "", 200, "ok\nroute m: draft_only\nroute n: down\n"},
		{half, "?route=m", 200, "ok\nroute m: draft_only\nroute n: down\n"},
		{Health{Routes: []RouteState{n}}, "", 503, "no route can serve: no backend is up\nroute n: down\n"},
		{Health{Routes: []RouteState{n, {Route: "m", Ready: false, State: RouteUnreached}}}, "", 503, "no route can serve: no backend has answered\nroute n: down\nroute m: unreached\n"},
		{Health{Redis: "shared"}, "", 200, "ok\nredis: shared\n"}, // of Redis it tells, and does not mind
		{Health{Redis: "local"}, "", 200, "ok\nredis: local\n"},
		{Health{Redis: "local", LostSettings: 3}, "", 200, "ok\nredis: local\nsettings: Redis has lost 3, their last values stay in force\n"},
	} {
		r.health.Store(&c.health)
		if got := b.call(t, http.MethodGet, b.admin+"/readyz"+c.query, ""); got.status != c.code || got.body != c.text {
			t.Errorf("%+v %s: %d %q", c.health, c.query, got.status, got.body)
		}
		why, _, _ := strings.Cut(c.text, "\n") // the public listener names nothing that was not asked for
		if got := b.get(t, "/readyz"+c.query, ""); got.status != c.code || got.body != why+"\n" {
			t.Errorf("%+v %s in public: %d %q", c.health, c.query, got.status, got.body)
		}
	}
}

func TestARouteStandsAsItsPoolsDo(t *testing.T) {
	const down, unreached, reached = pool.Down, pool.Unknown, pool.Ready
	for _, c := range []struct {
		draft, target pool.Readiness
		alone         string // where drafts are served without the target
		want          string // where not
	}{
		{reached, reached, RouteOK, RouteOK}, {unreached, reached, RouteNoDraft, RouteNoDraft}, {down, reached, RouteNoDraft, RouteNoDraft},
		{reached, unreached, RouteDraftOnly, RouteUnreached}, {reached, down, RouteDraftOnly, RouteDown},
		{unreached, unreached, RouteUnreached, RouteUnreached}, {down, unreached, RouteUnreached, RouteUnreached},
		{unreached, down, RouteUnreached, RouteDown}, {down, down, RouteDown, RouteDown},
	} {
		for alone, want := range map[bool]string{true: c.alone, false: c.want} {
			got := RouteStateOf("m", c.draft, c.target, alone)
			if got.State != want || got.Ready != (alone && c.draft == reached || c.target == reached) {
				t.Errorf("draft %v, target %v, alone %t: %+v, want %s", c.draft, c.target, alone, got, want)
			}
		}
	}
}

func TestWhatReadySaysIsAMetricToo(t *testing.T) {
	r := serving()
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = r })
	for _, c := range []struct {
		states []RouteState
		want   string
	}{
		{[]RouteState{{Route: "m", Ready: true, State: RouteOK}, {Route: "n", Ready: false, State: RouteDown}}, `
foregate_ready 1
foregate_route_ready{route="m",state="ok"} 1
foregate_route_ready{route="n",state="down"} 0
`},
		{[]RouteState{{Route: "m", Ready: false, State: RouteUnreached}}, `
foregate_ready 0
foregate_route_ready{route="m",state="unreached"} 0
`},
	} {
		r.health.Store(&Health{Routes: c.states})
		want := `
# HELP foregate_ready 1 while /readyz reports that this replica can serve.
# TYPE foregate_ready gauge
# HELP foregate_route_ready 1 while the route can be served; the state says how it stands, in the words of /readyz.
# TYPE foregate_route_ready gauge
` + c.want
		if err := testutil.GatherAndCompare(b.registry, strings.NewReader(want), "foregate_ready", "foregate_route_ready"); err != nil {
			t.Error(err)
		}
	}
}
