package estimate

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// walked is an account that a test works on at random, beside a plain list of what it must hold.
type walked struct {
	Account
	t    *testing.T
	rng  *rand.Rand
	now  time.Time
	open []*Request
	over []*Request // some that have ended
}

// step does one of the things that can happen to an account.
func (w *walked) step(op byte) {
	w.now = w.now.Add(time.Duration(w.rng.ExpFloat64() * float64(20*time.Millisecond)))
	switch {
	case op < 90 || len(w.open) == 0:
		r := &Request{Began: w.now.Add(-time.Duration(w.rng.IntN(100)) * time.Millisecond), Output: w.rng.IntN(500), Whole: w.rng.IntN(3) == 0}
		prompt, cached := w.rng.IntN(5000), w.rng.IntN(5000)
		r.Shared = w.rng.IntN(prompt + 1)
		for i := range r.Parts {
			r.Parts[i] = prefix.Part{Key: prefix.Key(w.rng.IntN(4)), Share: w.rng.Float64()}
		}
		held := prompt - r.Shared
		w.Start(r, Totals{Requests: 1, Waiting: 1, Queued: max(prompt-cached, 0), PromptTokens: held, Tokens: held + w.rng.IntN(300)})
		w.open = append(w.open, r)
	case op < 130:
		w.FirstToken(w.any(), w.now)
	case op < 170:
		w.Count(w.any(), w.rng.IntN(6000))
	case op < 190:
		w.Read(w.now.Add(-time.Duration(w.rng.IntN(5000)) * time.Millisecond))
	case op < 200:
		w.any().CountToken()
	default:
		i := w.rng.IntN(len(w.open))
		w.End(w.open[i])
		w.over = append(w.over[max(0, len(w.over)-3):], w.open[i])
		w.open = slices.Delete(w.open, i, i+1)
	}
}

// any is a request in flight, or now and then one that has ended: nothing must come of that.
func (w *walked) any() *Request {
	if len(w.over) > 0 && w.rng.IntN(4) == 0 {
		r := w.over[w.rng.IntN(len(w.over))]
		w.End(r)
		return r
	}
	return w.open[w.rng.IntN(len(w.open))]
}

// check compares the account with the list.
func (w *walked) check() {
	w.t.Helper()
	var all, recent Totals
	using := map[prefix.Key]int{}
	for _, r := range w.open {
		all.add(r.Totals())
		if w.recent.slice(r.Began) >= w.recent.since {
			recent.add(r.Totals())
		}
		for _, part := range r.Parts {
			if part.Key != 0 {
				using[part.Key]++
			}
		}
	}
	if *w.All() != all || *w.Recent() != recent {
		w.t.Fatalf("counted %+v and %+v, want %+v and %+v", w.All(), w.Recent(), all, recent)
	}
	for _, c := range []Totals{all, recent} {
		if c.Requests < 0 || c.Waiting < 0 || c.Queued < 0 || c.PromptTokens < 0 || c.Tokens < 0 {
			w.t.Fatalf("less than nothing: %+v", c)
		}
	}
	if !maps.Equal(w.using, using) {
		w.t.Fatalf("prefixes in use %v, want %v", w.using, using)
	}
	if len(w.Requests()) != len(w.open) {
		w.t.Fatalf("%d requests are kept, %d are in flight", len(w.Requests()), len(w.open))
	}
	for i, r := range w.Requests() {
		if r.index != i || r.IsEnded() {
			w.t.Fatalf("place %d: %+v", i, r)
		}
	}
	f := w.forecast.of(w.requests, w.now, speed)
	if f.growth < 0 || f.partly < 0 || f.beginning < 0 || f.beginning > len(w.open) || w.Uncomputed(w.now, 4000) < 0 {
		w.t.Fatalf("forecast %+v", *f)
	}
}

// walk has such things happen in this order, ends all requests, and looks that nothing is left.
func walk(t *testing.T, seed uint64, ops []byte) {
	w := &walked{Account: NewAccount(start), t: t, rng: rand.New(rand.NewPCG(seed, 5)), now: start.Add(time.Hour)}
	for _, op := range ops {
		w.step(op)
		w.check()
	}
	for len(w.open) > 0 {
		w.step(255)
		w.check()
	}
	if *w.All() != (Totals{}) || *w.Recent() != (Totals{}) || len(w.using) > 0 {
		t.Fatalf("left: %+v, %+v, %v", w.All(), w.Recent(), w.using)
	}
	for _, r := range w.requests[:cap(w.requests)] {
		if r != nil {
			t.Fatal("a request that is over is kept")
		}
	}
}

func TestWhatIsTakenIsGivenBackInAnyOrder(t *testing.T) {
	ops := make([]byte, 400)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 6))
		for i := range ops {
			ops[i] = byte(rng.IntN(256))
		}
		walk(t, seed, ops)
	}
}

func TestAPromptThatWasCountedIsPutRight(t *testing.T) {
	for name, c := range map[string]struct {
		shared, counted int
		first           bool // the first token came before
		want            Totals
	}{
		"longer":                      {0, 1500, false, Totals{1, 1, 1500, 1500, 1550}},
		"shorter":                     {0, 400, false, Totals{1, 1, 400, 400, 450}},
		"longer, after first token":   {0, 1500, true, Totals{1, 0, 0, 1500, 1550}},
		"shorter than what is shared": {600, 500, false, Totals{1, 1, 600, 0, 50}},
	} {
		a := NewAccount(start)
		r := &Request{Began: start, Shared: c.shared}
		a.Start(r, Totals{1, 1, 1000, 1000 - c.shared, 1050 - c.shared})
		if c.first {
			a.FirstToken(r, start)
		}
		if a.Count(r, c.counted); *a.All() != c.want || *a.Recent() != c.want {
			t.Errorf("%s: %+v and %+v, want %+v", name, a.All(), a.Recent(), c.want)
		}
	}
}
