package evidence

import (
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// drafted counts the drafts of warm-ups that Redis was not told of yet.
type drafted struct {
	mu      sync.Mutex
	counts  map[risk.Key]draftCount // maxKeys at most
	since   time.Time               // of the oldest of these; zero: there is none
	telling time.Time               // since when those wait that Redis is being told of; zero: it is told of none
}

// draftCount is how many drafts were made, and how many of them were the answer.
type draftCount struct{ drafts, served int }

// maxUntold is how long Redis may be without word of what warm-ups serve before they serve nothing: what it does not take, it does
// not book, and it answers readers all the same.
const maxUntold = 10 * time.Second

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
		return // Redis has no room for more kinds either: such a kind has no warm-up
	}
	d.counts[k] = draftCount{was.drafts + c.drafts, was.served + c.served}
}

// take returns all counts, and since when they wait. They count as untold until [drafted.told].
func (d *drafted) take() (map[risk.Key]draftCount, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := d.counts
	d.counts, d.since, d.telling = nil, time.Time{}, d.since
	return counts, d.telling
}

// told says that Redis was told of what was taken, or that this was added again.
func (d *drafted) told() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.telling = time.Time{}
}

// untold reports whether counts have waited for too long.
func (d *drafted) untold(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, since := range [...]time.Time{d.since, d.telling} {
		if !since.IsZero() && now.Sub(since) > maxUntold {
			return true
		}
	}
	return false
}

// served is a key as audits of what its warm-up served are counted by.
func served(k risk.Key) risk.Key {
	k.Cohort = "warmup"
	return k
}
