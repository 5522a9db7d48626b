package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/pool"
)

// Run keeps the context lengths of the target pools known, and lets drafts be audited, until ctx
// ends.
func (c *Cascade) Run(ctx context.Context) error {
	c.audits.Begin(ctx)
	defer c.audits.Wait()
	for {
		wait := contextWindowInterval
		for _, rt := range c.routes {
			if err := c.readWindow(ctx, rt.Target); err != nil && c.windows.of(rt.Target.Name()) == 0 {
				wait = contextWindowRetry
			}
		}
		if c.services.World.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// readWindow asks the first backend that tells.
func (c *Cascade) readWindow(ctx context.Context, p *pool.Pool) error {
	if c.windows.read == nil {
		return nil
	}
	var last error
	for _, b := range p.Snapshot() {
		if b.Down {
			continue
		}
		tokens, err := c.windows.read(ctx, b.URL, p.Model())
		if err == nil {
			c.windows.set(p.Name(), tokens)
			return nil
		}
		last = err
	}
	return last
}
