package virtual

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/breaker"
)

// TestTheLabsBreakersAreTheGateways drives two sets through the same calls, outcomes, times, pools and settings:
// one judges with gobreaker, the other with the lab's window. They must say the same of every backend at every
// step.
func TestTheLabsBreakersAreTheGateways(t *testing.T) {
	seeds, open := 60, 0
	if testing.Short() {
		seeds = 10
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			b := newBothBreakers(seed)
			for step := range 1500 {
				what := b.step(t)
				live, lab := b.real.States(), b.lab.States()
				if diff := cmp.Diff(live, lab); diff != "" {
					t.Fatalf("seed %d, step %d, %s: %s", seed, step, what, diff)
				}
				if len(live) > 0 && live[0].State == breaker.Open {
					open++
				}
			}
		})
	}
	if open < 10*seeds {
		t.Errorf("only %d times open", open)
	}
}

// bothBreakers are a gateway's breakers and the lab's.
type bothBreakers struct {
	rng       *rand.Rand
	cfg       breaker.Config
	real, lab *breaker.Set
	calls     [][2]*breaker.Permit // under way
	mood      int                  // in ten outcomes, how many are faults
}

// outcomeError is an outcome as an error.
type outcomeError struct{ breaker.Outcome }

func (outcomeError) Error() string { return "an outcome" }

func newBothBreakers(seed uint64) *bothBreakers {
	b := &bothBreakers{rng: rand.New(rand.NewPCG(seed, 4))}
	b.configure()
	o := breaker.Options{
		Config: func() breaker.Config { return b.cfg },
		Classify: func(err error) breaker.Outcome {
			o, _ := errors.AsType[outcomeError](err)
			return o.Outcome
		},
		Draw: rand.New(rand.NewPCG(seed, 5)).Float64,
	}
	b.real = breaker.New(o)
	o.Local, o.Draw = newWindow, rand.New(rand.NewPCG(seed, 5)).Float64
	b.lab = breaker.New(o)
	return b
}

func (b *bothBreakers) configure() {
	b.cfg = breaker.Config{
		Failures: 1 + b.rng.IntN(12),
		Open:     []time.Duration{1, 100 * time.Millisecond, 3 * time.Second, 10 * time.Second, time.Minute}[b.rng.IntN(5)],
	}
}

func (b *bothBreakers) step(t *testing.T) string {
	rng := b.rng
	switch rng.IntN(20) {
	case 0, 1: // the edges of buckets, of the window and of the time-out, too
		d := []time.Duration{
			1, breaker.Bucket, breaker.Bucket - 1, breaker.Bucket * breaker.Buckets, b.cfg.Timeout(), b.cfg.Timeout() + 1,
			time.Duration(rng.Int64N(int64(3 * time.Second))), time.Duration(rng.Int64N(int64(2 * b.cfg.Open))), time.Minute,
		}[rng.IntN(9)]
		time.Sleep(d)
		return d.String()
	case 2:
		b.mood = rng.IntN(11)
	case 3:
		switch rng.IntN(8) {
		case 0:
			b.configure()
		case 1:
			pool := []string{"a", "b", "c"}[:1+rng.IntN(3)]
			b.real.Retain("big", pool)
			b.lab.Retain("big", pool)
		}
	default:
		if len(b.calls) == 0 || rng.IntN(5) < 2 {
			return b.call(t)
		}
		i := rng.IntN(len(b.calls))
		o := breaker.Outcome(rng.IntN(5))
		if rng.IntN(10) < b.mood {
			o = breaker.Fault
		}
		for _, p := range b.calls[i] {
			p.Report(outcomeError{o})
		}
		b.calls = append(b.calls[:i], b.calls[i+1:]...)
		return fmt.Sprint("outcome ", o)
	}
	return "nothing"
}

func (b *bothBreakers) call(t *testing.T) string {
	backend := []string{"a", "b", "c"}[b.rng.IntN(3)]
	live, err := b.real.Allow("big", backend)
	lab, labErr := b.lab.Allow("big", backend)
	if (err == nil) != (labErr == nil) {
		t.Fatalf("a call to %s: the gateway says %v, the lab %v", backend, err, labErr)
	}
	if err == nil {
		b.calls = append(b.calls, [2]*breaker.Permit{live, lab})
	}
	return fmt.Sprint("a call to ", backend, ": ", err)
}
