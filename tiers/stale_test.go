package tiers

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/upstream"
)

// staleOnce breaks the first request to a host as a kept connection breaks that was closed while it was idle.
type staleOnce struct {
	http.RoundTripper
	host   string
	broken atomic.Bool
}

func (s *staleOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != s.host || r.Method != http.MethodPost || s.broken.Swap(true) {
		return s.RoundTripper.RoundTrip(r)
	}
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true})
	return nil, io.EOF
}

func TestAConnectionThatWasClosedWhileItWasIdleCostsNoAuditInTheShadow(t *testing.T) {
	r, n := auditedRigAtRest(t, vllmsim.Options{Seed: 7}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeShadow
	transport := upstream.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	stale := &staleOnce{RoundTripper: transport, host: strings.TrimPrefix(r.draft.URL(), "http://")}
	sendBy(r.cascade, stale)
	r.run(t)
	if _, _, err := r.ask(openai.Chat, plan.Auto, chat("question", `,"max_tokens":40,"stream":true`)); err != nil {
		t.Fatal(err)
	}
	r.rests(t)
	if n.count(risk.Learned) != 1 || !stale.broken.Load() {
		t.Errorf("audits %v; a connection broke: %v", n.fates, stale.broken.Load())
	}
}
