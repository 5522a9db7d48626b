package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/risk"
)

// orders is a fleet that notes what it was told.
type orders struct {
	mu    sync.Mutex
	views []pool.Backend
	told  []string
	err   error
}

func (o *orders) Drain(ctx context.Context, pool, backend, why string, d time.Duration) error {
	return o.note(ctx, fmt.Sprintf("drain %s/%s %q %s", pool, backend, why, d))
}

func (o *orders) Undrain(ctx context.Context, pool, backend string) error {
	return o.note(ctx, fmt.Sprintf("undrain %s/%s", pool, backend))
}

func (o *orders) note(ctx context.Context, what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("an order without a deadline")
	}
	o.told = append(o.told, what)
	return o.err
}

func (o *orders) Backends() []pool.Backend {
	if o == nil {
		return nil
	}
	return o.views
}

// last forgets and returns what was told.
func (o *orders) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := strings.Join(o.told, "; ")
	o.told = nil
	return told
}

// twoPools have one backend in common.
func twoPools() *orders {
	return &orders{views: []pool.Backend{
		{Pool: "small", ID: "127.0.0.1-8000", URL: "http://127.0.0.1:8000", State: "up", KVUsage: new(0.25), InFlight: 3, Age: new(0.5)},
		{Pool: "small", ID: "a10g-0-8000", URL: "https://a10g-0:8000/vllm", State: "drained", Why: "by hand"},
		{Pool: "big", ID: "-fd00--1--8000", URL: "http://[fd00::1]:8000", State: "down", Why: "refused", Age: new(0.0)},
		{Pool: "big", ID: "127.0.0.1-8000", URL: "http://127.0.0.1:8000", State: "suspect", KVUsage: new(1.0), Age: new(9.0)},
		{Pool: "big", ID: "h100", URL: "http://h100", State: "up", KVUsage: new(0.0), Age: new(0.0)},
	}}
}

// openOffice is a gateway whose fleet notes what it is told.
func openOffice(t *testing.T, f *orders) *bench {
	t.Helper()
	return startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = &replica{orders: f} })
}

func TestABackendIsDrainedByAnyOfItsNames(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	for query, want := range map[string]string{
		"drain?backend=a10g-0-8000":                                      `drain small/a10g-0-8000 "by hand" 0s`,
		"drain?backend=a10g-0:8000&for=10m&why=new+driver":               `drain small/a10g-0-8000 "new driver" 10m0s`,
		"drain?backend=https://a10g-0:8000/vllm":                         `drain small/a10g-0-8000 "by hand" 0s`,
		"drain?backend=[fd00::1]:8000":                                   `drain big/-fd00--1--8000 "by hand" 0s`,
		"drain?backend=127.0.0.1-8000&pool=big":                          `drain big/127.0.0.1-8000 "by hand" 0s`,
		"drain?backend=127.0.0.1:8000&pool=small&for=720h":               `drain small/127.0.0.1-8000 "by hand" 720h0m0s`,
		"drain?backend=http://h100":                                      `drain big/h100 "by hand" 0s`,
		"undrain?backend=h100":                                           `undrain big/h100`,
		"undrain?backend=http://127.0.0.1:8000&pool=big":                 `undrain big/127.0.0.1-8000`,
		"undrain?backend=gone-8000&pool=big":                             `undrain big/gone-8000`, // the fleet may know it still
		"spot?backend=h100":                                              `drain big/h100 "spot notice" 10m0s`,
		"spot?backend=h100&for=1h":                                       `drain big/h100 "spot notice" 1h0m0s`,
		"drain?backend=h100&why=" + strings.Repeat("x", 256) + "&for=1s": `drain big/h100 "` + strings.Repeat("x", 256) + `" 1s`,
	} {
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/"+query, "")
		if got := f.last(); code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s: told %q, want %q", query, code, body, got, want)
		}
	}
}

