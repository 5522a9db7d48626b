package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/settings"
)

const (
	adminToken = "0123456789abcdef0123456789abcdef"
	drainToken = "drain456789abcdef0123456789abcde"
	promToken  = "prom3456789abcdef0123456789abcde"
)

// apply changes who the operators are.
func apply(t *testing.T, s *Operators, lines ...string) *Operators {
	t.Helper()
	if err := s.Apply([][]byte{[]byte(strings.Join(lines, "\n"))}); err != nil {
		t.Fatal(err)
	}
	return s
}

// crew are operators of each scope.
func crew(t *testing.T) *Operators {
	t.Helper()
	return apply(t, &Operators{}, "ann operate "+adminToken, "vllm drain "+drainToken, "prom metrics "+promToken)
}

// openGuarded is a bench with operators and all that they may ask for; settings are in the Redis.
func openGuarded(t *testing.T, local bool) (*bench, *orders, *miniredis.Miniredis) {
	t.Helper()
	f := twoPools()
	m, c := newRedis(t)
	sealer, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		if !local {
			o.Admin = "0.0.0.0:0"
		}
		o.Replica, o.Operators = &replica{orders: f, store: settings.NewStore(c, nil)}, crew(t)
		o.Cache = cache.NewStore(cache.Options{Sealer: sealer})
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "a page") })
	})
	return b, f, m
}

// bearer shows a token.
func bearer(token string, more ...string) []string {
	return append([]string{"Authorization", "Bearer " + token}, more...)
}

