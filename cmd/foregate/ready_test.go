package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
)

func TestReadyTellsByItsExitStatus(t *testing.T) {
	for _, c := range []struct {
		name      string
		status    int
		body      string
		want      int
		out, errs string
	}{
		{"ready", http.StatusOK, "ok\nredis: shared\n", 0, "ok redis: shared\n", ""},
		{"draining", http.StatusServiceUnavailable, "draining\n", 1, "", "not ready: status 503: draining"},
		{"some other server", http.StatusNotFound, "no such page\n", 1, "", "not ready: status 404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			status, out, errs := call(t, "ready", "--admin", s.URL)
			if status != c.want || out != c.out || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") {
				t.Errorf("status %d, %q, %q", status, out, errs)
			}
			if asked != "/readyz" {
				t.Errorf("asked for %s", asked)
			}
		})
	}
}

func TestReadyNeedsAReplica(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if status, _, errs := call(t, "ready", "--admin", s.URL); status != 1 || !strings.Contains(errs, "cannot be reached") {
		t.Errorf("status %d, %q", status, errs)
	}
}

// TestARouteWhoseHostsDoNotResolveIsNotReadyAndTheOtherIs has one route with a backend that
// answers, one whose backend no name server knows, and one with both, whose drafts are not served
// without the target: nobody has probed it.
func TestARouteWhoseHostsDoNotResolveIsNotReadyAndTheOtherIs(t *testing.T) {
	file, err := config.Parse("ready", []byte(`
listen: 127.0.0.1:0
pools: {known: {model: m, backends: ["`+apptest.LoadedBackend(t, "m", 0.5).URL+`"]}, unknown: {model: m, backends: ["http://backend.invalid:8000"]}}
routes: [{model: m, target: known}, {model: n, target: unknown}, {model: p, draft: known, target: unknown}]
drain: {delay: 0s, grace: 1s}
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.New(t.Context(), app.Options{File: file, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.RouteStates(); slices.ContainsFunc(got, func(s gateway.RouteState) bool { return s.Ready || s.State != gateway.RouteUnreached }) {
		t.Errorf("ready before anything is known: %+v", got)
	}
	started(t, r)
	ready := func(query string) (int, string) { return apptest.Get(t, "http://"+r.Addr().String()+"/readyz"+query) }
	apptest.Eventually(t, "one route can serve", func() bool { status, _ := ready(""); return status == http.StatusOK })
	for query, want := range map[string]int{"": 200, "?route=m": 200, "?route=n": 503, "?route=p": 503, "?route=o": 404} {
		if status, text := ready(query); status != want || want != 404 && !strings.Contains(text, "route m: ok\nroute n: unreached\nroute p: unreached\n") {
			t.Errorf("%s: status %d %q, want %d", query, status, text, want)
		}
	}
}
