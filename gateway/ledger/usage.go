package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

const (
	writeInterval = 5 * time.Second
	writeTimeout  = time.Second     // of one call to Redis
	stopTimeout   = 2 * time.Second // of all calls at the stop
	readTimeout   = 10 * time.Second
	readPages     = 8 // pages that are read in one round trip
	maxQueries    = 2 // at the same time: each may read some MB

	// MaxDays is for how many days usage is kept, and the longest time that a query may cover.
	MaxDays = 400
	// deletedDays is how many days before those are deleted, if no replica ran meanwhile.
	deletedDays = 400
	// maxFields bounds the fields of a hash, for running processes; folds may add as many again. It is about 5 MB.
	maxFields = 20_000
	// maxName bounds the name of a field, in bytes.
	maxName = 1 << 10
)

var (
	// ErrAway means that Redis does not answer.
	ErrAway = errors.New("usage cannot be read: Redis does not answer")
	errFull = errors.New("the hash has too many fields")
)

// usage is what tenants have used.
type usage struct {
	rows    rows
	began   time.Time
	reading chan struct{} // a place for each query
	wake    chan struct{}

	// Of RunUsage's goroutine.
	scripts *script.Runner
	away    bool // the last call failed, which was logged
	deleted page // the day on which old days were deleted last
}

func (u *usage) init(o *Options) {
	u.began, u.reading, u.wake = o.Now(), make(chan struct{}, maxQueries), make(chan struct{}, 1)
	if o.Redis != nil {
		u.scripts = script.NewRunner(o.Background, writeScript)
	}
}

// republish has all rows written again at once.
func (u *usage) republish() {
	u.rows.again()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Add counts a request that began at a time: it belongs to that UTC day. It waits for nothing.
func (l *Ledger) Add(began time.Time, tenant, route string, c *Counts) {
	n := c.numbers()
	l.usage.rows.add(pageOf(began), tenant, route, n[:])
}

// pending is the number of requests whose usage Redis does not have.
func (l *Ledger) pending() float64 {
	if l.redis == nil {
		return 0
	}
	return float64(l.usage.rows.pending())
}

// RunUsage writes the usage to Redis until ctx ends, and then what is left, for two seconds at most. Without Redis it only
// waits.
func (l *Ledger) RunUsage(ctx context.Context) error {
	if l.redis == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(writeInterval)
	defer tick.Stop()
	for {
		l.usage.rows.close(l.now(), false)
		l.write(ctx)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			l.usage.rows.close(l.now(), true)
			l.write(last)
			if n := l.usage.rows.pending(); n > 0 {
				l.log.Error().Int64("requests", n).Msg("usage of requests is lost: Redis does not take it, and this replica stops")
			}
			return nil
		case <-tick.C:
		case <-l.usage.wake:
		}
	}
}

// write writes what Redis does not have, and deletes old days.
func (l *Ledger) write(ctx context.Context) {
	var failed error
	full := map[page]bool{} // of which later versions must not be written first
	for _, b := range l.usage.rows.unwritten() {
		if full[b.page] {
			continue
		}
		err := l.writeBatch(ctx, b)
		failed = errors.Join(failed, err)
		if err == nil {
			l.usage.rows.written(b)
		} else if full[b.page] = errors.Is(err, errFull); !full[b.page] {
			break // Redis is away
		}
	}
	if failed == nil {
		failed = l.deleteOld(ctx)
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return // it is tried once more at the stop
	case failed != nil && !l.usage.away:
		l.log.Warn().Err(failed).Msg("usage is kept by this replica: Redis does not take it")
	case failed == nil && l.usage.away:
		l.log.Info().Msg("usage is in Redis again")
	}
	if l.usage.away = failed != nil; l.usage.away {
		l.metrics.rowsFailed.Inc()
	} else {
		l.metrics.rowsWritten.Inc()
	}
}

// writeBatch runs the script.
func (l *Ledger) writeBatch(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	how := "put"
	if b.fold {
		how = "fold"
	}
	args := []any{l.process, b.version, how, maxFields}
	for i, key := range b.keys {
		args = append(args, key.tenant+"|"+key.route, b.sums[i])
	}
	status, err := l.usage.scripts.Run(ctx, writeScript, []string{b.page.key()}, args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", b.page.key(), writeScript.Explain(err))
	case status == 0 && !b.fold: // who else would write by this process' name?
		return fmt.Errorf("%s: %w", b.page.key(), errReply)
	case status < 0:
		return fmt.Errorf("%s: %w", b.page.key(), errFull)
	}
	return nil
}

// deleteOld deletes the days before the last [MaxDays], once a day: those that may exist if no replica ran meanwhile.
func (l *Ledger) deleteOld(ctx context.Context) error {
	today := pageOf(l.now())
	if l.usage.deleted == today {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	keys := make([]string, 0, deletedDays)
	for i := range page(deletedDays) {
		keys = append(keys, (today - MaxDays - i).key())
	}
	if err := l.o.Background.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("delete old usage: %w", err)
	}
	l.usage.deleted = today
	return nil
}

// readRows calls see for each row of the pages from … to, at most about five seconds old: what all replicas have written to
// Redis. Without Redis they are those of this process. damaged are fields that are no rows. Errors are [ErrAway] and the context's.
func (l *Ledger) readRows(ctx context.Context, from, to page, see func(page, rowKey, sums)) (damaged int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	select {
	case l.usage.reading <- struct{}{}:
		defer func() { <-l.usage.reading }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: other queries run", ErrAway)
	}
	if l.redis == nil {
		l.usage.rows.read(from, to, see)
		return 0, nil
	}
	for p := from; p <= to; {
		pipe := l.o.Background.Pipeline()
		first, read := p, []*redis.MapStringStringCmd{}
		for ; p <= to && len(read) < readPages; p++ {
			read = append(read, pipe.HGetAll(ctx, p.key()))
		}
		if _, err := pipe.Exec(ctx); err != nil && !script.Answered(err) {
			return damaged, fmt.Errorf("%w: %w", ErrAway, err)
		}
		for i, fields := range read {
			switch err := fields.Err(); {
			case err == nil:
				damaged += readPage(first+page(i), fields.Val(), see)
			case strings.HasPrefix(err.Error(), "WRONGTYPE"):
				damaged++
			default:
				return damaged, fmt.Errorf("%w: %w", ErrAway, err)
			}
		}
	}
	return damaged, nil
}

// readPage reads the hash of a page.
func readPage(p page, fields map[string]string, see func(page, rowKey, sums)) (damaged int) {
	for field, value := range fields {
		kind, name, ok := strings.Cut(field, "|")
		switch kind {
		case "p":
			continue
		case "o":
			_, name, ok = strings.Cut(name, "|")
		case "r":
		default:
			ok = false
		}
		tenant, route, isRow := strings.Cut(name, "|")
		n, err := decode(value)
		if !ok || !isRow || err != nil || len(field) > maxName {
			damaged++
			continue
		}
		see(p, rowKey{tenant, route}, n)
	}
	return damaged
}