func TestWithATokenNobodyChangesAnythingWithoutIt(t *testing.T) {
	o, f, m := openGuarded(t, true)
	for _, c := range []struct {
		code    string // of the refusal; "" is allowed
		headers []string
	}{
		{"", bearer(adminToken)},
		{"", bearer(adminToken, "Origin", o.admin, "Sec-Fetch-Site", "same-origin")},
		{"", bearer(adminToken, "Host", "foregate.internal", "Origin", "https://foregate.internal", "Sec-Fetch-Site", "same-origin")},
		{"no_token", nil},
		{"no_token", []string{"Origin", o.admin}},
		{"bad_token", bearer("wrong")},
		{"cross_site", bearer(adminToken, "Sec-Fetch-Site", "cross-site")},
		{"cross_site", bearer(adminToken, "Origin", "null")},
		{"cross_site", bearer(adminToken, "Origin", "http://127.0.0.1:1")}, // another port is another page
		{"cross_site", bearer(adminToken, "Origin", "https://evil.example")},
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
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings"+c.path, c.body, bearer(adminToken)...)
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
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`, bearer(adminToken)...)
		if code != c.code || !strings.Contains(body, c.holds) || strings.Contains(body, "hunter2") {
			t.Errorf("%v: %d %s", c.err, code, body)
		}
	}
	if code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log?n=501", ""); code != 400 || !strings.Contains(body, "1 … 500") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWithoutATokenNobodyChangesSettingsAndWithoutRedisTheHistoryIsEmpty(t *testing.T) {
	m, c := newRedis(t)
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = &replica{store: settings.NewStore(c, nil)} })
	if code, body := b.send(t, http.MethodPost, b.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`); code != http.StatusForbidden || !strings.Contains(body, "read_only") || m.Exists(settings.Key) {
		t.Errorf("%d %s", code, body)
	}
	b = startBench(t, simulator(t).URL(), nil)
	if code, body := b.send(t, http.MethodGet, b.admin+"/admin/settings/log", ""); code != http.StatusOK || strings.TrimSpace(body) != `{"entries":[]}` {
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

// adminPaths are all paths of the admin listener, by method, as a client would write them.
func adminPaths(g *Gateway) (all [][2]string) {
	for _, a := range g.adminTable() {
		all = append(all, [2]string{cmp.Or(a.method, http.MethodGet), strings.NewReplacer("{id}", "x", "*", "x").Replace(a.path)})
	}
	return all
}

func TestEachScopeOpensItsPathsAndNoOther(t *testing.T) {
	everybodys := []string{"/", "/livez", "/readyz", "/admin/session", "/console/x"}
	usage := []string{"/metrics", "/admin/usage", "/admin/usage/hours"}
	open := map[string][]string{
		"":           nil,
		"none's":     nil,
		promToken:    usage,
		drainToken:   {"/admin/backends", "/admin/drain", "/admin/undrain", "/admin/spot"},
		adminToken:   nil, // all
		"a cookie's": nil,
	}
	for _, local := range []bool{true, false} {
		b, _, _ := openGuarded(t, local)
		paths := append(adminPaths(b.Gateway), [][2]string{ // and what is at none
			{"GET", "/admin/new"}, {"GET", "/metrics/x"}, {"GET", "/Metrics"}, {"GET", "//metrics"}, {"GET", "/admin/drain/x"}, {"GET", "/livez/x"}, {"GET", "/console"}, {"GET", "/console/%6cive"}, {"GET", "/%61dmin/status"}}...)
		for token, its := range open {
			headers, nobody := bearer(token), false
			switch token {
			case "":
				headers, nobody = nil, true
			case "a cookie's":
				headers, nobody = []string{"Cookie", "token=" + adminToken}, true
			}
			for _, p := range paths {
				method, path := p[0], p[1]
				may := token != "none's" && (slices.Contains(everybodys, path) || slices.Contains(its, path) || token == adminToken || local && nobody && method == http.MethodGet)
				if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
					continue // which take seconds
				}
				code := b.call(t, method, b.admin+path, "{}", headers...).status
				refused := code == http.StatusUnauthorized || code == http.StatusForbidden
				if may == refused || refused && (code == http.StatusUnauthorized) != (nobody || token == "none's") {
					t.Errorf("loopback %t, %.12s: %s %s: %d", local, token, method, path, code)
				}
			}
		}
	}
}

func TestTheConsoleIsToldWhatItsTokenIsGoodFor(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	for token, want := range map[string]string{
		adminToken: `{"writable":true,"signed_in":true,"operator":"ann"}`, drainToken: `{"writable":true,"signed_in":false,"operator":"vllm"}`,
		promToken: `{"writable":true,"signed_in":false,"operator":"prom"}`, "x": "bad_token", "": "bad_token",
	} {
		if _, body := o.send(t, http.MethodGet, o.admin+"/admin/session", "", bearer(token)...); !strings.Contains(body, want) {
			t.Errorf("%.5s: %s", token, body)
		}
	}
	if _, body := o.send(t, http.MethodGet, o.admin+"/admin/session", ""); !strings.Contains(body, `{"writable":true,"signed_in":false,"operator":""}`) {
		t.Errorf("without a token: %s", body)
	}
}

func TestOrdersAndRefusalsAreLoggedWithTheNameOfTheTokenAndWithoutIt(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	page := bearer(adminToken, "Origin", o.admin)
	for _, c := range []struct {
		path, body, logged string
		headers            []string
	}{
		{"/admin/drain?backend=h100", "", `"order":"drain","operator":"vllm"`, bearer(drainToken)},
		{"/admin/settings", `{"set":{"shed.low":"0.7"}}`, `"order":"settings","operator":"ann"`, page},
		{"/admin/settings", `{"unset":["shed.low"]}`, `"order":"settings","operator":"ann"`, bearer(adminToken)},
		{"/admin/cache/purge", "", `"operator":"prom","remote"`, bearer(promToken)},
		{"/admin/drain?backend=h100", "", `"operator":"ann","remote"`, bearer(adminToken, "Origin", "http://evil.example")},
		{"/admin/drain?backend=h100", "", `"operator":"","remote"`, bearer("wrong")},
	} {
		before := len(o.log.holding(c.logged))
		o.send(t, http.MethodPost, o.admin+c.path, c.body, c.headers...)
		if got := o.log.holding(c.logged); len(got) != before+1 {
			t.Errorf("%s as %q: logged %q", c.path, c.headers, got)
		}
	}
	if _, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log", ""); strings.Count(body, `"who":"ann"`) != 2 || strings.Count(body, `"id"`) != 2 {
		t.Errorf("the history is %s", body)
	}
	for _, token := range []string{adminToken, drainToken, promToken} {
		if lines := o.log.holding(token); len(lines) > 0 {
			t.Errorf("a secret is in the log: %q", lines)
		}
	}
}

func TestATokenThatIsGoneIsRefusedAndTheNewOneIsGood(t *testing.T) {
	o, _, _ := openGuarded(t, false)
	next := strings.Repeat("n", 32)
	for _, want := range []map[string]int{{adminToken: 200, next: 401}, {adminToken: 401, next: 200}} {
		for token, status := range want {
			if got, _ := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100", "", bearer(token)...); got != status {
				t.Errorf("%.4s: %d, want %d", token, got, status)
			}
		}
		apply(t, o.guard.operators, "ann operate "+next)
	}
}

