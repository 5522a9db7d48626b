package evidence

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	var booked, bad, left atomic.Int64
	var wg sync.WaitGroup
	for n := range replicas {
		r := join(t, s.Addr)
		r.by(rule)
		r.tick(t.Context())
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
					booked.Add(1)
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
	sound(t, w.State)
	e := w.Epochs[0]
	if e.Audits != int(booked.Load()) || e.N[0] != e.Audits || e.K[0] != int(bad.Load()+left.Load()) || e.O[0] != int(left.Load()) || e.Audits != replicas*2*each {
		t.Errorf("%d audits, %d bad, %d open; not %d, %d, %d", e.N[0], e.K[0], e.O[0], booked.Load(), bad.Load()+left.Load(), left.Load())
	}
	if n := first.raw.HLen(t.Context(), keyRisk+chat.String()).Val(); int(n) != len(names)+int(left.Load()) {
		t.Errorf("%d fields with %d audits under way", n, left.Load())
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
	if a.counted(Lost) != 1 || b.counted(Good) != 1 {
		t.Errorf("closed %d times here, %d there", a.counted(Good), b.counted(Good))
	}
	sound(t, a.state().State)
}

func TestAuditsThatAreLostAreForgottenByRedisClock(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	rule := plain
	rule.LeaseAudits = 5000
	r.by(rule)
	r.teach()
	name := keyRisk + chat.String()
	old, young := time.Now().Unix()-openFor-5, time.Now().Unix()-openFor+60
	for i := range maxOpen {
		born := old
		if i%2 == 0 {
			born = young
		}
		if err := r.raw.HSet(t.Context(), name, fmt.Sprint("t:left-", i), fmt.Sprintf("1 3 0 %d 1", born)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.later(-24 * time.Hour) // a replica's clock says nothing
	if fate := r.open("new", 1); fate != risk.Opened {
		t.Errorf("open: %s", fate)
	}
	if n := r.raw.HLen(t.Context(), name).Val(); int(n) != len(names)+maxOpen/2+1 {
		t.Errorf("%d fields", n)
	}
	for i := range maxOpen/2 - 1 {
		r.open(fmt.Sprint("more-", i), 1)
	}
	if fate := r.open("one-too-many", 1); fate != risk.Full {
		t.Errorf("of %d under way: %s", maxOpen, fate)
	}
	sound(t, r.state().State)
}

// maxOpen and openFor are those of package risk.
const maxOpen, openFor = 1024, 900

func TestKeysThatNobodyUsesGoAndNoMoreComeThanFit(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	ctx := t.Context()
	now := float64(time.Now().Unix())
	put := func(i int, age time.Duration) string {
		k := risk.Key{Route: fmt.Sprint("route-", i), TrafficClass: "b"}
		r.raw.ZAdd(ctx, keyIndex, redisZ(now-age.Seconds(), k.String()))
		r.raw.HSet(ctx, keyRisk+k.String(), "eps", "0.2")
		return k.String()
	}
	gone, kept := put(0, keptFor+time.Minute), put(1, keptFor-time.Minute)
	r.tidy(ctx)
	if r.raw.Exists(ctx, keyRisk+gone).Val() != 0 || r.raw.Exists(ctx, keyRisk+kept).Val() != 1 || r.raw.ZCard(ctx, keyIndex).Val() != 1 {
		t.Error("not the key went that nobody used for a week")
	}
	for i := 1; i <= maxKeys; i++ {
		put(i, time.Minute*time.Duration(i%50))
	}
	if fate := r.open("t", 1); fate != risk.Full {
		t.Errorf("one key too many is %s", fate)
	}
	if r.raw.Exists(ctx, keyRisk+chat.String()).Val() != 0 {
		t.Error("it was made all the same")
	}
	put(7, fullFor+time.Minute)
	r.tidy(ctx)
	if fate := r.open("t", 1); fate != risk.Learned {
		t.Errorf("once there is room it is %s", fate)
	}
}
