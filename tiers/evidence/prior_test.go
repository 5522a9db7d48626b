package evidence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

func xadd(values ...string) *redis.XAddArgs { return &redis.XAddArgs{Stream: keyLog, Values: values} }

// entries are n audits of long ago, every every-th bad and low, with scores from 0 to 1.
func entries(n, every int) []LogEntry {
	rng := rand.New(rand.NewPCG(7, 7))
	out := make([]LogEntry, n)
	for i := range out {
		label, score := Good, rng.Float64()
		if i%every == every-1 {
			score *= .3
			label = []string{Bad, Lost}[i/every%2]
		}
		out[i] = LogEntry{When: time.Unix(1700000000+int64(i), 0), Key: chat, Threshold: 1e9, Chance: 1, Ticket: fmt.Sprint("p-", i), Score: score, Floor: -1, Label: label}
	}
	return out
}

func TestAnImportedLogIsEvidenceAsTheStateReckonsIt(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		old := entries(500, 100)
		im, err := r.Import(t.Context(), chat, old)
		if err != nil {
			t.Fatal(err)
		}
		var alone risk.State
		var past []risk.PastAudit
		for _, e := range old {
			past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != Good})
		}
		p := risk.PlanImport(plain, nil, past)
		alone.ApplyImport(plain, p, time.Now())
		alone.Version = r.state().Version
		if d := differ(alone, r.state().State); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(p, im); d != "" || im.Audits != plain.LeaseAudits || alone.Op == 0 {
			t.Errorf("operating index %d, %d audits, %s", alone.Op, im.Audits, d)
		}
		sound(t, r.state().State)
		// Requests go by it at once, and its audits go on.
		if r.raw != nil {
			r.tick(t.Context())
		}
		if v := r.View(chat); v.Op != alone.Op {
			t.Errorf("%+v", v)
		}
		r.audit(plain.LeaseAudits/2-1, 0, 1)
		if !r.View(chat).Serves() || r.state().Epochs[0].ID != 1 {
			t.Error("it is over before half a lease")
		}
		r.audit(1, 0, 1)
		if r.state().Epochs[0].ID == 1 {
			t.Error("it is not over after half a lease")
		}
	})
}

func TestAuditsAreImportedWhereThereIsNoEvidenceAndOnce(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		r.certify()
		var own []LogEntry
		if err := r.Log(t.Context(), func(e LogEntry) error { own = append(own, e); return nil }); err != nil || len(own) != 60 {
			t.Fatalf("%d, %v", len(own), err)
		}
		was := r.state()
		if im, err := r.Import(t.Context(), chat, entries(500, 100)); !errors.Is(err, ErrKnown) {
			t.Errorf("%+v, %v", im, err)
		}
		if d := differ(was.State, r.state().State); d != "" {
			t.Error(d)
		}
		// Another gateway takes it, once.
		other := join(t, "")
		other.by(plain)
		if im, err := other.Import(t.Context(), chat, entries(500, 100)); err != nil || im.Audits != plain.LeaseAudits || !other.View(chat).Serves() {
			t.Errorf("%+v, %v", im, err)
		}
		if _, err := other.Import(t.Context(), chat, entries(500, 100)); !errors.Is(err, ErrKnown) {
			t.Errorf("the same again: %v", err)
		}
		// What certified was forgotten by an alarm, and is not to come back.
		for i := 0; r.state().Alarm == 0; i++ {
			r.audit(1, 1, 1)
			if i > 100 {
				t.Fatal("no alarm")
			}
		}
		if im, err := r.Import(t.Context(), chat, entries(500, 100)); !errors.Is(err, ErrKnown) {
			t.Errorf("%+v, %v", im, err)
		}
	})
}

func TestAuditsThatCountForNothingAreNotImported(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		chosen := entries(500, 100)
		for i := range chosen {
			chosen[i].Chance = 0
		}
		for what, entries := range map[string][]LogEntry{"few": entries(risk.GridScores-1, 100), "none": nil, "not drawn at random": chosen} {
			if _, err := r.Import(t.Context(), chat, entries); !errors.Is(err, ErrNoUse) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if w := r.state(); w.Version != 0 || len(w.Epochs) != 0 {
			t.Errorf("something was taken: %+v", w)
		}
	})
}
