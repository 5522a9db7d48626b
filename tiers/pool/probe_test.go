package pool

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestAProbeWaitsAsLongAsTheSettingSays(t *testing.T) {
	hangs := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hangs)
	age := pressure.DefaultConfig()
	p := fixed(t, Options{Backends: []string{srv.URL}, Pressure: func() pressure.Config { return age }})
	for _, wait := range []time.Duration{50 * time.Millisecond, 900 * time.Millisecond} {
		age.ProbeTimeout = wait
		began := time.Now()
		p.probe(t.Context(), (*p.set.Load())[0])
		if took := time.Since(began); took < wait || took > wait+2*time.Second {
			t.Errorf("it waited %v, want %v", took, wait)
		}
	}
}
