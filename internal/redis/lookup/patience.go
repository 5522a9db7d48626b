package lookup

import (
	"context"
	"sync/atomic"
	"time"
)

// Patience is how long one request has waited for Redis so far. Each [Asker] takes it off its own budget, so that all
// waits of the request together are no longer than the longest budget. The zero value has waited for nothing. It is safe
// for concurrent use.
type Patience struct{ waited atomic.Int64 } // ns

type patienceKey struct{}

// WithPatience has the questions that are put with the context share one patience.
func WithPatience(ctx context.Context, p *Patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// patienceOf is a context's, or one of its own.
func patienceOf(ctx context.Context) *Patience {
	if p, ok := ctx.Value(patienceKey{}).(*Patience); ok {
		return p
	}
	return &Patience{}
}

// left is what it leaves of a budget.
func (p *Patience) left(budget time.Duration) time.Duration {
	return max(0, budget-time.Duration(p.waited.Load()))
}

// spend takes a wait off.
func (p *Patience) spend(d time.Duration) { p.waited.Add(int64(d)) }
