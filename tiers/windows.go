package tiers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/pool"
)

const (
	windowsEvery = 15 * time.Second // how often the model cards are read again
	windowsRetry = time.Second      // while one was never read
	windowsWait  = 2 * time.Second  // for one card
	mostCard     = 1 << 20          // bytes of one
)

// windows remembers the context lengths of the target pools, in tokens. A
// continuation by ids must name how many tokens it may still make, and only the
// model's card tells how many there is room for.
type windows struct {
	mu sync.RWMutex
	by map[string]int // pool → max_model_len
}

// of returns a pool's context length, 0 while it is unknown.
func (w *windows) of(p *pool.Pool) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.by[p.Name()]
}

func (w *windows) set(name string, tokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[string]int)
	}
	w.by[name] = tokens
}

// Run keeps the context lengths of the target pools known, and lets drafts be audited, until ctx
// ends.
func (c *Cascade) Run(ctx context.Context) error {
	c.audits.begin(ctx)
	defer c.audits.rest()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := windowsEvery
		for _, rt := range c.routes {
			if err := c.readWindow(ctx, rt.Target); err != nil && c.windows.of(rt.Target) == 0 {
				next = windowsRetry
			}
		}
		timer.Reset(next)
	}
}

// readWindow reads the model card from the first backend that has one.
func (c *Cascade) readWindow(ctx context.Context, p *pool.Pool) error {
	var last error
	for _, b := range p.Snapshot() {
		if b.Down {
			continue
		}
		tokens, err := c.readCard(ctx, b.URL, p.Model())
		if err == nil {
			c.windows.set(p.Name(), tokens)
			return nil
		}
		last = err
	}
	return last
}

func (c *Cascade) readCard(ctx context.Context, url, model string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, windowsWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var cards struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostCard)).Decode(&cards); err != nil {
		return 0, fmt.Errorf("model card of %s: %w", url, err)
	}
	for _, card := range cards.Data {
		if card.ID == model && card.MaxModelLen > 0 {
			return card.MaxModelLen, nil
		}
	}
	return 0, fmt.Errorf("model card of %s: no context length of %s", url, model)
}
