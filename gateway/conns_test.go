package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	const places = 16
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Limits.Conns = places })
	stream := g.ask(t, true, 200)
	for i := range 3 * places {
		idler := clientAt(t, fmt.Sprintf("127.0.0.%d", 2+i%3)) // each has a connection of its own
		if err := reach(t, idler, g.url+"/livez"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	for _, url := range []string{g.url, "http://" + g.AdminAddr().String()} {
		if err := reach(t, clientAt(t, "127.0.0.9"), url+"/readyz"); err != nil {
			t.Error(err)
		}
	}
	if body, err := rest(stream); err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("a stream was cut: %v, …%s", err, body[max(0, len(body)-80):])
	}
}

func TestAnOperatorsListenerHasPlacesOfItsOwn(t *testing.T) {
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Limits.Conns = 4 })
	hold := func(addr net.Addr, n int) {
		for range n {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr.String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	hold(g.Addr(), 8)
	hold(g.AdminAddr(), 2*maxAdminConns)
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if err := reach(t, g.client, "http://"+g.AdminAddr().String()+path); err != nil {
			t.Error(err)
		}
	}
}

func TestOneAddressLeavesPlacesOfTheOperatorsListenerToOthers(t *testing.T) {
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Operators = crew(t) })
	for range 2 * maxAdminConns {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", g.AdminAddr().String())
		if err != nil {
			continue // it was reset: there is no place
		}
		t.Cleanup(func() { _ = c.Close() })
		// A body is waited for, so its connection is not closed for a new one. This fails where there was no place.
		_, _ = io.WriteString(c, "POST /admin/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if err := reach(t, clientAt(t, "127.0.0.9"), "http://"+g.AdminAddr().String()+path); err != nil {
			t.Errorf("a probe of another address: %v", err)
		}
	}
}

func TestAConnectionEndsWhereItsClientIsRefusedAsSomebody(t *testing.T) {
	who, err := identity.New(identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{{1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Identity, o.Operators = who, crew(t) })
	for _, c := range []struct {
		method, url string
		code        int
		headers     []string
		ends        bool
	}{
		{http.MethodPost, g.url + "/v1/chat/completions", http.StatusUnauthorized, nil, true},
		{http.MethodPost, g.url + "/v1/chat/completions", http.StatusUnauthorized, []string{"Authorization", "Bearer wrong"}, true},
		{http.MethodGet, g.url + "/v1/models", http.StatusUnauthorized, nil, true},
		{http.MethodGet, g.url + "/v1/nothing", http.StatusNotFound, nil, false},
		{http.MethodGet, g.url + "/livez", http.StatusOK, nil, false},
		{http.MethodPost, "http://" + g.AdminAddr().String() + "/admin/settings", http.StatusUnauthorized, nil, true},
		{http.MethodPost, "http://" + g.AdminAddr().String() + "/admin/session", http.StatusUnauthorized, nil, true},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for pair := range slices.Chunk(c.headers, 2) {
			req.Header.Set(pair[0], pair[1])
		}
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rest(resp); err != nil || resp.StatusCode != c.code || resp.Close != c.ends {
			t.Errorf("%s %s %q: %d, ends %v, %v", c.method, c.url, c.headers, resp.StatusCode, resp.Close, err)
		}
	}
}
