package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/settings"
)

const (
	adminToken = "0123456789abcdef0123456789abcdef"
	drainToken = "drain456789abcdef0123456789abcde"
	promToken  = "prom3456789abcdef0123456789abcde"
)

// crew are operators of each scope.
func crew(t *testing.T) *Operators {
	t.Helper()
	s := &Operators{}
	apply(t, s, "ann operate "+adminToken, "vllm drain "+drainToken, "prom metrics "+promToken)
	return s
}

// apply changes who the operators are.
func apply(t *testing.T, s *Operators, lines ...string) {
	t.Helper()
	if err := s.Apply([][]byte{[]byte(strings.Join(lines, "\n"))}); err != nil {
		t.Fatal(err)
	}
}

// settingsStore is a store of settings, with its Redis.
func settingsStore(t *testing.T) (*settings.Store, *miniredis.Miniredis) {
	t.Helper()
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return settings.NewStore(c, nil), m
}

// openGuarded is an office with operators and all that they may ask for; settings are in the Redis.
func openGuarded(t *testing.T, local bool) (office, *orders, *miniredis.Miniredis) {
	t.Helper()
	f, log := twoPools(), &lines{}
	store, m := settingsStore(t)
	sealer, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		if !local {
			o.Admin = "0.0.0.0:0"
		}
		o.Fleet, o.Replica, o.Operators, o.Logger = f, &replica{store: store}, crew(t), zerolog.New(log)
		o.Cache = cache.NewStore(cache.Options{Sealer: sealer})
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "a page") })
	})
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}, f, m
}

func TestWhoLooksShowsTheTokenBeyondLoopback(t *testing.T) {
	for _, local := range []bool{true, false} {
		o, _, _ := openGuarded(t, local)
		for path, open := range map[string]bool{"/livez": true, "/readyz": true, "/admin/session": true, "/console/": true, "/console/main.js": true, "/console/live": local, "/admin/backends": local, "/admin/receipts/none": local, "/admin/settings/log": local, "/debug/pprof/cmdline": local} {
			for _, as := range []struct {
				headers []string
				may     bool
			}{
				{nil, open},
				{[]string{"Authorization", "Bearer " + adminToken}, true},
				{[]string{"Authorization", "Bearer " + adminToken + "x"}, false},
				{[]string{"Cookie", "token=" + adminToken}, open},
			} {
				resp := o.get(t, path, as.headers...)
				if refused := resp == http.StatusUnauthorized; refused == as.may {
					t.Errorf("loopback %v: GET %s with %q: status %d", local, path, as.headers, resp)
				}
			}
		}
	}
}

// get returns the status of GET path.
func (o office) get(t *testing.T, path string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return o.answered(t, req).status
}

func TestWithATokenNobodyChangesAnythingWithoutIt(t *testing.T) {
	o, f, m := openGuarded(t, true)
	for _, c := range []struct {
		code    string // of the refusal; "" is allowed
		headers []string
	}{
		{"", []string{"Authorization", "Bearer " + adminToken}},
		{"", []string{"Authorization", "Bearer " + adminToken, "Origin", o.admin, "Sec-Fetch-Site", "same-origin"}},
		{"", []string{"Authorization", "Bearer " + adminToken, "Host", "foregate.internal", "Origin", "https://foregate.internal", "Sec-Fetch-Site", "same-origin"}},
		{"no_token", nil},
		{"no_token", []string{"Origin", o.admin}},
		{"bad_token", []string{"Authorization", "Bearer wrong"}},
		{"cross_site", []string{"Authorization", "Bearer " + adminToken, "Sec-Fetch-Site", "cross-site"}},
		{"cross_site", []string{"Authorization", "Bearer " + adminToken, "Origin", "null"}},
		{"cross_site", []string{"Authorization", "Bearer " + adminToken, "Origin", "http://127.0.0.1:1"}}, // another port is another page
		{"cross_site", []string{"Authorization", "Bearer " + adminToken, "Origin", "https://evil.example"}},
		{"no_token", []string{"Cookie", "token=" + adminToken}},
	} {
		for _, path := range []string{"/admin/drain?backend=h100", "/admin/settings"} {
			code, body := o.send(t, http.MethodPost, o.admin+path, `{"set":{"shed.low":"0.7"}}`, c.headers...)
			told := f.last() != "" || m.Exists(settings.Key)
			m.FlushAll()
			if allowed := c.code == ""; (code == http.StatusOK) != allowed || told != allowed || !strings.Contains(body, c.code) {
				t.Errorf("%s %q: %d %s, told %v", path, c.headers, code, body, told)
			}
		}
	}
}

