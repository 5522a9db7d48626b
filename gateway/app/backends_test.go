package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/tiers/pool"
)

func TestAProbeSaysWhatAFailureMeans(t *testing.T) {
	for code, want := range map[int]breaker.Outcome{
		http.StatusOK: breaker.Success, http.StatusBadRequest: breaker.Success,
		http.StatusTooManyRequests: breaker.Backpressure, http.StatusInternalServerError: breaker.Fault,
		http.StatusServiceUnavailable: breaker.Fault,
		http.StatusUnauthorized:       breaker.Fault, http.StatusForbidden: breaker.Fault,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, a *http.Request) {
			switch {
			case a.Method == http.MethodPost:
				w.WriteHeader(code)
			case code == http.StatusOK:
				w.WriteHeader(http.StatusNotFound) // it tells nothing of its health
			}
		}))
		a, id := probing(t, srv.URL)
		if got := outcome(a.probe(t.Context(), "only", id)); got != want {
			t.Errorf("status %d is a %v, want %v", code, got, want)
		}
		srv.Close()
		if got := outcome(a.probe(t.Context(), "only", id)); got != breaker.Unreachable {
			t.Errorf("a closed port is a %v", got)
		}
		if got := outcome(a.probe(t.Context(), "only", "nobody")); got == breaker.Success {
			t.Error("who is not there is well")
		}
	}
}

// probing is a replica with one backend.
func probing(t *testing.T, url string) (a *App, id string) {
	t.Helper()
	p, err := pool.New(pool.Options{Name: "only", Model: "m", Backends: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	a = &App{}
	a.routing.Store(&routing{pools: map[string]*servedPool{"only": {Pool: p}}})
	return a, p.Snapshot()[0].ID
}
