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
	"github.com/foregate/foregate/tiers/world"
)

// outcomeError is an outcome as an error.
type outcomeError struct{ breaker.Outcome }

func (outcomeError) Error() string { return "an outcome" }

// TestTheLabsBreakersAreTheGateways drives two sets through the same outcomes, times and settings: one judges with
// gobreaker, the other with the lab's window. They must say the same of every backend at every step.
func TestTheLabsBreakersAreTheGateways(t *testing.T) {
	seeds, open := 60, 0
	if testing.Short() {
		seeds = 10
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			rng, cfg, mood := rand.New(rand.NewPCG(seed, 4)), breaker.Config{Failures: 5, Open: 10 * time.Second}, 5
			o := breaker.Options{
				Config: func() breaker.Config { return cfg },
				Classify: func(err error) breaker.Outcome {
					o, _ := errors.AsType[outcomeError](err)
					return o.Outcome
				},
				Wake: func() {}, World: world.System{}, Draw: rand.New(rand.NewPCG(seed, 5)).Float64,
			}
			live := breaker.New(o)
			o.Local, o.Draw = newWindow, rand.New(rand.NewPCG(seed, 5)).Float64
			lab := breaker.New(o)
			for step := range 1500 {
				what := "an outcome"
				switch rng.IntN(20) {
				case 0, 1: // the edges of buckets and of the window, too
					d := []time.Duration{
						1, breaker.Bucket, breaker.Bucket - 1, breaker.Bucket * breaker.Buckets, time.Minute,
						time.Duration(rng.Int64N(int64(3 * time.Second))), time.Duration(rng.Int64N(int64(2 * cfg.Open))),
					}[rng.IntN(7)]
					time.Sleep(d)
					what = d.String()
				case 2:
					mood = rng.IntN(11) // in ten outcomes, how many are faults
				case 3:
					cfg = breaker.Config{Failures: 1 + rng.IntN(12), Open: time.Duration(1 + rng.Int64N(int64(time.Minute)))}
				default:
					backend, outcome := fmt.Sprint(rng.IntN(3)), outcomeError{breaker.Outcome(rng.IntN(5))}
					if rng.IntN(10) < mood {
						outcome = outcomeError{breaker.Fault}
					}
					for _, s := range []*breaker.Set{live, lab} {
						if p, err := s.Allow("big", backend, ""); err == nil {
							p.Report(outcome)
						}
					}
				}
				if diff := cmp.Diff(live.States(), lab.States()); diff != "" {
					t.Fatalf("seed %d, step %d, %s: %s", seed, step, what, diff)
				}
				if states := live.States(); len(states) > 0 && states[0].State == breaker.Open {
					open++
				}
			}
		})
	}
	if open < 10*seeds {
		t.Errorf("only %d times open", open)
	}
}
