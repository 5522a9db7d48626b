package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

func TestWhatManyReplicasAuditAtOnceAddsUp(t *testing.T) {
	s := redistest.Start(t)
	first := join(t, s.Addr)
	rule := plain
	rule.LeaseAudits, rule.DriftRunLength = 100000, 1e6 // nothing expires and nothing alarms
	first.by(rule)
	first.teach()
	const replicas, each = 4, 150
	var bad, left atomic.Int64
	var wg sync.WaitGroup
	for n := range replicas {
		r := join(t, s.Addr)
		r.by(rule)
		r.fold()
		for half := range 2 {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(half)))
			wg.Go(func() {
				for i := range each {
					ticket := fmt.Sprintf("r%d-%d-%d", n, half, i)
					fate, err := r.Open(context.Background(), risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: ticket, Score: 1})
					if err != nil || fate != risk.Opened {
						t.Errorf("open: %s, %v", fate, err)
						return
					}
					switch rng.IntN(10) {
					case 0: // its replica died
						left.Add(1)
						continue
					case 1:
						bad.Add(1)
						err = r.Close(context.Background(), chat, ticket, true)
					default:
						err = r.Close(context.Background(), chat, ticket, false)
					}
					if err != nil {
						t.Errorf("close: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	w := first.state()
	sound(t, w)
	e := w.Epochs[0]
	if e.Audits != replicas*2*each || e.N[0] != e.Audits || e.K[0] != int(bad.Load()+left.Load()) || e.O[0] != int(left.Load()) || len(w.Tickets) != int(left.Load()) {
		t.Errorf("%d audits, %d bad, %d open; not %d, %d", e.N[0], e.K[0], e.O[0], bad.Load()+left.Load(), left.Load())
	}
}

func TestAReplicaServesByWhatAnotherCertifiedASecondLater(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := join(t, s.Addr), join(t, s.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	defer func() { cancel(); wg.Wait() }()
	a.certify()
	began := time.Now()
	redistest.Within(t, 20*time.Second, "the other serves, too", func() bool { return b.View(chat).Serves() })
	if took := time.Since(began); took > 3*period {
		t.Errorf("after %v", took)
	}
	va, vb := a.View(chat), b.View(chat)
	if va.Seen, vb.Seen = (time.Time{}), (time.Time{}); va != vb {
		t.Errorf("%+v and %+v", va, vb)
	}
	// What one replica opened another may close, and only once.
	a.open("x", 1)
	b.close("x", false)
	a.close("x", false)
	if a.counted(risk.Lost) != 1 || b.counted(risk.Good) != 1 {
		t.Errorf("closed %d times here, %d there", a.counted(risk.Good), b.counted(risk.Good))
	}
	sound(t, a.state())
}

// serves reports whether a replica serves drafts of an application, in a mix of two.
func (r *replica) serves(application string) bool {
	limit := r.State(chat).Limit(&risk.Sketch{Total: 100, Counts: map[string]int{"acme/good": 50, "acme/bad": 50}})
	return limit.Of(r.View(chat), application).Serves()
}

func TestReplicasShowTheSameApplicationsAndServeWhatIsCertifiedAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := []*replica{join(t, s.Addr), join(t, s.Addr), join(t, s.Addr)}
	for _, r := range all {
		r.Economics = func(risk.Key) risk.Economics { return risk.Economics{} }
	}
	all[0].teach()
	for i := range 300 {
		r, of, ticket := all[i%3], []string{"acme/good", "acme/bad"}[i%2], fmt.Sprint("t", i)
		if i < 3 {
			r.fold()
		}
		d := r.View(chat).Decide(chat, risk.Sampling{Rate: 1, FullRange: 1}, 0)
		if fate, err := r.Open(t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: 1, Application: of}); err != nil || fate != risk.Opened {
			t.Fatalf("open: %s, %v", fate, err)
		}
		if i < 290 || r != all[2] { // the third replica dies
			r.close(ticket, of == "acme/bad")
		}
	}
	var tables [][]risk.Application
	for _, r := range all { // each second
		r.fold()
		table, err := r.Applications(t.Context())
		if err != nil || !r.serves("acme/good") || r.serves("acme/bad") {
			t.Errorf("%v; good ones are served: %v, bad ones %v", err, r.serves("acme/good"), r.serves("acme/bad"))
		}
		tables = append(tables, table)
	}
	if diff := cmp.Diff(tables[0], tables[1]) + cmp.Diff(tables[0], tables[2]); diff != "" || len(tables[0]) != 2 {
		t.Errorf("%d applications: %s", len(tables[0]), diff)
	}
	s.Freeze()
	all[0].later(time.Minute + time.Second)
	if all[0].serves("acme/good") || !all[1].serves("acme/good") {
		t.Error("while Redis is frozen, what is known holds for a minute")
	}
	s.Thaw()
	s.Do("FLUSHALL")
	for _, r := range all {
		if _ = r.Tick(t.Context()); r.serves("acme/good") {
			t.Error("served by a log that is gone")
		}
	}
}

// TestAReplicaThatJoinsLateComesToTheSameState fills a log until it is trimmed behind the snapshots.
func TestAReplicaThatJoinsLateComesToTheSameState(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	first := r.raw.XRangeN(t.Context(), keyLog+chat.Route, "-", "+", 1).Val()[0].ID
	for i := 0; i < 3*saveEvery; i += 2 {
		r.audit(1, 100, 1)
		if i%100 == 0 {
			r.fold() // may write a snapshot
		}
	}
	for range 100 {
		r.fold()
	}
	saved := r.raw.XRange(t.Context(), keySnapshot+chat.Route, "-", "+").Val()
	if len(saved) != 1 || r.fold().Unsaved >= saveEvery {
		t.Fatalf("%d snapshots, the last one %d entries ago", len(saved), r.fold().Unsaved)
	}
	// An older snapshot never replaces a newer one.
	if err := r.Store.log.Save(t.Context(), chat.Route, &risk.Fold{Last: risk.ID{MS: 1, Seq: 0}}); err != nil {
		t.Fatal(err)
	}
	if now := r.raw.XRange(t.Context(), keySnapshot+chat.Route, "-", "+").Val(); len(now) != 1 || now[0].ID != saved[0].ID {
		t.Fatalf("%v", now)
	}
	if n := r.raw.XTrimMinID(t.Context(), keyLog+chat.Route, saved[0].ID).Val(); n == 0 {
		t.Fatal("nothing was trimmed")
	}
	if now := r.raw.XRangeN(t.Context(), keyLog+chat.Route, "-", "+", 1).Val()[0].ID; now == first {
		t.Fatal("the beginning is there")
	}
	late := join(t, s.Addr)
	want, _ := json.Marshal(r.fold())
	if got, _ := json.Marshal(late.fold()); string(got) != string(want) {
		t.Errorf("%s, not %s", got, want)
	}
	if !late.View(chat).Serves() {
		t.Error("it serves nothing")
	}
}
