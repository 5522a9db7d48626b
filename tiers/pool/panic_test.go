package pool

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/pressure"
)

// flakyFleet panics at the first reading that it is told.
type flakyFleet struct {
	alone
	told atomic.Int32
}

func (f *flakyFleet) Publish(_, _ string, _ pressure.Reading) {
	if f.told.Add(1) == 1 {
		panic("of a reading")
	}
}

func TestAPanicOfAReadingEndsNeitherTheProcessNorTheReadings(t *testing.T) {
	t.Parallel() // a second passes
	f := &flakyFleet{}
	_, _, stop := started(t, f, Options{}, serve(t, usage))
	eventually(t, "another reading", func() bool { return f.told.Load() > 1 })
	stop()
}

// rash finds one address, then panics.
type rash struct {
	discover.Resolver
	asked int
}

func (r *rash) LookupHost(context.Context, string) ([]string, error) {
	if r.asked++; r.asked > 1 {
		panic("of a name")
	}
	return []string{"127.0.0.1"}, nil
}

func TestAPanicOfDiscoveryEndsTheRunWithItsWatchersSoThatItCanStartAgain(t *testing.T) {
	t.Parallel()
	p := fixed(t, Options{Discover: "dns://gpu.internal:1", Resolver: &rash{}})
	ended := make(chan any)
	go func() {
		defer func() { ended <- recover() }()
		_ = p.Run(t.Context())
	}()
	eventually(t, "a backend is found", func() bool { return len(p.Snapshot()) == 1 })
	p.changed <- struct{}{}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it waits for its watchers")
	}
}
