package app

import (
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/pool"
)

// fixedPool is a pool whose backends nobody serves.
func fixedPool(t *testing.T) *servedPool {
	t.Helper()
	def := config.Pool{Model: "m", Backends: []string{"http://127.0.0.1:9"}}
	p, err := pool.New(pool.Options{Name: "p", Model: def.Model, Backends: def.Backends})
	if err != nil {
		t.Fatal(err)
	}
	return &servedPool{Pool: p, def: def}
}

// runOf are the runs of one pool, which has a request in flight until done is called.
func runOf(t *testing.T, p *servedPool) (s *poolRuns, ended *bool, done func()) {
	t.Helper()
	ended = new(bool)
	s = &poolRuns{running: map[*pool.Pool]*poolRun{p.Pool: {name: "p", end: func() { *ended = true }}}}
	lease := &pool.Lease{}
	if err := p.PickInto(lease, &pool.Demand{}); err != nil {
		t.Fatal(err)
	}
	return s, ended, func() { lease.Done(1) }
}

func TestAPoolThatTheConfigurationNoLongerHasEndsAfterItsLastRequest(t *testing.T) {
	old := fixedPool(t)
	s, ended, done := runOf(t, old)
	with, without := &routing{pools: map[string]*servedPool{"p": old}}, &routing{pools: map[string]*servedPool{"p": fixedPool(t)}}
	now := time.Now()
	for i, step := range []struct {
		r     *routing
		after time.Duration
	}{{with, time.Hour}, {without, 0}, {without, minRetired + time.Second}, {with, 0}, {without, time.Minute}} {
		now = now.Add(step.after)
		if pools, running := s.retire(step.r, now); len(pools) != 0 || len(running) != 1 || *ended {
			t.Fatalf("step %d: it was ended with a request in flight", i)
		}
	}
	done()
	if pools, _ := s.retire(without, now.Add(minRetired-1)); len(pools) != 0 || *ended {
		t.Error("it was ended too early")
	}
	if pools, running := s.retire(without, now.Add(minRetired)); pools[old.Pool] != "p" || len(running) != 0 || !*ended {
		t.Error("an idle pool was not ended")
	}
}
