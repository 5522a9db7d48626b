package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/pool"
)

// Run reads the context lengths of the target pools and runs audits until ctx ends.
func (c *Cascade) Run(ctx context.Context) error {
	c.audits.Begin(ctx)
	defer c.audits.Wait()
	for {
		wait := contextWindowInterval
		for _, rt := range *c.routes.Load() {
			rt.targets(func(v *Route) {
				if err := c.readWindow(ctx, v.Target); err != nil && c.windows.of(v.Target.Name()) == 0 {
					wait = contextWindowRetry
				}
			})
		}
		if c.services.World.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// readWindow asks the backends of a pool until one reports its context length.
func (c *Cascade) readWindow(ctx context.Context, p *pool.Pool) error {
	if c.windows.read == nil {
		return nil
	}
	var last error
	for _, b := range p.Snapshot() {
		if b.State == pool.StateDown {
			continue
		}
		tokens, err := c.windows.read(ctx, b.URL, p.Model(), p.Credentials())
		if err == nil {
			c.windows.set(p.Name(), tokens)
			return nil
		}
		last = err
	}
	return last
}
