package soak

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
)

// Step is one step of the calibration.
type Step struct {
	Clients   int     `json:"clients"`    // each sends its next request after an answer
	PerSecond float64 `json:"per_second"` // requests that were not refused
}

const (
	firstClients = 8
	maxClients   = 256
	stepWarmUp   = time.Second
	stepWindow   = 4 * time.Second
	gain         = 1.05 // by which twice as many clients must get more answers, to go on
	refusedPause = 100 * time.Millisecond
)

// capacity is what the best step gave.
func capacity(steps []Step) (best float64) {
	for _, s := range steps {
		best = max(best, s.PerSecond)
	}
	return best
}

// calibrate doubles the clients until that gives no more answers.
func (s *soak) calibrate(ctx context.Context) (steps []Step, err error) {
	for n := firstClients; n <= maxClients; n *= 2 {
		best := capacity(steps)
		rate, err := s.step(ctx, n)
		if err != nil {
			return nil, err
		}
		steps = append(steps, Step{n, rate})
		s.Say("%d clients: %.0f requests/s\n", n, rate)
		if rate < gain*best {
			break
		}
	}
	return steps, nil
}

// step has clients send one request after the other, and returns the requests a second that were not refused.
func (s *soak) step(ctx context.Context, clients int) (float64, error) {
	l := s.wreck.StartLoad(chaos.Traffic{})
	defer l.Stop()
	var served, next atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			g := s.wreck.Gateways[i%len(s.wreck.Gateways)]
			for ctx.Err() == nil {
				o := l.Send(g, request(s.Seed+1, int(next.Add(1))))
				if o.Kind == chaos.Answered || o.Kind == chaos.Left {
					served.Add(1)
				} else {
					_ = s.wreck.Hold(ctx, refusedPause) // its end is the loop's
				}
			}
		})
	}
	defer all.Wait()
	defer cancel()
	if err := s.wreck.Hold(ctx, stepWarmUp); err != nil {
		return 0, err
	}
	was, began := served.Load(), time.Now()
	if err := s.wreck.Hold(ctx, stepWindow); err != nil {
		return 0, err
	}
	return float64(served.Load()-was) / time.Since(began).Seconds(), nil
}
