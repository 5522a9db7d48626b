package tiers

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

// backends are those of the attempts.
func (r *checkRig) backends() (ids []string) {
	for _, a := range r.attempts {
		ids = append(ids, a.Backend)
	}
	return ids
}

func TestTokensAreCountedByABackendThatWasNotLost(t *testing.T) {
	r := newCheckRig(t, "0").tells(9, "")
	all := r.target.Snapshot()
	for _, lost := range all {
		r.attempts = nil
		n := Counter{Lost: []string{lost.ID}}
		got, err := n.Count(context.Background(), r.asker.caller, r.asker.Target, []byte("one two three"))
		if err != nil || got != 3 || len(r.attempts) != 1 || r.attempts[0].Backend == lost.ID {
			t.Errorf("%d, %v, by %v; lost is %s", got, err, r.backends(), lost.ID)
		}
	}
	r.attempts = nil
	n := Counter{Lost: []string{all[0].ID, all[1].ID}}
	if got, err := n.Count(context.Background(), r.asker.caller, r.asker.Target, []byte("x")); err != nil || got != 3 {
		t.Errorf("where all were lost: %d, %v", got, err)
	}
}

func TestACountIsTriedElsewhereAndOnceMore(t *testing.T) {
	r := newCheckRig(t, "0").tells(9, "")
	well, lost := r.reply, r.target.Snapshot()[0].ID
	r.reply = func(a *engine.Attempt) error {
		if len(r.attempts) == 1 {
			return &engine.Failure{Kind: engine.Reset}
		}
		return well(a)
	}
	n := Counter{Lost: []string{lost}}
	got, err := n.Count(context.Background(), r.asker.caller, r.asker.Target, []byte("x"))
	if bs := r.backends(); err != nil || got != 3 || len(bs) != 2 || slices.Contains(bs, lost) {
		t.Errorf("%d, %v by %v: %s was lost, and the other is to be asked twice", got, err, bs, lost)
	}
	r.attempts = nil
	r.reply = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.Rejected, Status: 400} }
	if _, err := (&Counter{}).Count(context.Background(), r.asker.caller, r.asker.Target, []byte("x")); err == nil || len(r.attempts) != 1 {
		t.Errorf("what no backend would answer: %v by %v", err, r.backends())
	}
}

func TestAllCountsOfAContinuationShareTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCheckRig(t, "0")
		r.reply = func(a *engine.Attempt) error { // it hangs for as long as it may, or 1.5 s
			time.Sleep(min(a.FirstByteTimeout, 1500*time.Millisecond))
			return &engine.Failure{Kind: engine.Timeout}
		}
		var n Counter
		began := time.Now()
		for range 3 {
			if _, err := n.Count(t.Context(), r.asker.caller, r.asker.Target, []byte("x")); err == nil {
				t.Error("counted")
			}
		}
		if took := time.Since(began); took != FrontEndTimeout || len(r.attempts) != 2 {
			t.Errorf("%s for %d tries, want %s", took, len(r.attempts), FrontEndTimeout)
		}
	})
}
