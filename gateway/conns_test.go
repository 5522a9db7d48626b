package gateway

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
)

// clientAt is a client that connects from an address of the loopback network.
func clientAt(t *testing.T, from string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}, Timeout: 5 * time.Second}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// reach asks for a page that needs no identity.
func reach(t *testing.T, c *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	if body, err := rest(resp); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s %w", resp.StatusCode, body, err)
	}
	return nil
}

func TestProbesOfTheOperatorsListenerAnswerWhileIdleConnectionsTakeThePublicOne(t *testing.T) {
	const places = 16
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Limits.Conns = places })
	stream := g.ask(t, true, 200)
	var idle []net.Conn
	for range 3 * places {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		idle = append(idle, c)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if err := reach(t, g.client, "http://"+g.AdminAddr().String()+path); err != nil {
			t.Error(err)
		}
	}
	soon(t, "the public listener is full", func() bool { return testutil.ToFloat64(g.metrics.conns) == places })
	if body, err := rest(stream); err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("a stream was cut: %v, …%s", err, body[max(0, len(body)-80):])
	}
	for _, c := range idle {
		_ = c.Close()
	}
	if err := reach(t, clientAt(t, "127.0.0.9"), g.url+"/readyz"); err != nil {
		t.Errorf("when they have gone: %v", err)
	}
	soon(t, "closed connections are not counted", func() bool { return testutil.ToFloat64(g.metrics.conns) <= 2 })
}

func TestAConnectionThatSendsNothingIsClosed(t *testing.T) {
	g := makeBench(t, simulator(t).URL(), nil)
	for _, l := range []listener{g.public, g.admin} {
		if s := l.server; s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != 75*time.Second || s.MaxHeaderBytes != 16<<10 {
			t.Errorf("%v for a head of %d bytes, %v between requests", s.ReadHeaderTimeout, s.MaxHeaderBytes, s.IdleTimeout)
		}
	}
}

func TestAWrongKeyIsAlwaysA401(t *testing.T) {
	who, err := identity.New(identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{{1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Identity = who })
	for i := range 30 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/models", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer wrong")
		if r := g.answered(t, req); r.status != http.StatusUnauthorized || r.head.Get("Connection") == "close" {
			t.Fatalf("try %d: %d %v %s", i, r.status, r.head, r.body)
		}
	}
}
