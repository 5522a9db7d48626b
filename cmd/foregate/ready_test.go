package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