func TestASpotNoticeIsReadFromWhateverTheCloudSends(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	for _, c := range []struct{ query, body, want string }{
		{"", `{"backend":"h100"}`, `drain big/h100 "spot notice" 10m0s`},
		{"", `{"backend":"127.0.0.1:8000","pool":"small","deadline_seconds":120}`, `drain small/127.0.0.1-8000 "spot notice" 12m0s`},
		{"", `{"backend":"h100","deadline_seconds":0.5,"other":[1]}`, `drain big/h100 "spot notice" 10m1s`},
		{"?backend=h100", `{"backend":"a10g-0-8000","deadline_seconds":30}`, `drain big/h100 "spot notice" 10m30s`},
		{"?backend=h100&for=2m", `{"deadline_seconds":30}`, `drain big/h100 "spot notice" 2m0s`},
		{"?backend=h100", `Type: Notification, which is no JSON`, `drain big/h100 "spot notice" 10m0s`},
		{"?backend=h100", `["preempted"]`, `drain big/h100 "spot notice" 10m0s`},
		{"?backend=h100", strings.Repeat("x", maxActionBytes), `drain big/h100 "spot notice" 10m0s`},
	} {
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/spot"+c.query, c.body, "Content-Type", "text/plain")
		if got := f.last(); code != http.StatusOK || got != c.want {
			t.Errorf("%s %.80s: %d %s: told %q, want %q", c.query, c.body, code, body, got, c.want)
		}
	}
}

func TestAnOrderForABackendThatNobodyKnowsNamesThoseThatAre(t *testing.T) {
	f := twoPools()
	for i := range 100 {
		f.views = append(f.views, pool.Backend{Pool: "wide", ID: fmt.Sprintf("w-%03d", i), URL: fmt.Sprintf("http://w-%03d", i)})
	}
	f.err = fmt.Errorf("fleet: %w", ErrUnknownBackend)
	o := openOffice(t, f)
	code, body := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=nobody&pool=big", "")
	if code != http.StatusNotFound || !strings.Contains(body, `There is no backend \"nobody\" in the pool \"big\". Known are: big/-fd00--1--8000, big/127.0.0.1-8000`) ||
		!strings.Contains(body, "unknown_backend") || strings.Count(body, "wide/") > 15 || !strings.Contains(body, "…") {
		t.Errorf("%d %s", code, body)
	}
	f.last()
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/undrain?backend=nobody", ""); code != http.StatusNotFound || f.last() != "" {
		t.Errorf("in no pool: %d %s", code, body)
	}
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/undrain?backend=127.0.0.1-8000", ""); code != http.StatusConflict || !strings.Contains(body, "big/127.0.0.1-8000, small/127.0.0.1-8000") || f.last() != "" {
		t.Errorf("in two pools: %d %s", code, body)
	}
}

