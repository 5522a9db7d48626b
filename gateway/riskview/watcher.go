// Package riskview reads what a running replica tells of the guarantee: the summaries of its traffic classes, and the
// frontiers.
package riskview

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// readInterval is the time between two reads of all states for the metrics.
const readInterval = 10 * time.Second

// Watcher keeps the state of the evidence in memory while a replica runs.
type Watcher struct {
	Evidence  *evidence.Store
	Config    func(route string) *plan.Config // live
	Economics func(k risk.Key) Economics      // what the requests of a key are like

	last atomic.Pointer[[]risk.KeyState]

	frontierMu  sync.Mutex             // one computation at a time
	frontiers   *gateway.RiskFrontiers // the last ones
	frontiersAt time.Time
}

// Run reads all states every ten seconds, until ctx ends, for readers that must not wait. If states cannot be read, the
// last ones remain.
func (s *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(readInterval)
	defer t.Stop()
	for {
		if known, err := s.Evidence.All(ctx); err == nil {
			s.last.Store(&known)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// States returns all states, at most ten seconds old.
func (s *Watcher) States() []risk.KeyState {
	if known := s.last.Load(); known != nil {
		return *known
	}
	return nil
}

// Summaries returns all current states (gateway.Options.Risk).
func (s *Watcher) Summaries(ctx context.Context) ([]risk.Summary, error) {
	known, err := s.Evidence.All(ctx)
	if err != nil {
		return nil, err
	}
	summaries := make([]risk.Summary, len(known))
	for i := range known {
		summaries[i] = s.Summary(&known[i])
	}
	return summaries, nil
}

// Summary returns the summary of a state.
func (s *Watcher) Summary(k *risk.KeyState) risk.Summary {
	sum := k.State.Summarise(k.Rule)
	sum.Route, sum.TrafficClass = k.Key.Route, k.Key.TrafficClass
	sum.Phase = k.State.Phase(k.Rule, time.Now(), s.Config(k.Key.Route).Risk.WarmupDuration)
	return sum
}
