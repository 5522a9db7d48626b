package evidence

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

// LogEntry is one audit with its outcome.
type LogEntry struct {
	When      time.Time // it was opened, by Redis' clock
	Key       risk.Key
	Ticket    string
	Score     float64
	Floor     float64 // of the region that was audited
	Threshold float64
	Served    bool // its score was the threshold or more
	Features  []float64
	Tokens    int    // of the draft
	Map       int    // version of the calibrated score, 0 is none
	Version   int64  // of the grid
	Label     string // good, bad, or lost: the log has no outcome of it
}

const (
	// page is how many entries are read at once.
	page = 500
	// mostPages bounds a log that somebody else fills.
	mostPages = 2 * mostLog / page
)

func labelOf(bad bool) string {
	if bad {
		return labelBad
	}
	return labelGood
}

// Log visits the audits of the log, the oldest first, each with its outcome, until visit returns
// an error, which it returns. Entries that are not ours are passed over. It is read twice: for the
// outcomes, then for the audits.
func (b *Book) Log(ctx context.Context, visit func(LogEntry) error) error {
	if b.local != nil {
		for _, e := range b.local.entries() {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}
	outcomes := make(map[place]string)
	last, err := b.pages(ctx, "+", func(m redis.XMessage) error {
		if p, bad, ok := closedOf(m.Values); ok && len(outcomes) < mostLog {
			outcomes[p] = labelOf(bad)
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
		if label, ok := outcomes[place{e.Key, e.Ticket}]; ok {
			e.Label = label
		}
		return visit(e)
	})
	return err
}

// pages reads the log up to an entry, and tells which was the last.
func (b *Book) pages(ctx context.Context, to string, visit func(redis.XMessage) error) (last string, err error) {
	from := "-"
	for range mostPages {
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

func (b *Book) page(ctx context.Context, from, to string) ([]redis.XMessage, error) {
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
	if len(s) > mostValue {
		return ""
	}
	return s
}

// closedOf is an outcome.
func closedOf(values map[string]any) (p place, bad, ok bool) {
	p.ticket = word(values, "closed")
	p.key, ok = keyOf(word(values, "key"))
	outcome := word(values, "bad")
	return p, outcome == "1", ok && ticketShape.MatchString(p.ticket) && (outcome == "1" || outcome == "0")
}

// openedOf is an audit without its outcome.
func openedOf(id string, values map[string]any) (e LogEntry, ok bool) {
	f := make(fields, len(values))
	for name := range values {
		f[name] = word(values, name)
	}
	r := &reader{fields: f}
	stamp, _, _ := strings.Cut(id, "-")
	ms, timed := digits(stamp)
	e = LogEntry{
		When: time.UnixMilli(ms), Ticket: f["opened"], Score: r.real("score"), Floor: r.real("floor"), Threshold: r.real("threshold"),
		Served: f["served"] == "1", Features: r.reals("features", mostFeatures),
		Tokens: int(r.count("tokens")), Map: int(r.count("map")), Version: r.count("version"), Label: labelLost,
	}
	e.Key, ok = keyOf(f["key"])
	return e, ok && timed && stamp != "" && r.err == nil && f["score"] != "" && ticketShape.MatchString(e.Ticket)
}

// joined are numbers in one field. Those that are not finite are the nearest that are.
func joined(list []float64) string {
	words := make([]string, len(list))
	for i, x := range list {
		if math.IsNaN(x) {
			x = 0
		}
		words[i] = exact(max(-1e300, min(x, 1e300)))
	}
	return strings.Join(words, " ")
}

// checkEntry says what makes an entry no evidence; nil is nothing.
func (e *LogEntry) check() error {
	for name, x := range map[string]float64{"score": e.Score, "floor": e.Floor} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("its %s is %s", name, strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	if e.Label != labelGood && e.Label != labelBad && e.Label != labelLost {
		return fmt.Errorf("its label is %.40q, which is none of good, bad, lost", e.Label)
	}
	return nil
}
