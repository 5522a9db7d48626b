package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/foregate/foregate/tiers/pressure"
)

// ErrWrongModel matches the error of a probe at a backend that still does not serve the pool's model. Requests have found
// that before: an engine that lacks only the probe's path may be well.
var ErrWrongModel = errors.New("does not serve the pool's model")

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
	shown, wrong := p.Credentials(), b.wrong.Load()
	err := p.scraper.Probe(ctx, b.url, pressure.Question{Model: p.o.Model, Chat: wrong != nil && strings.Contains(wrong.path, "chat")}, d)
	p.noteCredentials(b, ForRequests, shown, err)
	switch {
	case err == nil:
		p.noteModel(b)
	case wrong != nil && noRoute(err):
		return fmt.Errorf("%w: %w", ErrWrongModel, err)
	}
	return err
}
