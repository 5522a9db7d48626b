package authbackoff

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// world is a table with a clock of its own.
type world struct {
	*Table
	at time.Time
}

func newWorld() *world {
	w := &world{at: time.Unix(1_800_000_000, 0)}
	w.Table = New(Options{Now: func() time.Time { return w.at }})
	return w
}

func from(address string) Failure { return Failure{Address: netip.MustParseAddr(address)} }

func TestASourceThatGoesOnFailingWaitsTwiceAsLongEachTime(t *testing.T) {
	for name, f := range map[string]Failure{"a credential": {Credential: "sk-wrong"}, "an address": from("192.0.2.1")} {
		w := newWorld()
		for i := range allowedFailures {
			if v := w.Fail(f); v.Wait != 0 {
				t.Errorf("%s: failure %d waits %v", name, i+1, v.Wait)
			}
		}
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			want := time.Duration(seconds) * time.Second
			if v := w.Fail(f); v != (Verdict{Wait: want, Began: true}) {
				t.Errorf("%s: got %+v, want a wait of %v", name, v, want)
			}
			w.at = w.at.Add(want / 2)
			if v := w.Fail(f); v != (Verdict{Wait: want / 2, Quiet: true}) {
				t.Errorf("%s: in the wait: got %+v, want the rest of it", name, v)
			}
			w.at = w.at.Add(want / 2)
		}
		w.at = w.at.Add(failureLifetime)
		if v := w.Fail(f); v.Wait != 0 {
			t.Errorf("%s: after a long time without a failure it waits %v", name, v.Wait)
		}
	}
}

func TestAWaitIsForItsSourceAlone(t *testing.T) {
	w := newWorld()
	for range 2 * allowedFailures {
		w.Fail(Failure{Credential: "sk-wrong", Address: netip.MustParseAddr("192.0.2.1")})
	}
	for name, tc := range map[string]struct {
		f     Failure
		waits bool
	}{
		"another key, another address":   {Failure{"sk-other", netip.MustParseAddr("192.0.2.2")}, false},
		"another key, the same address":  {Failure{"sk-other", netip.MustParseAddr("192.0.2.1")}, true},
		"no key, the same address":       {from("192.0.2.1"), true},
		"the same key behind a balancer": {Failure{Credential: "sk-wrong"}, true},
		"another key behind a balancer":  {Failure{Credential: "sk-third"}, false},
		"nothing that is known":          {Failure{}, false},
	} {
		if v := w.Fail(tc.f); (v.Wait > 0) != tc.waits {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func TestSourcesAndLinesAreBounded(t *testing.T) {
	w := newWorld()
	loud := 0
	for i := range 3 * maxSources {
		address := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if v := w.Fail(Failure{Credential: fmt.Sprint(i), Address: address}); !v.Quiet {
			loud++
		}
	}
	if n := len(w.credentials.young) + len(w.credentials.old); n > 2*maxSources {
		t.Errorf("%d credentials are held", n)
	}
	if n := len(w.addresses.young) + len(w.addresses.old); n > 2*maxSources {
		t.Errorf("%d addresses are held", n)
	}
	if loud != maxLogLines {
		t.Errorf("%d lines in a second, want %d", loud, maxLogLines)
	}
	w.at = w.at.Add(time.Second)
	if v := w.Fail(from("192.0.2.1")); v.Quiet {
		t.Error("the next second has no line")
	}
}

func TestAnAddressThatWaitsFillsNoTableWithItsKeys(t *testing.T) {
	w := newWorld()
	for i := range 1000 {
		w.Fail(Failure{Credential: fmt.Sprint(i), Address: netip.MustParseAddr("192.0.2.1")})
	}
	if n := len(w.credentials.young); n != allowedFailures+1 {
		t.Errorf("%d credentials are held, want %d", n, allowedFailures+1)
	}
}

func TestFailuresAreCountedByTheirAnswer(t *testing.T) {
	reg := prometheus.NewRegistry()
	table := New(Options{Registerer: reg})
	for range allowedFailures + 3 {
		table.Fail(Failure{Credential: "sk-wrong"})
	}
	if refused, wait := testutil.ToFloat64(table.answers.WithLabelValues("refused")), testutil.ToFloat64(table.answers.WithLabelValues("wait")); refused != allowedFailures || wait != 3 {
		t.Errorf("%v refused, %v told to wait", refused, wait)
	}
}
