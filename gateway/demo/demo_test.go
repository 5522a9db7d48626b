package demo

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

func TestADemonstrationWhoseReplicaCannotStartEndsWithItsError(t *testing.T) {
	var both [2]net.Listener
	for i := range both {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		both[i] = ln
	}
	requests, taken := both[0], both[1]
	err := Run(t.Context(), Options{Listener: requests, Admin: taken.Addr().String(), Replicas: 1, TimeScale: 20, Stdout: io.Discard, Stderr: io.Discard})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	if c, err := net.DialTimeout("tcp", requests.Addr().String(), time.Second); err == nil {
		_ = c.Close()
		t.Error("it takes requests still")
	}
}

func TestTwoOfFiveRequestsAreAmongTheLastThatWereNew(t *testing.T) {
	tr := newTraffic("", "m", 1)
	fresh := map[string]bool{}
	const n = 2000
	for i := range n {
		r := tr.next(i)
		if r.tenant == "" || !bytes.Contains(r.body, []byte(`"messages"`)) {
			t.Fatalf("request %d: %q of tenant %q", i, r.body, r.tenant)
		}
		if fresh[string(r.body)] && !slices.ContainsFunc(tr.sent, func(s request) bool { return bytes.Equal(s.body, r.body) }) {
			t.Fatalf("request %d was new too long ago: %s", i, r.body)
		}
		fresh[string(r.body)] = true
	}
	if again := float64(n-len(fresh)) / n; again < .3 || again > .5 { // nine standard deviations
		t.Errorf("%.2f of the requests were sent before", again)
	}
}

func TestTheStatusLineFitsANarrowTerminal(t *testing.T) {
	line := statusLine(totals{requests: 99_999, accepted: 40_000, cached: 20_000, shed: 100}, 12, []risk.Summary{{Phase: "warmup", Audits: 7}, {Phase: "certified", Audits: 1200}})
	if len(line) >= 80 || !strings.HasSuffix(line, "; guarantee certified") {
		t.Errorf("%d characters: %s", len(line), line)
	}
}
