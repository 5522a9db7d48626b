package engines

import "github.com/foregate/foregate/loadtest"

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

// plan lets f strike b when its time comes.
func (b *Backend) plan(f loadtest.Fault) {
	if !f.Die {
		return // a drift is of the language, not of an engine
	}
	back := f.For
	if back == 0 {
		back = b.pool.Def.Restart
	}
	b.fleet.Loop.At(f.At, func() { b.die(back) })
}