func TestBackendsAreListedByPool(t *testing.T) {
	o := openOffice(t, twoPools())
	code, body := o.send(t, http.MethodGet, o.admin+"/admin/backends", "")
	want := `{"pools":[
{"pool":"big","backends":[
{"id":"-fd00--1--8000","url":"http://[fd00::1]:8000","state":"down","why":"refused","kv_usage":null,"in_flight":0,"reading_age_seconds":0},
{"id":"127.0.0.1-8000","url":"http://127.0.0.1:8000","state":"suspect","kv_usage":1,"in_flight":0,"reading_age_seconds":9},
{"id":"h100","url":"http://h100","state":"up","kv_usage":0,"in_flight":0,"reading_age_seconds":0}]},
{"pool":"small","backends":[
{"id":"127.0.0.1-8000","url":"http://127.0.0.1:8000","state":"up","kv_usage":0.25,"in_flight":3,"reading_age_seconds":0.5},
{"id":"a10g-0-8000","url":"https://a10g-0:8000/vllm","state":"drained","why":"by hand","kv_usage":null,"in_flight":0,"reading_age_seconds":null}]}]}`
	if diff := cmp.Diff(strings.ReplaceAll(want, "\n", ""), strings.TrimSpace(body)); code != http.StatusOK || diff != "" {
		t.Errorf("%d, -want +got:\n%s", code, diff)
	}
	empty := openOffice(t, &orders{})
	if code, body := empty.send(t, http.MethodGet, empty.admin+"/admin/backends", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"pools":[]}` {
		t.Errorf("of none: %d %s", code, body)
	}
}

// FuzzOrder checks that whatever a webhook sends becomes an order within bounds
// or a refusal.
func FuzzOrder(f *testing.F) {
	f.Add("backend=h100&for=1m", []byte(`{"backend":"a","pool":"b","deadline_seconds":120}`))
	f.Add("", []byte(`{"backend":"h100","deadline_seconds":1e400}`))
	f.Add("backend=%ff;", []byte(`[`))
	f.Fuzz(func(t *testing.T, raw string, body []byte) {
		for _, read := range []func(q map[string][]string) (backendRequest, error){
			func(q map[string][]string) (backendRequest, error) { return readSpotNotice(q, body) },
			func(q map[string][]string) (backendRequest, error) { return readDrain(q, body) },
		} {
			q, err := query(&http.Request{URL: &url.URL{RawQuery: raw}}, "backend", "pool", "for", "why")
			if err != nil {
				return
			}
			o, err := read(q)
			if err != nil {
				continue
			}
			if o.backend == "" || len(o.backend)+len(o.pool)+len(o.why) > 768 || o.duration < 0 || o.duration > maxDrain || o.why == "" {
				t.Errorf("%q %q gave %+v", raw, body, o)
			}
			_ = matchBackends(twoPools().views, o.pool, o.backend)
		}
	})
}

func TestADrainOfTheLastBackendThatIsUpSaysSo(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	for _, last := range []bool{true, false} {
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100", "")
		if code != http.StatusOK || strings.Contains(body, "No other backend of its pool is up.") != last {
			t.Errorf("last %v: %d %s", last, code, body)
		}
		f.views = append(f.views, pool.Backend{Pool: "big", ID: "h200", State: pool.StateUp})
	}
}

func TestEveryOrderLeavesOneLine(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100&for=1m&why=new+driver", "")
	f.err = errors.New("broken")
	o.send(t, http.MethodPost, o.admin+"/admin/undrain?backend=h100", "")
	got := o.log.holding("operator action")
	if len(got) != 2 {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	for i, parts := range [][]string{
		{`"level":"info"`, `"order":"drain"`, `"remote":"127.0.0.1:`, `"pool":"big"`, `"backend":"h100"`, `"why":"new driver"`, `"done":true`},
		{`"level":"warn"`, `"order":"undrain"`, `"error":"broken"`, `"done":false`},
	} {
		for _, part := range parts {
			if !strings.Contains(got[i], part) {
				t.Errorf("line %d does not hold %s: %s", i, part, got[i])
			}
		}
	}
}

