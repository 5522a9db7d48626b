package virtual

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

func TestARefitIsPutInForceAndThePromiseIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	played := func(refit string) *lab {
		t.Helper()
		s := scenario(t, withUsual(replace(promised, "MORE", `risk.max_wrong_rate: "0.1", risk.refit: "`+refit+`"`, `risk.max_wrong_rate: "0.2", `, "", "faults: [{at: 10m, pool: draft, backend: all, drift: {divergence: 0.7}}FAULT]", "")))
		l, err := newLab(s, &s.Cases[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	off, auto := played("off"), played("auto")
	if off.values.Tiers.Risk.ScoreVersion != 0 || off.refits.says() != "" {
		t.Errorf("off: %s", off.refits.says())
	}
	if auto.values.Tiers.Risk.ScoreVersion == 0 {
		t.Fatalf("auto: %s", auto.refits.says())
	}
	was, is := off.result().Row(), auto.result().Row()
	t.Logf("served %.3f, with refits %.3f; %s", was.Served, is.Served, auto.refits.says())
	if is.Served <= was.Served || is.AboveBefore > 0 {
		t.Errorf("served %v, with refits %v, above ε for %v of the time", was.Served, is.Served, is.AboveBefore)
	}
}

func TestTheLogOfAuditsKeepsTheNewest(t *testing.T) {
	var a auditLog
	for i := range maxLog + 10 {
		ticket := string(rune(i + 'a'))
		a.opened(risk.Audit{Decision: risk.Decision{}, Ticket: ticket, Tokens: i}, time.Unix(int64(i), 0))
		if i%2 == 0 {
			a.closed(ticket, i%4 == 0)
		}
	}
	a.closed("a", true)               // it was closed, and is gone
	a.closed(string(rune('b')), true) // it is gone
	if n := len(a.entries); n != maxLog-maxLog/10+10 || a.entries[n-1].Tokens != maxLog+9 {
		t.Fatalf("%d entries", n)
	}
	for _, e := range a.entries {
		want := "lost"
		if e.Tokens%2 == 0 {
			if want = "good"; e.Tokens%4 == 0 {
				want = "bad"
			}
		}
		if e.Label != want {
			t.Fatalf("audit %d is %s, want %s", e.Tokens, e.Label, want)
		}
	}
}
