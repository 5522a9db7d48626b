package evidence

import (
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// drafted counts the drafts of warm-ups that were not sent to Redis yet.
type drafted struct {
	mu      sync.Mutex
	counts  map[risk.Key]draftCount // at most maxKeys
	since   time.Time               // time of the oldest of these; zero: none
	telling time.Time               // time of the oldest that is being sent; zero: none is being sent
}

// draftCount is the number of drafts, and how many of them were served.
type draftCount struct{ drafts, served int }

// MaxUnsynced is how long Redis may be without the counts of warm-ups. After that the warm-ups serve nothing,
// because a Redis that accepts no counts records no audits either, although it still answers reads.
const MaxUnsynced = 10 * time.Second

func (d *drafted) add(k risk.Key, c draftCount, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = make(map[risk.Key]draftCount)
	}
	if d.since.IsZero() || since.Before(d.since) {
		d.since = since
	}
	was, ok := d.counts[k]
	if !ok && len(d.counts) >= maxKeys {
		return // Redis has no space for more kinds either: such a kind has no warm-up
	}
	d.counts[k] = draftCount{was.drafts + c.drafts, was.served + c.served}
}

// take returns all counts and the time of the oldest. They count as untold until [drafted.told].
func (d *drafted) take() (map[risk.Key]draftCount, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := d.counts
	d.counts, d.since, d.telling = nil, time.Time{}, d.since
	return counts, d.telling
}

// markSynced reports that the taken counts were sent, or were added again.
func (d *drafted) markSynced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.telling = time.Time{}
}

// syncOverdue reports whether counts have waited for too long.
func (d *drafted) syncOverdue(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, since := range [...]time.Time{d.since, d.telling} {
		if !since.IsZero() && now.Sub(since) > MaxUnsynced {
			return true
		}
	}
	return false
}
