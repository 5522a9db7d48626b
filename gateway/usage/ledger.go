package usage

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Others is the tenant of the rows that too many tenants share. No tenant has this name.
const Others = "(other)"

const (
	maxRows     = 1000   // rows of a day with a tenant of their own
	maxHeldRows = 10_000 // of all days
	batchRows   = 256    // rows that one call of the script writes
)

// ledger is what this process has counted and not settled. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	books map[Day]*book
	held  int // rows of all books

	// The last sequence number that was used, of any day: a day that was settled may begin again with a late request, and
	// Redis knows its old numbers.
	number int64
}

// book is one day of a ledger.
type book struct {
	rows map[rowKey]*row

	// Of the goroutine that writes to Redis.
	acked    int64  // the last one that Redis has confirmed
	settling *batch // sent, and not confirmed
}

// row is what this process has counted for a tenant and a route on a day.
type row struct {
	counts Counts
	dirty  bool  // Redis does not have it all
	sent   int64 // requests that Redis has
}

// batch are rows on their way to Redis.
type batch struct {
	number int64
	settle bool
	keys   []rowKey
	counts []Counts
	sent   bool // at least once, with an unknown result
}

// add adds a request. It allocates only for a new row (BenchmarkAdd), whose names are copied: the request's may be part
// of a body.
func (l *ledger) add(day Day, tenant, route string, c *Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b == nil {
		b = l.open(day)
	}
	r := b.rows[rowKey{tenant, route}]
	if r == nil {
		r = l.newRow(b, tenant, route)
	}
	r.counts.Add(c)
	r.dirty = true
}

// open begins a day, and forgets the days that are too old. l.mu is held.
func (l *ledger) open(day Day) *book {
	for old, b := range l.books {
		if old <= day-MaxDays {
			l.held -= len(b.rows)
			delete(l.books, old)
		}
	}
	b := &book{rows: map[rowKey]*row{}}
	if l.books == nil {
		l.books = map[Day]*book{}
	}
	l.books[day] = b
	return b
}

// newRow returns a new row, or that of others where there are too many. l.mu is held.
func (l *ledger) newRow(b *book, tenant, route string) *row {
	if len(b.rows) >= maxRows || l.held >= maxHeldRows {
		tenant = Others // one row per route, which the configuration bounds
	}
	key := rowKey{strings.Clone(tenant), strings.Clone(route)}
	r := b.rows[key]
	if r == nil {
		r = &row{}
		b.rows[key] = r
		l.held++
	}
	return r
}

// days returns the days with rows, the oldest first.
func (l *ledger) days() []Day {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.books))
}

// pending is the number of requests that Redis does not have.
func (l *ledger) pending() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.books {
		for _, r := range b.rows {
			n += r.counts.Requests - r.sent
		}
	}
	return n
}

// changed returns the number of rows of a day that Redis does not have, and of all its rows.
func (l *ledger) changed(day Day) (changed, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b == nil {
		return 0, 0
	}
	for _, r := range b.rows {
		if r.dirty {
			changed++
		}
	}
	return changed, len(b.rows)
}

// report returns a batch of rows that Redis does not have. It may be empty: Redis then tells whether it has lost rows.
// It is nil if the day is not known.
func (l *ledger) report(day Day) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b == nil {
		return nil
	}
	out := &batch{number: l.next()}
	for key, r := range b.rows {
		if len(out.keys) == batchRows {
			break
		}
		if r.dirty {
			r.dirty = false
			out.keys, out.counts = append(out.keys, key), append(out.counts, r.counts)
		}
	}
	return out
}

// settlement returns a batch of rows to settle: the one whose result is not known, else a new one. It is nil if nothing
// is left.
func (l *ledger) settlement(day Day) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b == nil || b.settling != nil || len(b.rows) == 0 {
		if b == nil {
			return nil
		}
		return b.settling
	}
	out := &batch{number: l.next(), settle: true}
	for key, r := range b.rows {
		if len(out.keys) == batchRows {
			break
		}
		out.keys, out.counts = append(out.keys, key), append(out.counts, r.counts)
	}
	b.settling = out
	return out
}

// outcome is what Redis has answered to a batch.
type outcome struct {
	status int64 // 1 written, 0 the number is known, -1 the hash is full
	before int64 // the process' last number before
}

// next returns a new sequence number. l.mu is held.
func (l *ledger) next() int64 {
	l.number++
	return l.number
}

// written takes Redis' answer. It reports whether the batch is in Redis, and whether Redis had lost rows, which are then
// sent again.
func (l *ledger) written(day Day, sent *batch, o outcome) (done, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b == nil {
		return true, false
	}
	lost = o.before < b.acked
	known := o.status == 0 && sent.settle && sent.sent // an earlier try was successful
	switch {
	case o.status == 1 || known:
		b.acked = sent.number
		l.confirm(b, sent)
		done = true
	case o.status == 0: // another process has this one's name
		l.number, b.acked, b.settling = max(l.number, o.before), o.before, nil
		b.reopen(sent)
	case sent.settle:
		sent.sent = true // an earlier try may be on its way
	default:
		b.reopen(sent)
	}
	if lost {
		for _, r := range b.rows {
			r.dirty, r.sent = true, 0
		}
		if done && !sent.settle {
			l.confirm(b, sent)
		}
	}
	return done, lost
}

// confirm marks rows of a batch as written, or removes what was settled. l.mu is held.
func (l *ledger) confirm(b *book, sent *batch) {
	for i, key := range sent.keys {
		r := b.rows[key]
		if !sent.settle {
			r.sent = sent.counts[i].Requests
			r.dirty = r.counts != sent.counts[i]
			continue
		}
		r.counts.subtract(&sent.counts[i])
		r.sent, r.dirty = 0, true
		if r.counts == (Counts{}) {
			delete(b.rows, key)
			l.held--
		}
	}
	if sent.settle {
		b.settling = nil
	}
}

// failed takes back a batch whose result is not known. A report is sent again with new numbers, a settlement as it is.
func (l *ledger) failed(day Day, sent *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent.sent = true
	if b := l.books[day]; b != nil && !sent.settle {
		b.reopen(sent)
	}
}

// reopen marks the rows of a batch as not written.
func (b *book) reopen(sent *batch) {
	for _, key := range sent.keys {
		if r := b.rows[key]; r != nil {
			r.dirty = true
		}
	}
}

// forget removes a day without rows, and reports whether it is gone.
func (l *ledger) forget(day Day) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[day]
	if b != nil && len(b.rows) > 0 {
		return false
	}
	delete(l.books, day)
	return true
}

// read calls see for each row of the days from … to.
func (l *ledger) read(from, to Day, see func(Day, rowKey, *Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for day, b := range l.books {
		if day < from || day > to {
			continue
		}
		for key, r := range b.rows {
			see(day, key, &r.counts)
		}
	}
}
