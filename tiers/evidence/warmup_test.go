package evidence

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

// pair tells the same to the scripts and to risk.State, and fails where they differ.
func pair(t *testing.T, addr string) *history {
	h := &history{t: t, rng: rand.New(rand.NewPCG(1, 2)), shared: join(t, addr), rule: plain, seen: map[string]int{}}
	h.shared.by(h.rule)
	if err := h.shared.Reset(t.Context(), chat); err != nil {
		t.Fatal(err)
	}
	return h
}

// audited opens an audit of a score, and closes it.
func (h *history) audited(ticket string, score float64, bad bool) {
	h.t.Helper()
	d, was := h.alone.View(h.rule).Decide(chat, risk.Sampling{Rate: 1}, 0), h.alone.Version
	want := h.alone.Open(h.rule, d, score, ticket, time.Now())
	got, err := h.shared.Open(h.t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: score})
	if err != nil || got != want {
		h.t.Fatalf("open %s: %s (%v), not %s", ticket, got, err, want)
	}
	if h.alone.Version != was {
		h.alone.Version = h.shared.state().Version
	}
	h.alone.Close(h.rule, ticket, bad)
	h.shared.close(ticket, bad)
}

// opened opens an audit of the warm-up.
func (h *history) opened(ticket string) (fate risk.OpenResult) {
	h.t.Helper()
	want := h.alone.OpenWarmup(h.rule, ticket, time.Now())
	got, err := h.shared.OpenWarmup(h.t.Context(), chat, ticket)
	if err != nil || got != want {
		h.t.Fatalf("open %s in the warm-up: %s (%v), not %s", ticket, got, err, want)
	}
	h.begun()
	return got
}

// learns places the grid.
func (h *history) learns() {
	h.t.Helper()
	for i := range risk.GridScores {
		h.audited(fmt.Sprint("learn-", i), float64(i+1)/risk.GridScores, false)
	}
}

// endings are the ways in which a warm-up ends, and what does not end it.
var endings = []struct {
	what  string
	ended risk.WarmupEnd
	tell  func(h *history)
}{
	{"certified", risk.WarmupCertified, func(h *history) {
		h.learns()
		for i := range 60 {
			h.audited(fmt.Sprint("a-", i), 1, false)
		}
	}},
	{"infeasible", risk.WarmupInfeasible, func(h *history) {
		h.learns()
		for i := range 30 {
			if h.alone.Warmup.Ended != risk.WarmupRuns {
				h.t.Fatalf("infeasible by %d outcomes", i)
			}
			h.audited(fmt.Sprint("a-", i), 1, true)
		}
	}},
	{"wrong", risk.WarmupWrong, func(h *history) {
		for i := range 8 {
			h.opened(fmt.Sprint("w-", i))
			h.alone.Close(h.rule, fmt.Sprint("w-", i), true)
			h.shared.close(fmt.Sprint("w-", i), true)
			h.same(i)
		}
	}},
	{"outcomes that never come", risk.WarmupWrong, func(h *history) {
		for i := 0; h.opened(fmt.Sprint("w-", i)) == risk.Opened; i++ {
			if i > 300 {
				h.t.Fatal("300 audits are open")
			}
		}
	}},
	{"good drafts alone", risk.WarmupRuns, func(h *history) {
		for i := range 40 {
			h.opened(fmt.Sprint("w-", i))
			h.alone.Close(h.rule, fmt.Sprint("w-", i), false)
			h.shared.close(fmt.Sprint("w-", i), false)
		}
	}},
}

func TestTheScriptsEndAWarmupAsTheStateDoes(t *testing.T) {
	for name, addr := range map[string]string{"redis": redistest.Start(t).Addr, "embedded": miniredis.RunT(t).Addr()} {
		for _, tc := range endings {
			t.Run(name+" "+tc.what, func(t *testing.T) {
				h := pair(t, addr)
				h.opened("first")
				tc.tell(h)
				h.same(0)
				if v := h.shared.View(chat); v.Warmup.Ended != tc.ended || h.alone.Warmup.Ended != tc.ended {
					t.Errorf("ended %d", v.Warmup.Ended)
				}
				h.rule.MaxWrongRate = .4 // another ε begins nothing anew
				h.shared.by(h.rule)
				h.alone.Close(h.rule, "unknown", false)
				h.shared.close("unknown", false)
				h.same(1)
				if v := h.shared.View(chat); tc.ended != risk.WarmupRuns && v.Warmup.Ended != tc.ended {
					t.Errorf("another ε: ended %d", v.Warmup.Ended)
				}
			})
		}
	}
}

func TestEpsilonThatChangesTenTimesInAMinuteIsNoEvidence(t *testing.T) {
	for name, addr := range map[string]string{"redis": redistest.Start(t).Addr, "embedded": miniredis.RunT(t).Addr()} {
		t.Run(name, func(t *testing.T) {
			h := pair(t, addr)
			h.opened("first")
			h.learns()
			for i := range 10 {
				h.rule.MaxWrongRate = []float64{.05, .2, .01, .3, .1}[i%5]
				h.shared.by(h.rule)
				for j := range 4 {
					h.audited(fmt.Sprint("a-", i, "-", j), 1, j%2 == 0)
					h.same(i)
					if v := h.shared.View(chat); v.Serves() || v.Infeasible || v.Warmup.Ended != risk.WarmupRuns {
						t.Fatalf("change %d: %+v", i, v)
					}
				}
			}
		})
	}
}

