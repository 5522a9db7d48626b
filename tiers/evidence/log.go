package evidence

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// page is the number of entries per read.
	page = 500
	// maxPages bounds the reads, in case another program fills the log.
	maxPages = 2 * maxLog / page
)

// Log calls visit with the audits of the log, the oldest first, each with its outcome, until visit returns an
// error, which Log returns. Foreign entries are skipped. The log is read twice: for the outcomes, then for
// the audits.
func (b *Store) Log(ctx context.Context, visit func(LogEntry) error) error {
	if b.local != nil {
		for _, e := range b.local.entries() {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}
	outcomes := make(map[place]bool) // true: bad
	last, err := b.pages(ctx, "+", func(m redis.XMessage) error {
		if p, bad, ok := closedOf(m.Values); ok && len(outcomes) < maxLog {
			outcomes[p] = bad
		}
		return nil
	})
	if err != nil || last == "" {
		return err
	}
	_, err = b.pages(ctx, last, func(m redis.XMessage) error {
		e, ok := openedOf(m.ID, m.Values)
		if !ok {
			return nil
		}
		if bad, ok := outcomes[place{e.Key, e.Ticket}]; ok {
			e.Label = labelOf(bad)
		}
		return visit(e)
	})
	return err
}

// pages reads the log up to an entry, and returns the last id.
func (b *Store) pages(ctx context.Context, to string, visit func(redis.XMessage) error) (last string, err error) {
	from := "-"
	for range maxPages {
		if err := ctx.Err(); err != nil {
			return last, err
		}
		some, err := b.page(ctx, from, to)
		if err != nil {
			return last, err
		}
		for _, m := range some {
			if err := visit(m); err != nil {
				return last, err
			}
			last = m.ID
		}
		if len(some) < page {
			break
		}
		from = "(" + last
	}
	return last, nil
}

func (b *Store) page(ctx context.Context, from, to string) ([]redis.XMessage, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	some, err := b.opts.Redis.XRangeN(ctx, keyLog, from, to, page).Result()
	if err != nil {
		return nil, b.failed(err)
	}
	return some, nil
}

// word is a value of an entry; a missing one is "".
func word(values map[string]any, name string) string {
	s, _ := values[name].(string)
	if len(s) > maxValue {
		return ""
	}
	return s
}

// closedOf parses an outcome.
func closedOf(values map[string]any) (p place, bad, ok bool) {
	p.ticket = word(values, "closed")
	p.key, ok = keyOf(word(values, "key"))
	outcome := word(values, "bad")
	return p, outcome == "1", ok && ticketShape.MatchString(p.ticket) && (outcome == "1" || outcome == "0")
}

// openedOf parses an audit, without its outcome.
func openedOf(id string, values map[string]any) (e LogEntry, ok bool) {
	f := make(fields, len(values))
	for name := range values {
		f[name] = word(values, name)
	}
	r := &reader{fields: f}
	stamp, _, _ := strings.Cut(id, "-")
	ms, timed := digits(stamp)
	e = LogEntry{
		When: time.UnixMilli(ms), Ticket: f["opened"], Score: r.real("score"), Floor: r.real("floor"), Threshold: r.real("threshold"), Chance: r.real("chance"),
		Served: f["served"] == "1", Features: r.reals("features", maxFeatures),
		Tokens: int(r.count("tokens")), Version: r.count("version"), Alarm: r.count("alarm"), Label: Lost,
		Request: f["request"],
	}
	e.Key, ok = keyOf(f["key"])
	return e, ok && timed && stamp != "" && r.err == nil && f["score"] != "" && e.Check() == nil
}
