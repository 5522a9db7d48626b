package evidence

import (
	"testing"

	"github.com/foregate/foregate/tiers/risk"
)

func TestARecordIsReplacedOnlyWhileItIsTheOneThatWasRead(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		ctx := t.Context()
		for _, c := range []struct {
			was, next string
			done      bool
		}{{"", "a", true}, {"", "b", false}, {"b", "c", false}, {"a", "b", true}} {
			if done, err := r.WriteRefit(ctx, "org/chat", c.was, c.next); err != nil || done != c.done {
				t.Errorf("%q to %q: %v, %v", c.was, c.next, done, err)
			}
		}
		if got := r.Refit("org/chat"); got != "b" || r.Refit("other") != "" {
			t.Errorf("%q", got)
		}
		if _, err := r.WriteRefit(ctx, "", "", "x"); err == nil {
			t.Error("a record of no route was written")
		}
		if _, err := r.WriteRefit(ctx, "r", "", string(make([]byte, maxRecord+1))); err == nil {
			t.Error("a record without end was written")
		}
	})
}

// pastOf are audits of scores from 0 to 1 of which the every-th is bad.
func pastOf(n, every int) []risk.LogEntry {
	past := make([]risk.LogEntry, n)
	for i := range past {
		past[i].Score, past[i].Floor, past[i].Label = float64(i%100+1)/100, -risk.Unreachable, risk.LabelOf(i%every == 0)
	}
	return past
}

func TestPastAuditsOpenAKeyThatHasNoEvidenceAndNoOther(t *testing.T) {
	grid := risk.Grid{.8, .6, .4, .2}
	stores(t, func(t *testing.T, r *replica) {
		certify := func(failed, audits int) (bool, risk.State) {
			t.Helper()
			p := risk.PlanImport(plain, grid, pastOf(audits, 50))
			p.Failed = failed
			done, err := r.Certify(t.Context(), chat, p)
			if err != nil {
				t.Fatal(err)
			}
			return done, r.state()
		}
		done, s := certify(0, 200)
		if !done || s.Op == 0 || len(s.Grid) != 4 {
			t.Fatalf("opened %v, index %d", done, s.Op)
		}
		if again, _ := certify(0, 200); again {
			t.Error("evidence was added to a key that had some")
		}
		if err := r.Reset(t.Context(), chat); err != nil {
			t.Fatal(err)
		}
		done, s = certify(9, 200)
		if turn := s.Epochs[0].Turn; !done || turn != 10 {
			t.Errorf("opened %v: the tenth policy has turn %d", done, turn)
		}
	})
}
