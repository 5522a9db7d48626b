package pool

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// began is when the requests of these tests begin.
var began = time.Unix(1_800_000_000, 0)

// walked is an account that a test works on at random, beside a plain list of what it must hold.
type walked struct {
	account
	t    *testing.T
	rng  *rand.Rand
	now  time.Time
	open []*Lease
}

// step does one of the things that can happen to an account.
func (w *walked) step(op byte) {
	w.now = w.now.Add(time.Duration(w.rng.ExpFloat64() * float64(20*time.Millisecond)))
	if op < 90 || len(w.open) == 0 {
		l := &Lease{start: w.now.Add(-time.Duration(w.rng.IntN(100)) * time.Millisecond), answers: 1, output: w.rng.IntN(500), whole: w.rng.IntN(3) == 0}
		prompt := w.rng.IntN(5000)
		l.shared = w.rng.IntN(prompt + 1)
		for i := range l.parts {
			l.parts[i] = prefix.Part{Key: prefix.Key(w.rng.IntN(4)), Share: w.rng.Float64()}
		}
		l.totals = totals{requests: 1, waiting: 1, queued: w.rng.IntN(prompt + 1), prompt: prompt - l.shared}
		w.begin(l)
		w.open = append(w.open, l)
		return
	}
	i := w.rng.IntN(len(w.open))
	switch l := w.open[i]; {
	case op < 130:
		w.firstToken(l, w.now)
	case op < 170:
		w.correct(l, w.rng.IntN(6000))
	case op < 190:
		w.noteRead(w.now.Add(-time.Duration(w.rng.IntN(5000))*time.Millisecond), began)
	default:
		w.end(l)
		w.correct(l, 77) // nothing comes of that
		w.open = slices.Delete(w.open, i, i+1)
	}
}

// check compares the account with the list.
func (w *walked) check() {
	w.t.Helper()
	var all, recent totals
	using := map[prefix.Key]int{}
	for _, l := range w.open {
		all.add(l.totals, 1)
		if w.isRecent(l) {
			recent.add(l.totals, 1)
		}
		for _, part := range l.parts {
			if part.Key != 0 {
				using[part.Key]++
			}
		}
	}
	if w.all != all || w.recent != recent || !maps.Equal(w.using, using) || len(w.leases) != len(w.open) {
		w.t.Fatalf("counted %+v, want %+v, %+v, %v", w.account, all, recent, using)
	}
	if g := w.growth.of(w.leases, w.now, speed); g.tokens < 0 || g.partly < 0 || g.beginning > len(w.open) || w.uncomputed(w.now, 4000) < 0 {
		w.t.Fatalf("%+v", *g)
	}
}

func TestWhatIsTakenIsGivenBackInAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		w := &walked{account: account{using: map[prefix.Key]int{}}, t: t, rng: rand.New(rand.NewPCG(seed, 5)), now: began.Add(time.Hour)}
		for range 400 {
			w.step(byte(w.rng.IntN(256)))
			w.check()
		}
		for len(w.open) > 0 {
			w.step(255)
			w.check()
		}
	}
}

func TestARequestThatBeganInTheSliceOfAReadingIsNotInIt(t *testing.T) {
	a := account{using: map[prefix.Key]int{}}
	for _, ms := range []int{0, 49, 50, 99, 100} {
		a.begin(&Lease{start: began.Add(time.Duration(ms) * time.Millisecond), totals: totals{requests: 1}})
	}
	for ms, want := range map[int]int{-5: 5, 0: 5, 49: 5, 50: 3, 80: 3, 100: 1, 150: 0} {
		if a.noteRead(began.Add(time.Duration(ms)*time.Millisecond), began); a.recent.requests != want {
			t.Errorf("a reading at %d ms leaves out %d requests, want %d", ms, a.recent.requests, want)
		}
	}
}

func TestARequestThatBeganInTheStepBeforeAReadingIsNotInIt(t *testing.T) {
	b := backend{joined: began, account: account{using: map[prefix.Key]int{}}, health: monitor{base: began}}
	take := func(ms int, iterations float64) {
		t.Helper()
		b.take(pressure.Reading{At: began.Add(time.Duration(ms) * time.Millisecond), Iterations: iterations}, new(estimate.UnitCosts))
	}
	take(0, 100)
	for i, c := range []struct {
		starts, reading int // a request's begin and a reading, ms
		iterations      float64
		want            int // requests that the reading leaves out
	}{
		{50, 500, 100, 1},   // the step has not ended: the reading tells of the engine before it
		{550, 1000, 101, 1}, // one step, which began at 500 ms
		{1200, 1500, 101, 2},
		{1960, 2000, 111, 1}, // steps of 50 ms
		{2010, 2500, 100, 0}, // it has restarted: the reading says all that it has
	} {
		b.account.begin(&Lease{start: began.Add(time.Duration(c.starts) * time.Millisecond), totals: totals{requests: 1, waiting: 1}})
		if take(c.reading, c.iterations); b.account.recent.requests != c.want {
			t.Errorf("reading %d leaves out %d requests, want %d", i, b.account.recent.requests, c.want)
		}
	}
}
