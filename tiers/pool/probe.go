package pool

import (
	"context"
	"fmt"
)

// Probe asks a backend whether it is well, without a request of a user's: its health, where
// it tells of that, and one token of the pool's model. nil is: it is. The context bounds
// it; a server's answer other than 200 is a *pressure.StatusError, and an id that the pool
// does not have is an error, too. It changes nothing of what the pool knows.
func (p *Pool) Probe(ctx context.Context, backend string) error {
	b := p.named(backend)
	if b == nil {
		return fmt.Errorf("pool %s has no backend %.64q", p.o.Name, backend)
	}
	if err := p.scraper.Health(ctx, b.url); err != nil && !noHealth(err) {
		return err
	}
	return p.scraper.Probe(ctx, b.url, p.o.Model)
}
