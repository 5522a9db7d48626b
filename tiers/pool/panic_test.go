package pool

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// flakyFleet panics at the first reading that it is told.
type flakyFleet struct{ told atomic.Int32 }

func (f *flakyFleet) Mine(string, string) bool         { return true }
func (f *flakyFleet) Place(string, []prefix.Placement) {}
func (f *flakyFleet) Sharing() bool                    { return true }
func (f *flakyFleet) Publish(_, _ string, _ pressure.Reading) {
	if f.told.Add(1) == 1 {
		panic("of a reading")
	}
}

func TestAPanicOfAReadingEndsNeitherTheProcessNorTheReadings(t *testing.T) {
	t.Parallel() // a second passes
	f := &flakyFleet{}
	p, err := New(Options{Name: "p", Backends: []string{serve(t, usage).url()}})
	if err != nil {
		t.Fatal(err)
	}
	p.Join(f)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	eventually(t, "another reading", func() bool { return f.told.Load() > 1 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := len(p.slots); n != 0 {
		t.Errorf("%d places for readings are held for ever", n)
	}
}
