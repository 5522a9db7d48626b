package pool

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// unresolved is what a scrape of a host ends with that no name server knows.
var unresolved = &url.Error{Op: "Get", URL: "http://a/metrics", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "a", IsNotFound: true}}}

func TestABackendWhoseHostDoesNotResolveIsNotReached(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a"}})
	a := (*b.set.Load())[0]
	if got := b.Readiness(); got != Unknown {
		t.Errorf("before anything is known: %v", got)
	}
	b.noteMissed(a, unresolved)
	if got := b.Readiness(); got != Unknown {
		t.Errorf("its host does not resolve: %v", got)
	}
	if why := b.Snapshot()[0].Why; !strings.Contains(why, "no such host") {
		t.Errorf("why: %q", why)
	}
	b.give(0, works(1, 1))
	if got, why := b.Readiness(), b.Snapshot()[0].Why; got != Ready || why != "" {
		t.Errorf("after a reading: %v, %q", got, why)
	}
	b.noteMissed(a, unresolved) // connections that are there may still serve
	b.now = b.now.Add(10*time.Second - 1)
	if got := b.Readiness(); got != Ready {
		t.Errorf("just after its last answer: %v", got)
	}
	b.now = b.now.Add(1)
	if got, why := b.Readiness(), b.Snapshot()[0].Why; got != Unknown || !strings.Contains(why, "no such host") {
		t.Errorf("10 s after its last answer: %v, %q", got, why)
	}
	l := pick(t, b.Pool, Demand{})
	l.FirstToken()
	if got := b.Readiness(); got != Ready {
		t.Errorf("after an answer to a request: %v", got)
	}
	l.ReportRefused(errors.New("no such host"))
	if got := b.Readiness(); got != Down {
		t.Errorf("after a refused connection: %v", got)
	}
}

func TestWhateverABackendAnswersIsAnAnswer(t *testing.T) {
	for what, answer := range map[string]func(b *bench, a *backend){
		"its metrics":            func(b *bench, _ *backend) { b.give(0, works(0, 0)) },
		"another's reading":      func(b *bench, a *backend) { b.ReceiveReading(a.id, pressure.Reading{At: b.now}) },
		"404 for its metrics":    func(b *bench, a *backend) { b.noteMissed(a, &pressure.StatusError{Code: http.StatusNotFound}) },
		"metrics that are wrong": func(b *bench, a *backend) { b.noteMissed(a, errors.New("GET /metrics: not a number")) },
	} {
		b := newBench(t, Options{Backends: []string{"http://a"}})
		answer(b, (*b.set.Load())[0])
		if got := b.Readiness(); got != Ready {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestAPoolIsReachedWhereOneOfItsBackendsIs(t *testing.T) {
	broken := ""
	b := newBench(t, Options{Backends: []string{"http://a", "http://b"}, Open: func(id string) bool { return id == broken }})
	b.give(0, works(0, 0))
	if got := b.Readiness(); got != Ready {
		t.Errorf("a answers: %v", got)
	}
	broken = "a"
	if got := b.Readiness(); got != Unknown {
		t.Errorf("a's breaker is open, b has not answered: %v", got)
	}
	b.ReceiveDrains(map[string]string{"b": "x"})
	if got := b.Readiness(); got != Down {
		t.Errorf("b is drained, too: %v", got)
	}
}

func TestDraftsDoNotReachABackendThatOnlyTheFloorKeeps(t *testing.T) {
	shut := "a"
	b := newBench(t, Options{Backends: []string{"http://a"}, Shut: func(id string) bool { return id == shut }})
	b.give(0, works(0, 0))
	if all, drafts := b.Readiness(), b.OptionalReadiness(); all != Ready || drafts != Down {
		t.Errorf("its breaker is open: %v, for drafts %v", all, drafts)
	}
	shut = ""
	if got := b.OptionalReadiness(); got != Ready {
		t.Errorf("its breaker is closed: %v", got)
	}
	b.silent(2, 0)
	if got := b.OptionalReadiness(); got != Down {
		t.Errorf("it seems to hang: %v", got)
	}
}
