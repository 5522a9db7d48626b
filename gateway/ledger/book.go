package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/calls"
)

// A page is a hash of one UTC day, "foregate:{fg}:usage2:2026-11-23" or "…:hours1:2026-11-23". Its fields:
//
//	r|NAME|ROUTE          sums of all processes; NAME is a tenant, or an hour
//	o|PROCESS|NAME|ROUTE  what a process has added to them; it is deleted when the process stops, or the day is over for an hour
//	p|PROCESS             the process' last version
//
// A tenant's name has no bar; a route's may. Pages have no TTL, because a full Redis evicts keys with a TTL first.
const (
	pageUsage = "foregate:{fg}:usage2:"
	pageHours = "foregate:{fg}:hours1:"
)

// keptDays is for how many days pages are kept.
var keptDays = map[string]day{pageUsage: MaxDays, pageHours: MaxHourDays}

const (
	// MaxDays is for how many days usage is kept, and the longest time that a query may cover.
	MaxDays = 400
	// MaxHourDays is for how many days hours are kept, and the longest time that a query may cover.
	MaxHourDays = 35

	// Others is the tenant of the rows that too many tenants share. No tenant has this name.
	Others = "(other)"

	maxRows     = 1000      // of a page: more tenants share a row per route
	maxHeldRows = 10_000    // of all pages
	batchRows   = 128       // that one call of the script writes
	maxFields   = 40_000    // of a page in Redis; about 8 MB
	closeAfter  = time.Hour // after the end of a day: requests that began before it have ended
	maxName     = 1 << 10   // bytes of a field's name

	writeInterval = 5 * time.Second
	writeTimeout  = time.Second     // of one call to Redis
	stopTimeout   = 2 * time.Second // of all calls at the stop
	readTimeout   = 10 * time.Second
	readPages     = 8 // pages that are read in one round trip
	deletedPages  = 30
)

var (
	//go:embed write.lua
	writeSource string
	writeScript = calls.NewScript(writeSource)

	// ErrAway means that Redis does not answer.
	ErrAway = errors.New("usage cannot be read: Redis does not answer")
	errFull = errors.New("the hash has too many fields")
)

// day is a number of UTC days since 1970.
type day int64

const dayLength = 24 * time.Hour

func dayOf(t time.Time) day { return day(t.Unix() / int64(dayLength/time.Second)) }

// begin is the first moment of the day.
func (d day) begin() time.Time { return time.Unix(int64(d)*int64(dayLength/time.Second), 0).UTC() }

// page names a hash.
type page struct {
	kind string
	day  day
}

func (p page) key() string { return p.kind + p.day.begin().Format(time.DateOnly) }

// keys are the page and those that are too old: of a month, for the case that no replica ran meanwhile.
func (p page) keys() []string {
	keys := []string{p.key()}
	for i := range day(deletedPages) {
		keys = append(keys, page{p.kind, p.day - keptDays[p.kind] - i}.key())
	}
	return keys
}

// rowKey names a row of a page.
type rowKey struct {
	page
	name, route string
}

// row is what this process has counted for a name and a route.
type row struct{ sums, known sums } // known is what Redis has of the sums

// book is what this process has counted on the pages that are not over.
type book struct {
	began time.Time
	wake  chan struct{}

	mu      sync.Mutex
	rows    map[rowKey]*row
	pages   map[page]int // numbers of rows
	version int64
	from    day // earlier pages are closed: what belongs there counts on this day

	// Of RunUsage's goroutine.
	away bool // the last call failed, which was logged
}

// add adds numbers to a row. It waits for nothing. A new row has copies of the names: the request's may be part of a body.
func (b *book) add(p page, name, route string, n sums) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.day = max(p.day, b.from)
	key := rowKey{p, name, route}
	one := b.rows[key]
	if one == nil {
		if b.pages[p] == 0 {
			b.forget(func(old page) bool { return old.day <= p.day-keptDays[old.kind] })
		}
		if p.kind == pageUsage && (b.pages[p] >= maxRows || len(b.rows) >= maxHeldRows) {
			key.name = Others // one row per route, which the configuration bounds
		}
		one = b.rows[key]
	}
	if one == nil {
		one = &row{make(sums, len(n)), make(sums, len(n))}
		b.rows[rowKey{p, strings.Clone(key.name), strings.Clone(route)}] = one
		b.pages[p]++
	}
	one.sums.add(n)
}

// forget forgets pages, and returns the rows that they had.
func (b *book) forget(which func(page) bool) (had []rowKey) {
	for key := range b.rows {
		if which(key.page) {
			had = append(had, key)
			delete(b.rows, key)
		}
	}
	maps.DeleteFunc(b.pages, func(p page, _ int) bool { return which(p) })
	return had
}