func TestATokenIsGoodForItsScopesAndOperateForAll(t *testing.T) {
	const both = "both3456789abcdef0123456789abcde"
	s := &Operators{}
	apply(t, s, "ann operate "+adminToken, "bob drain,metrics "+both, "prom metrics "+promToken)
	for token, want := range map[string][]Scope{adminToken: {ScopeMetrics, ScopeDrain, ScopeOperate, "other"}, both: {ScopeMetrics, ScopeDrain}, promToken: {ScopeMetrics}} {
		o := s.authenticate(token)
		if o == nil {
			t.Fatalf("nobody has %s", token)
		}
		for _, scope := range []Scope{ScopeMetrics, ScopeDrain, ScopeOperate, "other"} {
			if got := o.hasScope(scope); got != slices.Contains(want, scope) {
				t.Errorf("%s may %s: %v", o.name, scope, got)
			}
		}
	}
	for _, token := range []string{"", "ann", adminToken[1:], adminToken + "a", strings.ToUpper(adminToken)} {
		if o := s.authenticate(token); o != nil {
			t.Errorf("%q is taken for %s", token, o.name)
		}
	}
	for lines, want := range map[string]string{
		"ann operate " + adminToken + "\nbob admin " + both: "line 2: want scopes out of metrics, drain, operate, parted by commas, each of them once",
		"":         `holds no secret; want lines "NAME SCOPES SECRET"`,
		adminToken: `line 1: has 1 words; want "NAME SCOPES SECRET"`,
	} {
		if err := s.Apply([][]byte{[]byte(lines)}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
	if s.authenticate(promToken) == nil {
		t.Error("a file that was refused changed something")
	}
}

func TestAWebPageCannotUseAListenerThatAsksNobodyWhoHeIs(t *testing.T) {
	const chat = `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`
	f := twoPools()
	open := openOffice(t, f)
	for _, host := range []string{"localhost:9090", "127.0.0.1:9090", "[::1]:9090"} {
		if code, body := open.send(t, http.MethodPost, open.admin+"/admin/drain?backend=h100", "", "Host", host); code != http.StatusOK || f.last() == "" {
			t.Errorf("a drain, %s: %d %s", host, code, body)
		}
	}
	port := open.url[strings.LastIndex(open.url, ":"):]
	for _, c := range []struct {
		code    string // of the refusal; "" is an answer
		headers []string
	}{
		{"", nil}, // a tool, or an SDK
		{"", []string{"Host", "localhost" + port}},
		{"", []string{"Host", "LOCALHOST"}},
		{"", []string{"Host", "127.0.0.1"}},
		{"", []string{"Host", "[::1]" + port}},
		{"", []string{"Host", "host.docker.internal" + port}},
		{"", []string{"Host", "App.LocalHost"}},
		{"", []string{"Host", "192.168.1.7" + port}}, // an address cannot be made to lead elsewhere
		{"", []string{"Host", "localhost:5173", "Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-origin"}}, // a page behind a proxy of its own, which keeps Host …
		{"", []string{"Host", "localhost:5173", "Origin", "http://localhost:5173"}},
		{"", []string{"Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-origin"}}, // … or does not
		{"strange_host", []string{"Host", "evil.example" + port}},
		{"strange_host", []string{"Host", "evil.example" + port, "Origin", "http://evil.example" + port}},
		{"strange_host", []string{"Host", "evil.example" + port, "Sec-Fetch-Site", "same-origin"}},
		{"strange_host", []string{"Host", "127.0.0.1.evil.example"}},
		{"strange_host", []string{"Host", "localhost.evil.example"}},
		{"strange_host", []string{"Host", "evilinternal"}},
		{"strange_host", []string{"Host", "internal.evil.example:80"}},
		{"cross_site", []string{"Origin", "https://evil.example"}},
		{"cross_site", []string{"Origin", "null"}},
		{"cross_site", []string{"Origin", "http://localhost:5173"}}, // another port is another page
		{"cross_site", []string{"Sec-Fetch-Site", "cross-site"}},
		{"cross_site", []string{"Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-site"}},
	} {
		code, body := open.send(t, http.MethodPost, open.url+"/v1/chat/completions", chat, append(c.headers, "Content-Type", "application/json")...)
		if want := c.code == ""; (code == http.StatusOK) != want || (code == http.StatusForbidden) == want || !strings.Contains(body, c.code) {
			t.Errorf("%q: want %q, got %d %s", c.headers, c.code, code, body)
		}
		if strings.HasPrefix(c.code, "strange") {
			if code, body := open.send(t, http.MethodGet, open.url+"/v1/models", "", c.headers...); code != http.StatusForbidden {
				t.Errorf("models, %q: %d %s", c.headers, code, body)
			}
			if code, body := open.send(t, http.MethodPost, open.admin+"/admin/drain?backend=h100", "", c.headers...); code != http.StatusForbidden || len(c.headers) == 2 && !strings.Contains(body, "strange_host") || f.last() != "" {
				t.Errorf("a drain, %q: %d %s", c.headers, code, body)
			}
		}
	}
	keyed := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Identity = callers(t, identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{{1}}}}})
	})
	if code, body := keyed.send(t, http.MethodPost, keyed.url+chatPath, chat, "Host", "api.example", "Origin", "https://app.example", "Content-Type", plainJSON); code != http.StatusUnauthorized {
		t.Errorf("where keys are asked for any name will do: %d %s", code, body)
	}
}
