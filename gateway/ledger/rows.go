package ledger

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Others is the tenant of the rows that too many tenants share. No tenant has this name.
const Others = "(other)"

const (
	maxRows     = 1000      // rows of a day with a tenant of their own
	maxHeldRows = 10_000    // of all
	batchRows   = 256       // rows that one call of the script writes
	foldAfter   = time.Hour // after the end of a day: requests that began before it have ended
)

// page is a UTC day, whose hash holds rows: the number of days since 1970.
type page int64

const dayLength = 24 * time.Hour

// pageOf is the page of a time.
func pageOf(t time.Time) page { return page(t.Unix() / int64(dayLength/time.Second)) }

// begin is the first moment of the day.
func (p page) begin() time.Time { return time.Unix(int64(p)*int64(dayLength/time.Second), 0).UTC() }

// key is the page in Redis.
func (p page) key() string { return keyUsage + p.begin().Format(time.DateOnly) }

// rowKey names a row of a page.
type rowKey struct{ tenant, route string }

// row is what this process has counted for a tenant and a route, and has not folded.
type row struct {
	sums  sums
	dirty bool  // Redis may not have it all
	sent  int64 // requests that Redis has
}

// batch are rows on their way to Redis.
type batch struct {
	page    page
	version int64
	fold    bool
	keys    []rowKey
	sums    []string
	counts  []int64 // requests
}

// rows are what this process has counted. They are safe for concurrent use.
type rows struct {
	mu      sync.Mutex
	pages   map[page]map[rowKey]*row
	folding []*batch // of pages that are over: they stay as they are, with their versions, until Redis has them
	held    int      // rows of all pages
	version int64    // the last that was used
	lost    int64    // what Redis had of earlier versions may be lost
}

// add adds numbers to a row. It allocates only for a new row, whose names are copied: the request's may be part of a body.
func (r *rows) add(p page, tenant, route string, n sums) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.pages[p]
	if all == nil {
		all = r.open(p)
	}
	one := all[rowKey{tenant, route}]
	if one == nil {
		if len(all) >= maxRows || r.held >= maxHeldRows {
			tenant = Others // one row per route, which the configuration bounds
		}
		key := rowKey{strings.Clone(tenant), strings.Clone(route)}
		if one = all[key]; one == nil {
			one = &row{sums: make(sums, len(n))}
			all[key] = one
			r.held++
		}
	}
	one.sums.add(n)
	one.dirty = true
}

// open begins a page, and forgets those that are too old.
func (r *rows) open(p page) map[rowKey]*row {
	for old, all := range r.pages {
		if old <= p-MaxDays {
			r.held -= len(all)
			delete(r.pages, old)
		}
	}
	if r.pages == nil {
		r.pages = map[page]map[rowKey]*row{}
	}
	all := map[rowKey]*row{}
	r.pages[p] = all
	return all
}

// close makes batches of the pages that are over, or of all: they are to be folded.
func (r *rows) close(now time.Time, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, rows := range r.pages {
		if !all && now.Sub(p.begin()) < dayLength+foldAfter {
			continue
		}
		for keys := range slices.Chunk(slices.Collect(maps.Keys(rows)), batchRows) {
			r.folding = append(r.folding, r.batch(p, keys, true))
		}
		delete(r.pages, p)
	}
}

// batch returns rows as they are now; the caller holds the lock.
func (r *rows) batch(p page, keys []rowKey, fold bool) *batch {
	r.version++
	b := &batch{page: p, version: r.version, fold: fold, keys: keys}
	for _, key := range keys {
		one := r.pages[p][key]
		b.sums, b.counts = append(b.sums, one.sums.encode()), append(b.counts, one.sums[0])
		if fold {
			b.counts[len(b.counts)-1] -= one.sent
		}
	}
	return b
}

// unwritten returns batches of what Redis may not have.
func (r *rows) unwritten() []*batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	batches := slices.Clone(r.folding)
	for p, all := range r.pages {
		var keys []rowKey
		for key, one := range all {
			if one.dirty {
				keys = append(keys, key)
			}
		}
		for part := range slices.Chunk(keys, batchRows) {
			batches = append(batches, r.batch(p, part, false))
		}
	}
	return batches
}

// written takes notice that Redis has a batch.
func (r *rows) written(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.folding, b); i >= 0 {
		r.folding = slices.Delete(r.folding, i, i+1)
		r.held -= len(b.keys)
	}
	if b.fold || b.version <= r.lost {
		return
	}
	for i, key := range b.keys {
		if one := r.pages[b.page][key]; one != nil { // otherwise the page was too old
			one.sent, one.dirty = b.counts[i], one.sums.encode() != b.sums[i]
		}
	}
}

// again has all rows written once more, but for those of pages that are folded.
func (r *rows) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = r.version
	for _, all := range r.pages {
		for _, one := range all {
			one.dirty, one.sent = true, 0
		}
	}
}

// pending is the number of requests that Redis does not have.
func (r *rows) pending() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.pages {
		for _, one := range all {
			n += one.sums[0] - one.sent
		}
	}
	for _, b := range r.folding {
		for _, count := range b.counts {
			n += count
		}
	}
	return n
}

// read calls see for each row of the pages from … to.
func (r *rows) read(from, to page, see func(page, rowKey, sums)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, all := range r.pages {
		if p >= from && p <= to {
			for key, one := range all {
				see(p, key, one.sums)
			}
		}
	}
}
