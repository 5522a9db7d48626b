package evidence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
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
		p := alone.PlanImport(plain, past)
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

func TestNothingIsImportedTwice(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		old := entries(300, 100)
		if _, err := r.Import(t.Context(), chat, old); err != nil {
			t.Fatal(err)
		}
		was := r.state()
		if _, err := r.Import(t.Context(), chat, old); !errors.Is(err, ErrNothingNew) {
			t.Errorf("the same again: %v", err)
		}
		im, err := r.Import(t.Context(), chat, entries(301, 1000))
		if err == nil && im.Audits > 1 || err != nil && !errors.Is(err, ErrNoUse) {
			t.Errorf("the same and one more: %+v, %v", im, err)
		}
		if e := r.state().Epochs[0]; e.N[maxGrid-1] > was.Epochs[0].N[maxGrid-1]+1 {
			t.Errorf("%d audits after %d", e.N[maxGrid-1], was.Epochs[0].N[maxGrid-1])
		}
	})
}

func TestWhatTheGatewayAuditedItselfIsNotImported(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		r.certify()
		var own []LogEntry
		if err := r.Log(t.Context(), func(e LogEntry) error { own = append(own, e); return nil }); err != nil || len(own) != 60 {
			t.Fatalf("%d, %v", len(own), err)
		}
		was := r.state()
		if im, err := r.Import(t.Context(), chat, own); !errors.Is(err, ErrNothingNew) {
			t.Errorf("%+v, %v", im, err)
		}
		if d := differ(was.State, r.state().State); d != "" {
			t.Error(d)
		}
		// Another gateway takes it.
		other := join(t, "")
		other.by(plain)
		other.teach()
		if im, err := other.Import(t.Context(), chat, own); err != nil || im.Audits != 60 || im.Bad != 0 || !other.View(chat).Serves() {
			t.Errorf("%+v, %v", im, err)
		}
		// So does this one, once it has forgotten all.
		if err := r.Reset(t.Context(), chat); err != nil {
			t.Fatal(err)
		}
		r.teach()
		if im, err := r.Import(t.Context(), chat, own); err != nil || im.Audits != 60 || len(im.Grid) > 0 {
			t.Errorf("%+v, %v", im, err)
		}
		// What certified was forgotten by an alarm, and is not to come back.
		for i := 0; r.state().Alarm == 0; i++ {
			r.audit(1, 1, 1)
			if i > 100 {
				t.Fatal("no alarm")
			}
		}
		if im, err := r.Import(t.Context(), chat, own); !errors.Is(err, ErrNothingNew) {
			t.Errorf("%+v, %v", im, err)
		}
	})
}

func TestAuditsThatCountForNothingAreNotImported(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		if _, err := r.Import(t.Context(), chat, entries(risk.GridScores-1, 100)); !errors.Is(err, ErrNoUse) {
			t.Errorf("few: %v", err)
		}
		if _, err := r.Import(t.Context(), chat, nil); !errors.Is(err, ErrNothingNew) {
			t.Errorf("none: %v", err)
		}
		if w := r.state(); w.Version != 0 || len(w.Epochs) != 0 {
			t.Errorf("something was taken: %+v", w)
		}
		r.certify()
		low := entries(10, 100)
		for i := range low {
			low[i].Score = -5
		}
		if _, err := r.Import(t.Context(), chat, low); !errors.Is(err, ErrNoUse) {
			t.Errorf("below all thresholds: %v", err)
		}
		for i := range low {
			low[i].Score, low[i].Chance = 1, 0
		}
		if _, err := r.Import(t.Context(), chat, low); !errors.Is(err, ErrNothingNew) {
			t.Errorf("not drawn at random: %v", err)
		}
		r.audit(plain.LeaseAudits/2, 0, 1)
		for i := range low {
			low[i].Chance = 1
		}
		if _, err := r.Import(t.Context(), chat, low); !errors.Is(err, ErrNoUse) {
			t.Errorf("no room: %v", err)
		}
	})
}

func TestAnAuditBetweenReckoningAndTakingIsNotOverwritten(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.teach()
	w := r.state()
	log := entries(300, 100)
	p, err := reckon(w, log, plain)
	if err != nil {
		t.Fatal(err)
	}
	r.audit(10, 0, 1)
	done, err := r.add(t.Context(), plain, chat, p)
	if err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	if e := r.state().Epochs[0]; e.N[0] != p.N[0]+10 {
		t.Errorf("%d audits, not %d", e.N[0], p.N[0]+10)
	}
	if done, err := r.add(t.Context(), plain, chat, p); err != nil || done {
		t.Errorf("taken twice: %v, %v", done, err)
	}
	for i := 0; r.state().Alarm == 0; i++ {
		r.audit(1, 1, 1)
		if i > 100 {
			t.Fatal("no alarm")
		}
	}
	p.was = r.state().prior
	if done, err := r.add(t.Context(), plain, chat, p); err != nil || done {
		t.Errorf("taken after an alarm: %v, %v", done, err)
	}
}
