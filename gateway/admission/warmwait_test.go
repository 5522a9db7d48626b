package admission

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pool"
)

// warmth is a try of one whose warm backend is full while another has room: while it is
// patient it is told so.
type warmth struct {
	full  bool // where it is warm
	went  string
	asked []pool.Admission
}

func (w *warmth) try(l pool.Admission) error {
	w.asked = append(w.asked, l)
	switch {
	case !w.full:
		w.went = "warm"
	case l.CanWaitForWarm:
		return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: 0.5, FreeElsewhere: true}
	default:
		w.went = "elsewhere"
	}
	return nil
}

func TestWhoWaitsForItsWarmBackendHoldsNobodyUp(t *testing.T) {
	b := newBench(t)
	warm := warmth{full: true}
	first := b.enter(normal, "t", func(w *Ticket) { w.Try = warm.try })
	b.want(first, "waits")
	b.want(b.enter(normal, "t", nil), "in") // of the same tenant, and as large
	b.want(b.enter(normal, "u", nil), "in")
	b.want(b.enter(low, "u", nil), "in")

	b.mem.places = 0
	behind := b.enter(normal, "t", nil)
	b.want(behind, "waits")
	b.mem.places = 1
	late := b.enter(normal, "t", nil) // as large as the one before it, which is not patient
	b.want(late, "waits")
	b.serve(pollInterval)
	b.want(behind, "in")
	b.want(late, "waits")
	b.want(first, "waits")

	warm.full = false
	b.serve(pollInterval)
	b.want(first, "in")
	if warm.went != "warm" {
		t.Errorf("it went %s", warm.went)
	}
}

func TestALookTriesThoseBehindTheOnesThatWaitForTheirWarmBackends(t *testing.T) {
	b := newBench(t)
	warm := warmth{full: true}
	for range maxFailedTries + 1 {
		b.want(b.enter(normal, "t", func(w *Ticket) { w.Try = warm.try }), "waits")
	}
	b.mem.places = 0
	behind := b.enter(normal, "t", nil)
	b.want(behind, "waits")
	b.mem.places = 1
	b.serve(pollInterval)
	b.want(behind, "in")
}

func TestWhoWaitsForItsWarmBackendSaysForHowLongAndIsNeverRefused(t *testing.T) {
	for name, change := range map[string]func(*Ticket){
		"it waits to the end":  nil,
		"it may not wait":      func(w *Ticket) { w.Config.MaxWait[normal] = 0 },
		"it waited before":     func(w *Ticket) { w.Waited = time.Hour },
		"its answer has begun": func(w *Ticket) { w.MidStream = true },
		"it takes no for a no": func(w *Ticket) { w.NoWait = true },
		"it is of class low":   func(w *Ticket) { w.Class = low },
	} {
		b, warm := newBench(t), warmth{full: true}
		w := b.enter(normal, "t", func(w *Ticket) {
			w.Try = warm.try
			if change != nil {
				change(w)
			}
		})
		for range 320 {
			b.serve(pollInterval)
		}
		b.want(w, "in")
		if warm.went != "elsewhere" {
			t.Errorf("%s: it went %s", name, warm.went)
		}
		for i, l := range warm.asked {
			if i > 0 && l.CanWaitForWarm && (l.Waited < warm.asked[i-1].Waited || l.Waited > 16*time.Second) {
				t.Errorf("%s: asked %v after %v", name, l.Waited, warm.asked[i-1].Waited)
			}
		}
	}
}
