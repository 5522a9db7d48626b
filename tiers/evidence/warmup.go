package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/foregate/foregate/tiers/risk"
)

// drafted counts the drafts of warm-ups that Redis was not told of yet.
type drafted struct {
	mu     sync.Mutex
	counts map[risk.Key]draftCount // mostKeys at most
}

// draftCount is how many drafts were made, and how many of them were the answer.
type draftCount struct{ drafts, served int }

func (d *drafted) add(k risk.Key, c draftCount) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = make(map[risk.Key]draftCount)
	}
	was, ok := d.counts[k]
	if !ok && len(d.counts) >= mostKeys {
		return // the count is what operators see; nothing is decided by it
	}
	d.counts[k] = draftCount{was.drafts + c.drafts, was.served + c.served}
}

// take returns all counts and forgets them.
func (d *drafted) take() map[risk.Key]draftCount {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := d.counts
	d.counts = nil
	return counts
}

// Drafted notes a draft that was made for a request in the warm-up of a key, and whether it was the answer. It does not
// wait: Redis is told within a second, and later where it does not answer.
func (b *Book) Drafted(k risk.Key, served bool) {
	c := draftCount{drafts: 1}
	if served {
		c.served = 1
	}
	if b.local != nil {
		b.local.drafted(b.opts.Rule(k.Route), k, c)
		return
	}
	b.drafted.add(k, c)
}

// tellDrafted tells Redis of the drafts since the last time.
func (b *Book) tellDrafted(ctx context.Context) {
	away := false
	for k, c := range b.drafted.take() {
		if !away {
			_, err := b.change(ctx, warmupScript, k, b.opts.Rule(k.Route), "", c.drafts, c.served)
			away = errors.Is(err, ErrAway)
		}
		if away {
			b.drafted.add(k, c)
		}
	}
}

// OpenWarmup books the audit of a draft that the warm-up of a key served, as bad before anybody knows its outcome.
// [Book.Close] ends it. Errors are those of [Book.Open].
func (b *Book) OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.Fate, error) {
	if !ticketShape.MatchString(ticket) {
		return "", fmt.Errorf("evidence: %.80q is no ticket", ticket)
	}
	r := b.opts.Rule(k.Route)
	if b.local != nil {
		return b.local.openWarmup(r, k, ticket)
	}
	word, err := b.change(ctx, warmupScript, k, r, ticket, 0, 0)
	if errors.Is(err, ErrAway) {
		b.metrics.count(k, labelAway)
	}
	return risk.Fate(word), err
}
