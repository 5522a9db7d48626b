package virtual

import (
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// planFaults puts the scenario's faults into the queue.
func (l *lab) planFaults() {
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
}

// plan lets f strike b when its time comes, and end.
func (b *backend) plan(f loadtest.Fault) {
	clock := &b.lab.clock
	if f.Die {
		back := f.For
		if back == 0 {
			back = b.tier.def.Restart
		}
		clock.at(f.At, func() { b.die(back) })
		return
	}
	struck := &f
	clock.at(f.At, func() { b.suffer(append(b.faults, struck)) })
	if f.For > 0 {
		clock.at(f.At+f.For, func() {
			b.suffer(slices.DeleteFunc(slices.Clone(b.faults), func(o *loadtest.Fault) bool { return o == struck }))
		})
	}
}

// suffer makes these the faults under way. They add up; of two that say different
// things of the same, the later one counts.
func (b *backend) suffer(faults []*loadtest.Fault) {
	b.faults, b.fault = faults, loadtest.Fault{}
	for _, f := range faults {
		if f.Slow != 0 {
			b.fault.Slow = f.Slow
		}
		if f.Status != 0 {
			b.fault.Status, b.fault.Rate = f.Status, f.Rate
		}
		if f.Hang != "" {
			b.fault.Hang = f.Hang
		}
		if f.Metrics != "" {
			b.fault.Metrics = f.Metrics
		}
		if f.KVUsage != 0 {
			b.fault.KVUsage = f.KVUsage
		}
	}
	if b.fault.Metrics != "frozen" {
		b.frozen = nil
	}
	b.sched.SetSlow(max(b.fault.Slow, 1))
}
