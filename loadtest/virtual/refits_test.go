package virtual

import (
	"testing"
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
		s := scenario(t, withUsual(replace(promised, "MORE", `risk.max_disagreement: "0.1", risk.refit: "`+refit+`"`, `risk.max_disagreement: "0.2", `, "", "faults: [{at: 10m, pool: draft, backend: all, drift: {divergence: 0.7}}FAULT]", "")))
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
	if off.values.Tiers.Accept.ScoreVersion() != 0 || off.refits.says() != "" {
		t.Errorf("off: %s", off.refits.says())
	}
	if auto.values.Tiers.Accept.ScoreVersion() == 0 {
		t.Fatalf("auto: %s", auto.refits.says())
	}
	was, is := off.result().Row(), auto.result().Row()
	t.Logf("served %.3f, with refits %.3f; %s", was.Served, is.Served, auto.refits.says())
	if is.Served <= was.Served || is.AboveBefore > 0 {
		t.Errorf("served %v, with refits %v, above ε for %v of the time", was.Served, is.Served, is.AboveBefore)
	}
}