// again has all rows written once more, at once: Redis has lost them.
func (b *book) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++ // of a call in progress, nothing is known
	for _, one := range b.rows {
		clear(one.known)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// pending is the number of requests whose usage Redis does not have.
func (l *Ledger) pending() float64 {
	n := int64(0)
	l.book.mu.Lock()
	defer l.book.mu.Unlock()
	for key, one := range l.book.rows {
		if key.kind == pageUsage && l.redis != nil {
			n += one.sums[0] - one.known[0]
		}
	}
	return float64(n)
}

// RunUsage writes what was counted to Redis until ctx ends, and then what is left, for two seconds at most. Without Redis it
// only waits.
func (l *Ledger) RunUsage(ctx context.Context) error {
	if l.redis == nil {
		<-ctx.Done()
		return nil
	}
	panics.Every(ctx, writeInterval, l.book.wake, func() { l.write(ctx, dayOf(l.now().Add(-closeAfter))) })
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	l.write(last, dayOf(l.now())+1)
	if n := l.pending(); n > 0 {
		l.log.Error().Float64("requests", n).Msg("usage of requests is lost: Redis does not take it, and this replica stops")
	}
	return nil
}

// write writes what Redis does not have, and closes the pages before a day.
func (l *Ledger) write(ctx context.Context, open day) {
	b, failed := &l.book, error(nil)
	b.mu.Lock()
	pages := slices.Collect(maps.Keys(b.pages))
	b.from = max(b.from, min(open, dayOf(l.now())))
	b.mu.Unlock()
	for _, p := range pages {
		err := l.writePage(ctx, p)
		if err == nil && p.day < open {
			l.closePage(ctx, p)
		}
		if failed = errors.Join(failed, err); err != nil && !errors.Is(err, errFull) {
			break // Redis is away
		}
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return // it is tried once more at the stop
	case failed != nil && !b.away:
		l.log.Warn().Err(failed).Msg("usage is kept by this replica: Redis does not take it")
	case failed == nil && b.away:
		l.log.Info().Msg("usage is in Redis again")
	}
	if b.away = failed != nil; b.away {
		l.metrics.rowsFailed.Inc()
	} else {
		l.metrics.rowsWritten.Inc()
	}
}

// writePage runs the script with the rows that Redis may not have. A call whose reply is lost is followed by one with a higher
// version and what was counted since; what is known twice counts once.
func (l *Ledger) writePage(ctx context.Context, p page) error {
	type change struct {
		field string
		*row
	}
	b, changes := &l.book, []change{}
	b.mu.Lock()
	for key, one := range b.rows {
		if key.page == p && !slices.Equal(one.sums, one.known) {
			changes = append(changes, change{key.name + "|" + key.route, one})
		}
	}
	b.mu.Unlock()
	for part := range slices.Chunk(changes, batchRows) {
		b.mu.Lock()
		b.version++
		version, sent := b.version, make([]sums, len(part))
		args := []any{l.process, version, maxFields}
		for i, c := range part {
			sent[i] = slices.Clone(c.sums)
			args = append(args, c.field, sent[i].String())
		}
		b.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, writeTimeout)
		status, err := l.writer.Run(bounded, writeScript, p.keys(), args...).Int()
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", p.key(), err)
		case status == 0: // who else would write by this process' name?
			return fmt.Errorf("%s: %w", p.key(), errReply)
		case status < 0:
			return fmt.Errorf("%s: %w", p.key(), errFull)
		}
		b.mu.Lock()
		for i, c := range part {
			if b.version == version { // else Redis has lost it
				c.known = sent[i]
			}
		}
		b.mu.Unlock()
	}
	return nil
}

// closePage forgets a page that Redis has, with what shows there which part is this process'. If that remains, it is of no use.
func (l *Ledger) closePage(ctx context.Context, p page) {
	l.book.mu.Lock()
	had := l.book.forget(func(closed page) bool { return closed == p })
	l.book.mu.Unlock()
	fields := make([]string, 0, len(had))
	for _, key := range had {
		fields = append(fields, "o|"+l.process+"|"+key.name+"|"+key.route)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_ = l.o.Background.HDel(ctx, p.key(), fields...).Err()
}

// read calls see for each row of the days from … to, at most about five seconds old: what all replicas have written to Redis.
// Without Redis they are those of this process. What is no row, to see or to this function, is counted as damaged. Errors are
// [ErrAway] and the context's.
func (l *Ledger) read(ctx context.Context, kind string, first, last time.Time, see func(rowKey, sums) bool) (s Span, err error) {
	s = Span{From: first.Format(time.DateOnly), To: last.Format(time.DateOnly), Scope: ScopeFleet}
	if l.redis == nil || l.o.Embedded {
		s.Since = &l.book.began
	}
	from, to := dayOf(first), dayOf(last)
	if l.redis == nil {
		s.Scope = ScopeReplica
		l.book.mu.Lock()
		defer l.book.mu.Unlock()
		for key, one := range l.book.rows {
			if key.kind == kind && key.day >= from && key.day <= to {
				see(key, one.sums)
			}
		}
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for ; from <= to; from += readPages {
		pipe, read := l.o.Background.Pipeline(), []*redis.MapStringStringCmd{}
		for d := from; d <= min(to, from+readPages-1); d++ {
			read = append(read, pipe.HGetAll(ctx, page{kind, d}.key()))
		}
		if _, err := pipe.Exec(ctx); err != nil && !calls.Answered(err) {
			return s, fmt.Errorf("%w: %w", ErrAway, err)
		}
		for i, fields := range read {
			switch err := fields.Err(); {
			case err == nil:
				s.Damaged += readPage(page{kind, from + day(i)}, fields.Val(), see)
			case strings.HasPrefix(err.Error(), "WRONGTYPE"):
				s.Damaged++
			default:
				return s, fmt.Errorf("%w: %w", ErrAway, err)
			}
		}
	}
	if s.Damaged > 0 {
		l.log.Warn().Int("fields", s.Damaged).Msg("usage in Redis has fields that are not usage; they are not counted")
	}
	return s, nil
}

// readPage reads the sums of all in the hash of a page.
func readPage(p page, fields map[string]string, see func(rowKey, sums) bool) (damaged int) {
	for field, value := range fields {
		kind, of, _ := strings.Cut(field, "|")
		name, route, isRow := strings.Cut(of, "|")
		if kind == "p" || kind == "o" {
			continue
		}
		n, err := decode(value)
		if kind != "r" || !isRow || err != nil || len(field) > maxName || !see(rowKey{p, name, route}, n) {
			damaged++
		}
	}
	return damaged
}
