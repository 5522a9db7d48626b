package pressure

import (
	"context"
	"errors"
	"time"
)

// Options wires a Scraper. The zero value works.
type Options struct {
	Config func() Config    // live; nil is DefaultConfig
	Now    func() time.Time // nil is time.Now
}

// Scraper takes readings over its own HTTP client: no proxy, no redirects, no
// compression, a bounded body and a bounded time. It is safe for concurrent use.
type Scraper struct {
	opts Options
}

// NewScraper returns a Scraper with a connection pool of its own.
func NewScraper(o Options) *Scraper { return &Scraper{opts: o} }

// Scrape takes a reading from baseURL + "/metrics".
func (s *Scraper) Scrape(ctx context.Context, baseURL string) (Reading, error) {
	return Reading{}, errors.New("not yet")
}

// Health asks baseURL + "/health"; nil means that the server says it is well.
func (s *Scraper) Health(ctx context.Context, baseURL string) error {
	return errors.New("not yet")
}
