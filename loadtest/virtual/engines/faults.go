package engines

import (
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// Plan lets faults strike when their time comes. Those of a pool that is not there do nothing.
func (f *Fleet) Plan(faults []loadtest.Fault) {
	for _, fault := range faults {
		for _, p := range f.pools {
			for i, b := range p.Backends {
				if fault.Pool == p.Name && (fault.Backend == i || fault.Backend < 0) {
					b.plan(fault)
				}
			}
		}
	}
}

// plan lets f strike b when its time comes, and end.
func (b *Backend) plan(f loadtest.Fault) {
	clock := b.fleet.Loop
	if f.Die {
		back := f.For
		if back == 0 {
			back = b.pool.Def.Restart
		}
		clock.At(f.At, func() { b.die(back) })
		return
	}
	struck := &f
	clock.At(f.At, func() { b.suffer(append(b.faults, struck)) })
	if f.For > 0 {
		clock.At(f.At+f.For, func() {
			b.suffer(slices.DeleteFunc(slices.Clone(b.faults), func(o *loadtest.Fault) bool { return o == struck }))
		})
	}
}

// suffer makes these the faults under way. They add up; of two that say different
// things of the same, the later one counts.
func (b *Backend) suffer(faults []*loadtest.Fault) {
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
