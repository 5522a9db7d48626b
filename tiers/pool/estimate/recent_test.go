package estimate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sample is a request as the plain model of recent knows it.
type sample struct {
	at time.Time
	t  Totals
}

// start is when the accounts of these tests begin.
var start = time.Unix(1_800_000_000, 0)

// aRecent is one as an account makes it, and a time some hours after.
func aRecent() (*recent, time.Time) {
	a := NewAccount(start)
	return &a.recent, start.Add(5 * time.Hour)
}

// numbered counts slices: those of an account begin at its start, as these.
func numbered(at time.Time) int64 {
	return at.Sub(start).Nanoseconds() / int64(slice)
}

// model is recent without slices that come round: all leases, one by one.
type model struct {
	live   []sample
	since  int64
	newest int64
}

func (m *model) sum() (t Totals) {
	for _, l := range m.live {
		if numbered(l.at) >= m.since {
			t.add(l.t)
		}
	}
	return t
}

func aTally(rng *rand.Rand) Totals {
	return Totals{Requests: 1, Queued: rng.IntN(5000), PromptTokens: rng.IntN(5000), Tokens: rng.IntN(9000)}
}

func TestOwnRequestsSinceAReadingOfAnyAgeAreThoseOfAPlainList(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r, now := aRecent()
		var m model
		now = now.Add(time.Duration(rng.IntN(1e9)))
		for i := range 3000 {
			step := time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond))
			if rng.IntN(300) == 0 {
				step = time.Duration(rng.IntN(20_000)) * time.Millisecond // slices come round
			}
			now = now.Add(step)
			switch op := rng.IntN(10); {
			case op < 5:
				at := now
				if rng.IntN(4) == 0 { // the clock went back a little
					at = at.Add(-time.Duration(rng.IntN(300)) * time.Millisecond)
				}
				l := sample{at, aTally(rng)}
				if numbered(at) <= m.newest-kept {
					continue
				}
				r.start(l.t, at)
				m.live = append(m.live, l)
				m.newest = max(m.newest, numbered(at))
			case op < 8 && len(m.live) > 0:
				at := rng.IntN(len(m.live))
				l := &m.live[at]
				if rng.IntN(3) == 0 { // a part of it: its first token came
					first := Totals{Queued: l.t.Queued}
					r.end(first, l.at)
					l.t.sub(first)
					continue
				}
				r.end(l.t, l.at)
				m.live = slices.Delete(m.live, at, at+1)
			case op == 8:
				at := now.Add(-time.Duration(rng.IntN(9000)) * time.Millisecond)
				r.read(at)
				m.since = max(numbered(at), m.newest-kept+1)
			}
			if got, want := r.sum, m.sum(); got != want {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, i, got, want)
			}
		}
	}
}

func TestAClockThatJumpsLeavesNothingBehind(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, -7 * time.Second, 7 * time.Second} {
		r, now := aRecent()
		var live []sample
		begin := func() {
			l := sample{now, Totals{Requests: 1, Queued: 10, PromptTokens: 10, Tokens: 10}}
			r.start(l.t, now)
			live = append(live, l)
		}
		end := func() {
			r.end(live[0].t, live[0].at)
			live = live[1:]
		}
		for range 20 {
			now = now.Add(100 * time.Millisecond)
			begin()
		}
		now = now.Add(jump)
		for i := range 2000 {
			now = now.Add(30 * time.Millisecond)
			begin()
			end()
			if r.sum.Requests < 0 || r.sum.Requests > 40 {
				t.Fatalf("jump %v: %d requests of 20 under way", jump, r.sum.Requests)
			}
			if i%16 == 0 {
				r.read(now.Add(-200 * time.Millisecond))
			}
		}
		r.read(now)
		for len(live) > 0 {
			end()
		}
		now = now.Add(time.Second)
		if r.read(now); r.sum != (Totals{}) {
			t.Errorf("jump %v: left behind %+v", jump, r.sum)
		}
	}
}
