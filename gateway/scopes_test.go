package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// adminPaths are all paths of the admin listener, by method, as a client would write them.
func adminPaths(g *Gateway) (all [][2]string) {
	for _, a := range g.adminTable() {
		all = append(all, [2]string{cmp.Or(a.method, http.MethodGet), strings.NewReplacer("{id}", "x", "*", "x").Replace(a.path)})
	}
	return all
}

func TestEachScopeOpensItsPathsAndNoOther(t *testing.T) {
	o, _, _ := openGuarded(t, false)
	paths := append(adminPaths(o.Gateway), [][2]string{ // and what is at none
		{"GET", "/admin/new"}, {"GET", "/metrics/x"}, {"GET", "/Metrics"}, {"GET", "//metrics"}, {"GET", "/admin/drain/x"}, {"GET", "/livez/x"}, {"GET", "/console"}, {"GET", "/console/%6cive"}, {"GET", "/%61dmin/status"}}...)
	everybodys := []string{"/", "/livez", "/readyz", "/admin/session", "/console/x"}
	open := map[string][]string{
		"":         nil,
		promToken:  {"/metrics", "/admin/usage", "/admin/usage/hours"},
		drainToken: {"/admin/backends", "/admin/drain", "/admin/undrain", "/admin/spot"},
		adminToken: {"/metrics", "/admin/usage", "/admin/usage/hours", "/admin/backends", "/admin/drain", "/admin/undrain", "/admin/spot"},
	}
	for token, its := range open {
		for _, p := range paths {
			method, path := p[0], p[1]
			may := slices.Contains(everybodys, path) || slices.Contains(its, path) || token == adminToken
			if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
				continue // which take seconds
			}
			code := o.as(t, token, method, path)
			refused := code == http.StatusUnauthorized || code == http.StatusForbidden
			if may == refused || refused && (code == http.StatusUnauthorized) != (token == "") {
				t.Errorf("%.5s: %s %s: %d", token, method, path, code)
			}
		}
	}
}

// as returns the status of a request with a token.
func (o office) as(t *testing.T, token, method, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, o.admin+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := o.client.Transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest(resp); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestTheConsoleIsToldWhatItsTokenIsGoodFor(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	for token, want := range map[string]string{
		adminToken: `{"writable":true,"signed_in":true,"operator":"ann"}`, drainToken: `{"writable":true,"signed_in":false,"operator":"vllm"}`,
		promToken: `{"writable":true,"signed_in":false,"operator":"prom"}`, "x": "bad_token", "": "bad_token",
	} {
		if _, body := o.send(t, http.MethodGet, o.admin+"/admin/session", "", "Authorization", "Bearer "+token); !strings.Contains(body, want) {
			t.Errorf("%.5s: %s", token, body)
		}
	}
	if _, body := o.send(t, http.MethodGet, o.admin+"/admin/session", ""); !strings.Contains(body, `{"writable":true,"signed_in":false,"operator":""}`) {
		t.Errorf("without a token: %s", body)
	}
}

func TestOrdersAndRefusalsAreLoggedWithTheNameOfTheTokenAndWithoutIt(t *testing.T) {
	o, _, _ := openGuarded(t, true)
	page := []string{"Authorization", "Bearer " + adminToken, "Origin", o.admin}
	for _, c := range []struct {
		path, body, logged string
		headers            []string
	}{
		{"/admin/drain?backend=h100", "", `"order":"drain","operator":"vllm"`, []string{"Authorization", "Bearer " + drainToken}},
		{"/admin/settings", `{"set":{"shed.low":"0.7"}}`, `"order":"settings","operator":"ann"`, page},
		{"/admin/settings", `{"unset":["shed.low"]}`, `"order":"settings","operator":"ann"`, []string{"Authorization", "Bearer " + adminToken}},
		{"/admin/cache/purge", "", `"operator":"prom","remote"`, []string{"Authorization", "Bearer " + promToken}},
		{"/admin/drain?backend=h100", "", `"operator":"ann","remote"`, []string{"Authorization", "Bearer " + adminToken, "Origin", "http://evil.example"}},
		{"/admin/drain?backend=h100", "", `"operator":"","remote"`, []string{"Authorization", "Bearer wrong"}},
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
	order := func(headers ...string) int {
		code, _ := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100", "", headers...)
		return code
	}
	if got := order("Authorization", "Bearer "+adminToken); got != 200 {
		t.Fatalf("before: %v", got)
	}
	next := strings.Repeat("n", 32)
	apply(t, o.guard.operators, "ann operate "+next)
	if got := [2]int{order("Authorization", "Bearer "+adminToken), order("Authorization", "Bearer "+next)}; got != [2]int{401, 200} {
		t.Errorf("after: %v", got)
	}
}
