package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// twoTenants have no limits of their own.
var twoTenants = []identity.Tenant{{ID: "greedy"}, {ID: "other"}}

// stalled sends a request of a tenant with so many bytes of its body, of which it claims more, and waits for its
// answer no longer than wait; status is 0 where none comes.
func (b *bench) stalled(t *testing.T, tenant string, claimed, sent int) (answer func(wait time.Duration) (status int, body string)) {
	t.Helper()
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant-ID: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		tenant, claimed)
	if _, err := conn.Write([]byte(head + strings.Repeat(" ", sent))); err != nil {
		t.Fatal(err)
	}
	return func(wait time.Duration) (int, string) {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, ""
		}
		body, _ := rest(resp) // what of it came
		return resp.StatusCode, body
	}
}

// TestATenantsPlaceIsTakenBeforeItsBodyIsRead has a tenant with one place send large bodies that do not come.
func TestATenantsPlaceIsTakenBeforeItsBodyIsRead(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", Concurrent: 1}, identity.Tenant{ID: "other", Concurrent: 1})
	b.stalled(t, "acme", 1<<20, 1000)
	soon(t, "the second is refused, though nothing of it has come", func() bool {
		status, body := b.stalled(t, "acme", 1<<20, 0)(2 * time.Second)
		return status == http.StatusTooManyRequests && strings.Contains(body, "the limit is 1 at once")
	})
	if r := b.as(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

// TestStalledUploadsOfOneTenantLeaveRoomForOthers fills what one tenant can get.
func TestStalledUploadsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	const inFlight = 30
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.InFlight = inFlight }, twoTenants...)
	for range 2 * inFlight {
		b.stalled(t, "greedy", 1000, 1)
	}
	soon(t, "the tenant gets no more", func() bool {
		status, _ := b.stalled(t, "greedy", 1000, 1)(time.Second / 4)
		return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	})
	if r := b.as(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}
