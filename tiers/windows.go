package tiers

import (
	"context"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
)

const (
	contextWindowInterval = 15 * time.Second // between two reads of a pool's model card
	contextWindowRetry    = time.Second      // between two tries before the first success
)

// contextWindows holds the context lengths of the target pools in tokens. A continuation by ids must set max_tokens, and
// only the engine's model card (/v1/models) tells how many fit.
type contextWindows struct {
	read func(ctx context.Context, url, model string, own *credentials.Credentials) (int, error) // nil: always unknown

	mu sync.RWMutex
	by map[string]int // pool → max_model_len
}

// of returns the context length of a pool by its name, 0 while it is unknown.
func (w *contextWindows) of(name string) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.by[name]
}

// forget makes the context length of a pool unknown.
func (w *contextWindows) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by, name)
}

func (w *contextWindows) set(name string, tokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[string]int)
	}
	w.by[name] = tokens
}
