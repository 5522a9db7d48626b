package pool

import (
	"sync/atomic"
	"testing"

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
