package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pool"
)

// roomFor lets in requests of up to so many tokens.
func (b *bench) roomFor(tokens int) func(*Ticket) {
	return func(w *Ticket) {
		w.Try = func(l pool.Admission) error {
			if w.Tokens <= tokens || l.MaxUsage == 0 {
				return nil
			}
			return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: 0.1, Peak: 2, PeakLimit: 0.9, Large: !l.Now}
		}
	}
}

func TestAHugePromptLetsMuchSmallerOnesPassForHalfOfItsWait(t *testing.T) {
	b := newBench(t)
	fits := b.roomFor(1000)
	huge := b.enter(normal, "t", func(w *Ticket) { w.Tokens = 100_000; fits(w) })
	b.want(huge, "waits")
	for _, tenant := range []string{"t", "other"} {
		b.want(b.enter(normal, tenant, fits), "in")
		b.want(b.enter(low, tenant, fits), "in")
	}
	b.serve(b.cfg.MaxWait[normal] / 2)
	b.want(b.enter(high, "t", fits), "in") // a higher class never queues behind it
	late := b.enter(normal, "other", fits)
	b.want(late, "waits") // everybody of its class waits for it now
	b.serve(b.cfg.MaxWait[normal]/2 - 1)
	b.want(huge, "waits")
	b.want(late, "waits")
	b.serve(1)
	if huge.done != 1 {
		t.Errorf("%s at the end of its wait", huge.is())
	}
	b.want(late, "in")
}

func TestThoseBehindAHugePromptOfTheirOwnTenantPassToo(t *testing.T) {
	b := newBench(t)
	b.mem.places = 0
	huge := b.enter(normal, "t", func(w *Ticket) { w.Tokens = 100_000 })
	small := b.enter(normal, "t", nil)
	b.mem.places = 1
	huge.Try = func(l pool.Admission) error {
		return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: 0.1, Peak: 2, PeakLimit: 0.9}
	}
	b.serve(time.Millisecond)
	b.want(small, "in")
	b.want(huge, "waits")
}

func TestARequestThatNeedsMostOfAMemoryIsLetInInTheEndByWhatIsInUse(t *testing.T) {
	b := newBench(t)
	var asked []pool.Admission
	a := b.enter(normal, "t", func(w *Ticket) {
		w.Try = func(l pool.Admission) error {
			asked = append(asked, l)
			if l.Now {
				return nil
			}
			return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: 0.1, Peak: 1.1, PeakLimit: 0.95, Large: true}
		}
	})
	b.serve(b.cfg.MaxWait[normal] - 1)
	b.want(a, "waits")
	b.serve(1)
	b.want(a, "in")
	if last := asked[len(asked)-1]; last != (pool.Admission{MaxUsage: b.cfg.Threshold[normal], Now: true}) {
		t.Errorf("with %+v", last)
	}
}

func TestTriesAtOtherBackendsDoNotWaitAnew(t *testing.T) {
	b := newBench(t)
	b.mem.places = 0
	a := b.enter(normal, "t", func(w *Ticket) { w.Waited = b.cfg.MaxWait[normal] - time.Second })
	b.want(a, "waits")
	b.serve(time.Second)
	b.want(a, ReasonGrowth)
	b.want(b.enter(normal, "t", func(w *Ticket) { w.Waited = time.Hour }), ReasonGrowth)
}

func TestAClassOfWhichNothingIsHeardIsNoLongerShed(t *testing.T) {
	b := newBench(t)
	b.mem.usage = 0.9
	b.enter(low, "t", func(w *Ticket) { w.NoWait = true })
	if !b.Shedding("r", low, b.now) {
		t.Fatal("it is not shed")
	}
	b.now = b.now.Add(stateLifetime + 1)
	if b.Shedding("r", low, b.now) || fmt.Sprint(b.shedClasses(b.now)) != "[]" {
		t.Error("it still is")
	}
	b.enter(low, "t", func(w *Ticket) { w.NoWait = true })
	if !b.Shedding("r", low, b.now) {
		t.Error("it is not shed again")
	}
}
