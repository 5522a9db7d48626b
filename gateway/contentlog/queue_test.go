package contentlog

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
)

func TestASlowCollectorDelaysNoRequestAndTheRestIsCounted(t *testing.T) {
	const more = 10
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	l, err := New(Options{URL: srv.URL, Share: 1, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	r := scan(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	for range maxQueued + more {
		e := l.Begin("x", r)
		e.Take()
		e.End(&gateway.ContentOutcome{RequestSummary: &gateway.RequestSummary{}})
	}
	if dropped := testutil.ToFloat64(l.metrics.records.WithLabelValues(resultQueue)); dropped != more {
		t.Errorf("%g were dropped, want %d", dropped, more)
	}
}
