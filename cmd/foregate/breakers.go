package main

import (
	"context"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/tiers"
)

// makeBreakers wires the breakers of all pools.
func (r *replica) makeBreakers() {
	r.breakers = breaker.New(breaker.Options{
		Config:   func() breaker.Config { return r.settings.Snapshot().Global().Breaker },
		Classify: outcome, Logger: r.log, Registerer: r.registerer,
	})
}

// outcome tells the breaker what a call's end says about its backend.
func outcome(err error) breaker.Outcome {
	switch tiers.Classify(err) {
	case tiers.ClassSuccess:
		return breaker.Success
	case tiers.ClassFault:
		return breaker.Fault
	case tiers.ClassBusy:
		return breaker.Backpressure
	default:
		return breaker.Neutral
	}
}

// retainBreakers forgets the breakers of backends that discovery has dropped.
func (r *replica) retainBreakers(ctx context.Context) error {
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for name, p := range r.pools {
			var ids []string
			for _, b := range p.Snapshot() {
				ids = append(ids, b.ID)
			}
			r.breakers.Retain(name, ids)
		}
	}
}
