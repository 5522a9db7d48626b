package live

import (
	"context"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// active is a fault that has begun and not ended.
type active struct {
	number int // in the scenario
	fault  vllmsim.Fault
}

// strike plays the scenario's fault number n: it waits for its time, and takes it
// back after For. A fault of a pool or backend that this case does not have
// strikes nobody.
func (s *system) strike(ctx context.Context, c clock, n int) {
	f := &s.opts.Scenario.Faults[n]
	if !c.until(ctx, f.At) {
		return
	}
	hit := s.struck(f)
	for _, b := range hit {
		if err := b.begin(n, translate(f)); err != nil {
			s.fail(err)
			return
		}
	}
	if f.For <= 0 || f.Die || !c.until(ctx, f.At+f.For) {
		return
	}
	for _, b := range hit {
		if err := b.end(n); err != nil {
			s.fail(err)
		}
	}
}

// struck are the backends that a fault names.
func (s *system) struck(f *loadtest.Fault) []*backend {
	p := s.pool(f.Pool)
	switch {
	case p == nil || f.Backend >= len(p.backends):
		return nil
	case f.Backend < 0:
		return p.backends
	}
	return p.backends[f.Backend : f.Backend+1]
}

// translate says a scenario's fault in the simulator's words. A hang in the
// stream comes after its headers, before its first token.
func translate(f *loadtest.Fault) vllmsim.Fault {
	v := vllmsim.Fault{Status: f.Status, Rate: f.Rate, Hang: f.Hang, Slow: f.Slow, Metrics: f.Metrics, Die: f.Die}
	if f.Die {
		v.DownSeconds = f.For.Seconds()
	}
	if f.KVUsage > 0 {
		v.KVUsage = &f.KVUsage
	}
	return v
}

// begin adds a fault to those that the backend has.
func (b *backend) begin(n int, f vllmsim.Fault) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Die {
		now := b.all()
		now.Die, now.DownSeconds = true, f.DownSeconds
		return b.sim.SetFault(now)
	}
	b.faults = append(b.faults, active{n, f})
	return b.sim.SetFault(b.all())
}

// end takes a fault away; the others stay.
func (b *backend) end(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range b.faults {
		if a.number == n {
			b.faults = append(b.faults[:i], b.faults[i+1:]...)
			break
		}
	}
	return b.sim.SetFault(b.all())
}

// all is what is wrong with the backend now, in one: the simulator has one fault
// at a time. Of two that say the same thing differently, the later one counts.
func (b *backend) all() (sum vllmsim.Fault) {
	for _, a := range b.faults {
		f := a.fault
		if f.Status != 0 {
			sum.Status, sum.Rate = f.Status, f.Rate
		}
		if f.Hang != "" {
			sum.Hang = f.Hang
		}
		if f.Slow != 0 {
			sum.Slow = f.Slow
		}
		if f.Metrics != "" {
			sum.Metrics = f.Metrics
		}
		if f.KVUsage != nil {
			sum.KVUsage = f.KVUsage
		}
	}
	return sum
}
