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

	"github.com/redis/go-redis/v9"

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

// TestAnAuditCosts counts what an audit costs Redis: two round trips, and what a busy route writes in an hour.
func TestAnAuditCosts(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	hook := &counter{}
	r.raw.AddHook(hook)
	const audits = 200
	before := r.raw.MemoryUsage(t.Context(), keyLog+chat.Route, 0).Val()
	hook.commands, hook.trips = 0, 0
	for i := range audits {
		a := risk.Audit{
			Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: fmt.Sprintf("ABCDEFGHIJKLMNOPQRSTUV%04d", i), Score: .97,
			Features: []float64{-.123456789012345, -1.23456789012345, -.0123456789012345, -2.34567890123456, -3.45678901234567}, Tokens: 312, Request: "0123456789abcdef0123456789abcdef",
		}
		a.Chance = .05
		if fate, err := r.Open(t.Context(), a); err != nil || fate != risk.Opened {
			t.Fatal(fate, err)
		}
		r.close(a.Ticket, false)
	}
	if hook.trips != 2*audits || hook.commands != 4*audits {
		t.Errorf("%d audits took %d round trips and %d commands", audits, hook.trips, hook.commands)
	}
	bytes := (r.raw.MemoryUsage(t.Context(), keyLog+chat.Route, 0).Val() - before) / audits
	t.Logf("%d bytes an audit, %.1f MB in an hour of one a second", bytes, float64(bytes)*3600/1e6)
	if most := int64(64 << 20); bytes/2*maxEntries > most/2 {
		t.Errorf("a full log of such audits has %d bytes", bytes/2*maxEntries)
	}
}

// counter counts round trips and commands.
type counter struct{ trips, commands int }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.trips++; c.commands++; return next(ctx, cmd) }
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.trips++
		c.commands += len(cmds)
		return next(ctx, cmds)
	}
}
