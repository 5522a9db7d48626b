package pool

import (
	"context"
	"fmt"
)

// Probe checks one backend without a user's request: its health endpoint, if it has one, and one generated token of the
// pool's model. nil means well. The context bounds it. A status other than 200 is a *pressure.StatusError; an unknown id
// is an error, too. It does not change the pool's state, except that it finds out whether the credentials are accepted. Of a
// hosted backend, where a token costs money that nobody counts, it only finds out whether it takes connections.
func (p *Pool) Probe(ctx context.Context, backend string) error {
	b := p.named(backend)
	if b == nil {
		return fmt.Errorf("pool %s has no backend %.64q", p.o.Name, backend)
	}
	d := p.dialectOf(b)
	if err := p.scraper.Health(ctx, b.url, d); err != nil && !noRoute(err) {
		return err
	}
	if p.o.External {
		return nil
	}
	shown := p.Credentials()
	err := p.scraper.Probe(ctx, b.url, p.o.Model, d)
	p.noteCredentials(b, ForRequests, shown, err)
	return err
}