func TestThePublicPortKnowsNoOrders(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	for _, path := range []string{"drain", "undrain", "spot", "backends", ""} {
		if code, body := o.send(t, http.MethodPost, o.url+"/admin/"+path+"?backend=h100", ""); code != http.StatusNotFound || !strings.Contains(body, "unknown_url") || f.last() != "" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// audited are results of audits of two routes. While away is set, they cannot be read.
func audited(t *testing.T, away *atomic.Bool) *evidence.Store {
	t.Helper()
	e := evidence.New(evidence.Options{
		Memory: &evidence.Memory{Now: time.Now, Away: away.Load},
		Economics: func(risk.Key) risk.Economics {
			return risk.Economics{Saved: func(float64, bool) (usd, tokens float64) { return 0, 0 }}
		},
		Rule: func(string) risk.Rule {
			return risk.Rule{MaxDisagreement: .2, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 500}
		},
	})
	for i := range 600 { // enough for a grid of thresholds
		k, ticket := risk.Key{Route: []string{"llama-3", "other"}[i%2], TrafficClass: "all.0a1b2c3d"}, strconv.Itoa(i)
		d := e.View(k).Decide(k, risk.Sampling{Rate: 1}, 0)
		d.Chance = 1
		_, err := e.Open(t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: float64(i%50) / 50, Features: []float64{float64(i%50) / 50, 1}, Tokens: 7})
		if err = errors.Join(err, e.Close(t.Context(), k, ticket, i%20 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestOperatorsSeeWhatAuditsHaveShown(t *testing.T) {
	var away atomic.Bool
	e := audited(t, &away)
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Evidence = e })
	for at, list := range map[string]string{"/admin/risk": "risk", "/admin/risk/frontier": "frontiers", "/admin/risk/applications": "applications"} {
		for query, want := range map[string]int{"": 2, "?route=llama-3": 1} {
			status, body := g.send(t, http.MethodGet, g.admin+at+query, "")
			var got map[string]json.RawMessage
			var rows []struct{ Route string }
			if err := errors.Join(json.Unmarshal([]byte(body), &got), json.Unmarshal(got[list], &rows)); err != nil || status != http.StatusOK || len(rows) != want || rows[0].Route != "llama-3" {
				t.Errorf("%s%s: status %d, %v: %s", at, query, status, err, body)
			}
		}
		for query, want := range map[string]int{"?route=nobody": http.StatusNotFound, "?rute=x": http.StatusBadRequest} {
			if status, body := g.send(t, http.MethodGet, g.admin+at+query, ""); status != want {
				t.Errorf("%s%s: status %d: %s", at, query, status, body)
			}
		}
		away.Store(true)
		if status, body := g.send(t, http.MethodGet, g.admin+at, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, `"evidence_away"`) {
			t.Errorf("%s: status %d: %s", at, status, body)
		}
		away.Store(false)
	}
	if len(g.log.holding("the log is away")) != 3 {
		t.Errorf("the log:\n%s", g.log.holding(""))
	}
}

func TestWithoutAuditsTheListsAreEmpty(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	for at, want := range map[string]string{"/admin/risk": `{"risk":[],"refits":[]}`, "/admin/risk/frontier": `{"frontiers":[],"omitted":0}`, "/admin/risk/applications": `{"applications":[]}`} {
		if status, body := g.send(t, http.MethodGet, g.admin+at, ""); status != http.StatusOK || body != want+"\n" {
			t.Errorf("%s: status %d: %s", at, status, body)
		}
	}
}

func TestTheStatusTellsWhatTheGatewayAndWhatTheReplicaKnow(t *testing.T) {
	told := Status{
		Version: "v1", Uptime: 12.5, Replicas: []string{"a", "b"},
		Redis:    RedisView{Name: "single h:1", Level: "local", Since: 1.5, Why: "timeout"},
		Breakers: []BreakerView{{Pool: "p", Backend: "b", State: "open", SecondsLeft: 3}},
		Shedding: []SheddingView{{Pool: "p", Priorities: []string{"low"}}},
	}
	ready := "no route can serve: no backend is up"
	r := serving(RouteState{Route: "llama-3", State: RouteDown})
	r.status, r.orders = told, twoPools()
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Replica, o.Settings = r, setting(t, "shed.low@llama-3", "0.7", "timeout.write", "20s", "nothing.known", "1")
	})
	status, body := g.send(t, http.MethodGet, g.admin+"/admin/status", "")
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

	status, body = g.send(t, http.MethodGet, g.admin+"/admin/settings?route=llama-3", "")
	if want := `{"name":"shed.low@llama-3","value":"0.7","default":"0.85","range":"0 … 1","meaning":"`; status != http.StatusOK || !strings.HasPrefix(body, `{"route":"llama-3","settings":[{"`) || !strings.Contains(body, want) {
		t.Errorf("status %d: %s", status, body)
	}
	for at, want := range map[string]int{
		"/admin/settings?route=nobody": http.StatusNotFound, "/admin/settings?rute=x": http.StatusBadRequest,
		"/admin/settings?route=%zz": http.StatusBadRequest, "/admin/settings": http.StatusOK,
	} {
		if status, body := g.send(t, http.MethodGet, g.admin+at, ""); status != want {
			t.Errorf("%s: status %d, want %d: %s", at, status, want, body)
		}
	}
}
