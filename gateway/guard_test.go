package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// told is an edit that a desk was told.
type told struct {
	settings.Edit
	Set     map[string]string
	Unset   []string
	Version int64
}

// desk is a SettingsEditor that notes what it was told.
type desk struct {
	told []told
	err  error
}

func (d *desk) note(ctx context.Context, o told) (settings.Result, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return settings.Result{}, errors.New("an order without a deadline")
	}
	d.told = append(d.told, o)
	if d.err != nil {
		return settings.Result{}, d.err
	}
	value := "0.7"
	return settings.Result{Version: 3, Changes: []settings.Change{{Name: "shed.low", New: &value}}}, nil
}

func (d *desk) Set(ctx context.Context, o settings.Edit, set map[string]string, unset []string) (settings.Result, error) {
	return d.note(ctx, told{Edit: o, Set: set, Unset: unset})
}

func (d *desk) Rollback(ctx context.Context, o settings.Edit, version int64) (settings.Result, error) {
	return d.note(ctx, told{Edit: o, Version: version})
}

func (d *desk) History(_ context.Context, yield func(settings.Entry) bool) error {
	for yield(settings.Entry{ID: "1-0", Version: 1, Who: "ann"}) {
	}
	return d.err
}

// openGuarded is an office with operators and all that they may ask for.
func openGuarded(t *testing.T, local bool) (office, *orders, *desk) {
	t.Helper()
	f, d := twoPools(), &desk{}
	log := &lines{}
	sealer, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		if !local {
			o.Admin = "0.0.0.0:0"
		}
		o.Fleet, o.Replica, o.Operators, o.Logger = f, &replica{editor: d}, crew(t), zerolog.New(log)
		o.Cache = cache.NewStore(cache.Options{Sealer: sealer})
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "a page") })
	})
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}, f, d
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
	o, f, d := openGuarded(t, true)
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
			told := f.last() != "" || len(d.told) > 0
			d.told = nil
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
	o, _, d := openGuarded(t, true)
	as := []string{"Authorization", "Bearer " + adminToken}
	for _, c := range []struct {
		path, body string
		code       int
		holds      string
	}{
		{"", `{"set":{"shed.low":"0.7"},"why":"night","dry_run":true}`, 200, `{"version":3,"changes":[{"name":"shed.low","old":null,"new":"0.7"}],"found":[],"notes":[],"dry_run":true}`},
		{"", `{"unset":["shed.low"]}`, 200, `"dry_run":false`},
		{"/rollback", `{"version":2}`, 200, `"version":3`},
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
	want := []told{
		{Edit: settings.Edit{Who: "ann", Why: "night", DryRun: true}, Set: map[string]string{"shed.low": "0.7"}},
		{Edit: settings.Edit{Who: "ann"}, Unset: []string{"shed.low"}},
		{Edit: settings.Edit{Who: "ann", Why: "back to version 2"}, Version: 2},
	}
	if diff := cmp.Diff(want, d.told, cmpopts.IgnoreUnexported(settings.Edit{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, c := range []struct {
		err   error
		code  int
		holds string
	}{
		{&settings.RefusedError{Problems: []string{"shed.low: want 0 … 1", "x: unknown"}}, 422, `"code":"settings_refused"},"problems":["shed.low: want 0 … 1","x: unknown"]}`},
		{errors.New("NOPERM this user has no permissions to run the 'exec' command"), 403, "settings_read_only"},
		{errors.New("dial redis://operator:hunter2@r"), 503, "no_settings"},
	} {
		d.err = c.err
		code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`, as...)
		if code != c.code || !strings.Contains(body, c.holds) || strings.Contains(body, "hunter2") {
			t.Errorf("%v: %d %s", c.err, code, body)
		}
	}
	d.err = &settings.RefusedError{Problems: []string{"shed.low: want 0 … 1"}}
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"7"},"dry_run":true}`, as...); code != 200 || !strings.Contains(body, `"changes":[]`) || !strings.Contains(body, `"problems":["shed.low: want 0 … 1"]`) {
		t.Errorf("a dry run: %d %s", code, body)
	}
	d.err = nil
	if code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log?n=5", ""); code != 200 || !strings.Contains(body, `"who":"ann"`) || strings.Count(body, `"id"`) != 5 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := o.send(t, http.MethodGet, o.admin+"/admin/settings/log?n=501", ""); code != 400 || !strings.Contains(body, "1 … 500") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWithoutATokenNobodyChangesSettings(t *testing.T) {
	d := &desk{}
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Replica = &replica{editor: d} })
	o := office{bench: b, admin: "http://" + b.AdminAddr().String()}
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/settings", `{"set":{"shed.low":"0.7"}}`); code != http.StatusForbidden || !strings.Contains(body, "read_only") || len(d.told) > 0 {
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
