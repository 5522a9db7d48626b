package pool

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestARestartIsAnotherLife(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for _, c := range []struct {
		what    string
		seen    func(b *bench, id string)
		another bool
	}{
		{"counters that go on", func(b *bench, id string) { b.Observe(id, pressure.Reading{At: b.now, Iterations: 9}, nil) }, false},
		{"counters that begin anew", func(b *bench, id string) { b.Observe(id, pressure.Reading{At: b.now, Iterations: 1}, nil) }, true},
		{"back from refusing connections", func(b *bench, id string) {
			b.Observe(id, pressure.Reading{}, refused)
			b.Observe(id, pressure.Reading{At: b.now, Iterations: 9}, nil)
		}, true},
		{"back from a cut network", func(b *bench, id string) {
			b.Observe(id, pressure.Reading{}, errors.New("no route to host"))
			b.Observe(id, pressure.Reading{At: b.now, Iterations: 9}, nil)
		}, false},
	} {
		b := newBench(t, Options{})
		before := b.Snapshot()[0]
		b.Observe(before.ID, pressure.Reading{At: b.now, Iterations: 5}, nil)
		c.seen(b, before.ID)
		if after := b.Snapshot()[0]; (after.Life != before.Life) != c.another || after.Down {
			t.Errorf("%s: life %d, then %d, down: %v", c.what, before.Life, after.Life, after.Down)
		}
	}
}
