package virtual

import (
	"github.com/foregate/foregate/loadtest"
)

// planFaults puts the scenario's faults into the queue.
func (l *lab) planFaults() error {
	for _, f := range l.scenario.Faults {
		t := l.tiers[f.Pool]
		if t == nil {
			continue // this case has no such pool
		}
		for i, b := range t.backends {
			if f.Backend == i || f.Backend < 0 {
				b.plan(f)
			}
		}
	}
	return nil
}

// plan lets f strike b when its time comes, and end.
func (b *backend) plan(f loadtest.Fault) {
	if f.Die {
		back := f.For
		if back == 0 {
			back = b.tier.def.Restart
		}
		b.lab.clock.at(f.At, func() { b.die(back) })
		return
	}
	b.lab.clock.at(f.At, func() {
		b.fault = f
		b.sched.SetSlow(max(f.Slow, 1))
	})
	if f.For > 0 {
		b.lab.clock.at(f.At+f.For, func() {
			b.fault, b.frozen = loadtest.Fault{}, nil
			b.sched.SetSlow(1)
		})
	}
}
