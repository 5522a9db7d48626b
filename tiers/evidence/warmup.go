package evidence

import (
	"context"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/risk"
)

// Drafted records a request during the warm-up of a key: the number of its drafts, and how many of them were
// served. It does not block: Redis is told within a second, or later if it does not answer.
func (b *Store) Drafted(k risk.Key, made, served int) {
	c := draftCount{made, served}
	if b.local != nil {
		b.local.drafted(b.opts.Rule(k.Route), k, c)
		return
	}
	b.drafted.add(k, c, b.now())
}

// tellDrafted sends the unsent counts to Redis.
func (b *Store) tellDrafted(ctx context.Context) {
	away := false
	counts, since := b.drafted.take()
	defer b.drafted.markSynced()
	for k, c := range counts {
		if !away {
			_, err := b.change(ctx, warmupScript, k, b.opts.Rule(k.Route), "", c.drafts, c.served)
			away = errors.Is(err, ErrAway)
		}
		if away {
			b.drafted.add(k, c, since)
		}
	}
}

// OpenWarmup records the audit of a draft that the warm-up of a key served, as bad before its outcome is
// known. [Store.Close] ends it. Errors are those of [Store.Open].
func (b *Store) OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	if !ticketShape.MatchString(ticket) {
		return "", fmt.Errorf("evidence: %.80q is no ticket", ticket)
	}
	r := b.opts.Rule(k.Route)
	if b.local != nil {
		return b.local.openWarmup(r, k, ticket)
	}
	word, err := b.change(ctx, warmupScript, k, r, ticket, 0, 0)
	return risk.OpenResult(word), err
}