func TestAWarmupThatIsOverIsNotBegunAnewByARedisThatForgot(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	for i := range 8 {
		ticket := fmt.Sprint("w-", i)
		if fate, err := r.OpenWarmup(t.Context(), chat, ticket); err != nil || fate != risk.Opened {
			t.Fatal(fate, err)
		}
		r.close(ticket, true)
	}
	began := r.View(chat).Warmup
	if began.Ended != risk.WarmupWrong {
		t.Fatalf("%+v", began)
	}
	if err := r.raw.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r.tick(t.Context())
	if v := r.View(chat); v.Warmup.Ended != risk.WarmupWrong || v.Warmup.IsRunning(time.Now(), time.Hour) || v.Warmup.Began != began.Began || v.Version != 0 {
		t.Errorf("emptied: %+v", v)
	}
	if err := join(t, s.Addr).Reset(t.Context(), chat); err != nil {
		t.Fatal(err)
	}
	r.tick(t.Context())
	if v := r.View(chat); v.Warmup.Ended != risk.WarmupWrong || v.New {
		t.Errorf("reset by another: %+v", v)
	}
}

func TestAWarmupServesNothingWhileRedisTakesNoWord(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.Drafted(chat, 1, 1)
	r.tellDrafted(t.Context())
	r.tick(t.Context())
	if v := r.View(chat); v.Seen.IsZero() || v.Warmup.Began == 0 || v.Warmup.Served != 1 {
		t.Fatalf("%+v", v)
	}
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	r.Drafted(chat, 1, 1)
	r.tellDrafted(t.Context())
	r.later(MaxUnsynced - time.Second)
	r.tick(t.Context()) // it answers readers
	if v := r.View(chat); v.Seen.IsZero() {
		t.Errorf("for %s: %+v", MaxUnsynced, v)
	}
	r.later(2 * time.Second)
	r.tellDrafted(t.Context())
	r.tick(t.Context())
	if v := r.View(chat); !v.Seen.IsZero() {
		t.Errorf("for longer: %+v", v)
	}
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.tellDrafted(t.Context())
	r.tick(t.Context())
	if v := r.View(chat); v.Seen.IsZero() || v.Warmup.Served != 2 || v.Warmup.Drafts != 2 {
		t.Errorf("it takes it again: %+v", v)
	}
}

// While Redis is told, which may take as long as it does not answer, nobody knows whether it takes it.
func TestAWarmupServesNothingWhileRedisIsToldForTheSecondTime(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.Drafted(chat, 1, 1)
	r.tellDrafted(t.Context())
	r.Drafted(chat, 1, 1)
	r.later(MaxUnsynced + time.Second)
	r.tick(t.Context())
	counts, since := r.drafted.take()
	if v := r.View(chat); !v.Seen.IsZero() {
		t.Errorf("while Redis is told: seen %s", v.Seen)
	}
	for k, c := range counts {
		r.drafted.add(k, c, since)
	}
	r.drafted.markSynced()
	if v := r.View(chat); !v.Seen.IsZero() {
		t.Errorf("it was not told: seen %s", v.Seen)
	}
	r.tellDrafted(t.Context())
	r.tick(t.Context())
	if v := r.View(chat); v.Seen.IsZero() || v.Warmup.Served != 2 {
		t.Errorf("it was told: %+v", v)
	}
}

func TestAKindThatThereIsNoRoomForHasNoWarmup(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		for i := range maxKeys {
			k := chat
			k.Route = fmt.Sprint("r-", i)
			if fate, err := r.OpenWarmup(t.Context(), k, "t"); err != nil || fate != risk.Opened {
				t.Fatal(i, fate, err)
			}
		}
		if r.raw != nil {
			r.tick(t.Context())
		}
		another := chat
		another.Route = "another"
		if v := r.View(another); v.New {
			t.Errorf("the first request of a kind that there is no room for: %+v", v)
		}
		r.Drafted(chat, 1, 0)
		if r.raw != nil {
			r.tellDrafted(t.Context())
			r.tick(t.Context())
		}
		if v := r.View(chat); v.Warmup.Began != 0 {
			t.Errorf("%+v", v)
		}
		if fate, err := r.OpenWarmup(t.Context(), chat, "t"); err != nil || fate != risk.Full {
			t.Error(fate, err)
		}
	})
}

func TestAnAuditOfAWarmupIsCountedOnce(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		r.teach()
		for i, bad := range []bool{true, false, false} {
			own, warm := fmt.Sprint("o-", i), fmt.Sprint("w-", i)
			r.open(own, 1)
			if _, err := r.OpenWarmup(t.Context(), chat, warm); err != nil {
				t.Fatal(err)
			}
			r.close(own, bad)
			r.close(warm, bad)
			r.close(warm, bad)
		}
		if good, bad := r.counted(Good), r.counted(Bad); good != 2 || bad != 1 {
			t.Errorf("%d good, %d bad", good, bad)
		}
		w := r.state().Warmup
		if n, bad := w.Closed(); n != 3 || bad != 1 {
			t.Errorf("%+v", w)
		}
	})
}