func TestAPageElsewhereSeesNothingOfALoopbackListener(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	for _, c := range []struct {
		code    int
		headers []string
	}{
		{http.StatusOK, nil},
		{http.StatusOK, []string{"Host", "LOCALHOST:9090"}},
		{http.StatusOK, []string{"Sec-Fetch-Site", "same-origin"}},
		{http.StatusOK, []string{"Sec-Fetch-Site", "none"}},
		{http.StatusOK, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{http.StatusForbidden, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}},
		{http.StatusForbidden, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{http.StatusForbidden, []string{"Host", "evil.example:9090"}},
		{http.StatusForbidden, []string{"Host", "evil.example:9090", "Sec-Fetch-Site", "same-origin"}},
		{http.StatusOK, []string{"Host", "foregate.internal", "Authorization", "bearer " + adminToken}},
	} {
		if code, body := o.send(t, http.MethodGet, o.admin+"/admin/backends", "", c.headers...); code != c.code {
			t.Errorf("%q: %d %s", c.headers, code, body)
		}
	}
}

func TestSettingsOrdersAreReadStrictlyAndAnswered(t *testing.T) {
	o, _, m := openGuarded(t, true)
	as := []string{"Authorization", "Bearer " + adminToken}
	for _, c := range []struct {
		path, body string
		code       int
		holds      string
	}{
		{"", `{"set":{"shed.low":"0.7"},"why":"night","dry_run":true}`, 200, `{"version":0,"changes":[{"name":"shed.low","old":null,"new":"0.7"}],"found":[],"notes":[],"dry_run":true}`},
		{"", `{"set":{"shed.low":"0.7"},"why":"night"}`, 200, `"dry_run":false`},
		{"", `{"unset":["shed.low"]}`, 200, `"version":2`},
		{"/rollback", `{"version":1}`, 200, `"version":3`},
		{"", `{"set":{"shed.low":"7"}}`, 422, `"code":"settings_refused"},"problems":["shed.low`},
		{"", `{"set":{"shed.low":"7"},"dry_run":true}`, 200, `"changes":[],"found":[],"notes":[],"dry_run":true,"problems":["shed.low`},
		{"", `{}`, 400, `give settings in set`},
		{"", `{"sett":{"shed.low":"0.7"}}`, 400, `bad_body`},
		{"", `{"unset":["shed.low"],"who":"bob"}`, 400, `bad_body`},
		{"", `{"set":{"shed.low":0.7}}`, 400, `bad_body`},
		{"", `{"set":{"shed.low":"0.7"}} {}`, 400, `bad_body`},
		{"", `{"set":{"shed.low":"0.7"},"why":"` + strings.Repeat("x", 257) + `"}`, 400, `256`},
		{"", `{"set":{"shed.low":"0.7"},"why":"a\nb"}`, 400, `one line`},
		{"/rollback", `{}`, 400, `"version"`},
		{"/rollback", `{"version":-1}`, 400, `"version"`},
		{"?dry_run=true", `{"set":{"shed.low":"0.7"}}`, 400, `unknown parameter`},
	} {
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings"+c.path, c.body, as...)
		if code != c.code || !strings.Contains(body, c.holds) {
			t.Errorf("%s %s: %d %s", c.path, c.body, code, body)
		}
	}
	code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log?n=2", "")
	if code != 200 || strings.Count(body, `"id"`) != 2 || strings.Count(body, `"who":"ann"`) != 2 || !strings.Contains(body, `"why":"back to version 1"`) || strings.Contains(body, "night") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log", ""); code != 200 || strings.Count(body, `"id"`) != 3 || strings.Count(body, `"why":"night"`) != 1 {
		t.Errorf("%d %s", code, body)
	}
	for _, c := range []struct {
		err   string
		code  int
		holds string
	}{
		{"NOPERM this user has no permissions to run the 'exec' command", 403, "settings_read_only"},
		{"dial redis://operator:hunter2@r", 503, "no_settings"},
	} {
		m.SetError(c.err)
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`, as...)
		if code != c.code || !strings.Contains(body, c.holds) || strings.Contains(body, "hunter2") {
			t.Errorf("%v: %d %s", c.err, code, body)
		}
	}
	if code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log?n=501", ""); code != 400 || !strings.Contains(body, "1 … 500") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWithoutATokenNobodyChangesSettings(t *testing.T) {
	store, m := settingsStore(t)
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = &replica{store: store} })
	o := office{bench: b, admin: "http://" + b.AdminAddr().String()}
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`); code != http.StatusForbidden || !strings.Contains(body, "read_only") || m.Exists(settings.Key) {
		t.Errorf("%d %s", code, body)
	}
}

func TestWithoutRedisTheHistoryIsEmpty(t *testing.T) {
	b := startBench(t, simulator(t).URL(), nil)
	if code, body := b.send(t, http.MethodGet, "http://"+b.AdminAddr().String()+"/admin/settings/log", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"entries":[]}` {
		t.Errorf("%d %s", code, body)
	}
}

func TestAnAdminListenerBeyondLoopbackNeedsAToken(t *testing.T) {
	b := makeBench(t, simulator(t).URL(), func(o *Options) { o.Admin = "0.0.0.0:0" })
	if err := b.Start(); err == nil || !strings.Contains(err.Error(), "needs operators' tokens") {
		b.Stop(t.Context())
		t.Errorf("error %v", err)
	}
}
