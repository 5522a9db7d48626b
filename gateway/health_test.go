package gateway

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/pool"
)

func TestProbesMayAskForTheHeadAlone(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	admin := "http://" + g.AdminAddr().String()
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
		for _, url := range []string{
			g.url + "/livez", g.url + "/readyz", g.url + "/health", g.url + "/ping", g.url + "/version", g.url + "/v1/models", g.url + "/v1/models/llama-3",
			g.url + "/openapi.json", admin + "/livez", admin + "/readyz",
		} {
			if got, allow := g.status(t, method, url); got != want || want == 405 && allow != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q, want %d", method, url, got, allow, want)
			}
		}
	}
	if got, allow := g.status(t, http.MethodGet, g.url+"/v1/completions"); got != 405 || allow != "POST" {
		t.Errorf("GET /v1/completions: %d, Allow %q", got, allow)
	}
}

func TestToolsThatKnowVLLMFindItsProbes(t *testing.T) {
	r := serving(RouteState{Route: "m", Ready: true})
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Version, o.Replica = "v1.2.3", r })
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := g.client.Get(g.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := rest(resp)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	for _, want := range []int{200, 503} {
		for _, path := range []string{"/health", "/ping"} {
			if status, body := get(path); status != want || body != "" {
				t.Errorf("%s: %d %q, want %d and nothing more, as of vLLM", path, status, body, want)
			}
		}
		r.health.Store(&Health{Routes: []RouteState{{Route: "m", State: RouteDown}}})
	}
	if status, body := get("/version"); status != 200 || body != `{"version":"v1.2.3"}` {
		t.Errorf("version: %d %s", status, body)
	}
	status, body := get("/metrics")
	if port := strconv.Itoa(g.AdminAddr().(*net.TCPAddr).Port); status != 404 || !strings.Contains(body, "metrics are on the admin listener, port "+port) {
		t.Errorf("metrics: %d %s", status, body)
	}
	if status, body := get("/nothing"); status != 404 || strings.Contains(body, "admin") {
		t.Errorf("another path: %d %s", status, body)
	}
}

func TestReadyTellsOfRedisAndDoesNotMind(t *testing.T) {
	r := serving()
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = r })
	for want, health := range map[string]Health{
		"ok\nredis: shared\n":   {Redis: "shared"},
		"ok\nredis: degraded\n": {Redis: "degraded"},
		"ok\nredis: local\nsettings: Redis has lost 3, their last values stay in force\n": {Redis: "local", LostSettings: 3},
	} {
		r.health.Store(&health)
		resp, err := g.client.Get(g.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := rest(resp); err != nil || resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%+v: %d %q, %v", health, resp.StatusCode, body, err)
		}
	}
}

// status sends a request without a body.
func (b *bench) status(t *testing.T, method, url string) (code int, allow string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := b.answered(t, req)
	return r.status, r.head.Get("Allow")
}

func TestAReplicaIsReadyWhileARouteCanServe(t *testing.T) {
	r := serving()
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = r })
	m, n := RouteState{Route: "m", Ready: true, State: RouteOK}, RouteState{Route: "n", Ready: false, State: RouteDown}
	type answer struct {
		query string
		code  int
		text  string
	}
	for _, c := range []struct {
		states  []RouteState
		answers []answer
	}{
		{[]RouteState{m, n}, []answer{
			{"", 200, "ok\nroute m: ok\nroute n: down\n"},
			{"?route=m", 200, "ok\nroute m: ok\nroute n: down\n"},
			{"?route=n", 503, "route n cannot serve\nroute m: ok\nroute n: down\n"},
			{"?route=m&route=n", 503, "route n cannot serve\nroute m: ok\nroute n: down\n"},
			{"?route=o", 404, "there is no such route\n"},
			{"?probe=1", 200, "ok\nroute m: ok\nroute n: down\n"},
		}},
		{[]RouteState{{Route: "m", Ready: true, State: RouteDraftOnly}, n}, []answer{{"", 200, "ok\nroute m: draft_only\nroute n: down\n"}, {"?route=m", 200, "ok\nroute m: draft_only\nroute n: down\n"}}},
		{[]RouteState{n}, []answer{{"", 503, "no route can serve: no backend is up\nroute n: down\n"}}},
		{[]RouteState{n, {Route: "m", Ready: false, State: RouteUnreached}}, []answer{{"", 503, "no route can serve: no backend has answered\nroute n: down\nroute m: unreached\n"}}},
	} {
		r.health.Store(&Health{Routes: c.states})
		for _, a := range c.answers {
			resp, err := b.client.Get(b.url + "/readyz" + a.query)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := rest(resp); err != nil || resp.StatusCode != a.code || body != a.text {
				t.Errorf("%v %s: %d %q, %v", c.states, a.query, resp.StatusCode, body, err)
			}
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
