package usage

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
	readTimeout = 10 * time.Second // of a query
	readDays    = 8                // days that are read in one round trip

	// MaxReportRows bounds the rows of a report.
	MaxReportRows = 20_000
)

var (
	// ErrAway means that Redis does not answer.
	ErrAway = errors.New("usage cannot be read: Redis does not answer")
	// ErrTooManyRows means that a report has more rows than are told.
	ErrTooManyRows = fmt.Errorf("the usage has more than %d rows", MaxReportRows)
)

// Read returns the usage of the fleet, at most about five seconds old: what all replicas have written to Redis. Without
// Redis it is the usage of this process. Errors are [ErrAway], [ErrTooManyRows] and the context's.
func (m *Meter) Read(ctx context.Context, q Query) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	select {
	case m.reading <- struct{}{}:
		defer func() { <-m.reading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: other queries run", ErrAway)
	}
	s := sum{query: q, rows: map[group]*Counts{}}
	report := &Report{From: q.From.String(), To: q.To.String(), By: q.By, Scope: ScopeFleet}
	if m.opts.Redis == nil || m.opts.Embedded {
		report.Since = &m.began
	}
	if m.opts.Redis == nil {
		report.Scope = ScopeReplica
		m.ledger.read(q.From, q.To, s.add)
	} else if err := m.readRedis(ctx, q, &s); err != nil {
		return nil, err
	}
	if s.tooMany {
		return nil, ErrTooManyRows
	}
	if report.Damaged = s.damaged; s.damaged > 0 {
		m.opts.Logger.Warn().Int("fields", s.damaged).Msg("usage in Redis has fields that are not usage; they are not counted")
	}
	s.fill(report)
	return report, nil
}

// readRedis adds up the days of a query.
func (m *Meter) readRedis(ctx context.Context, q Query, s *sum) error {
	for from := q.From; from <= q.To && !s.tooMany; from += readDays {
		pipe := m.opts.Redis.Pipeline()
		var days []*redis.MapStringStringCmd
		for day := from; day <= min(from+readDays-1, q.To); day++ {
			days = append(days, pipe.HGetAll(ctx, day.key()))
		}
		if _, err := pipe.Exec(ctx); err != nil && !script.Answered(err) {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		for i, fields := range days {
			switch err := fields.Err(); {
			case err == nil:
				s.addHash(from+Day(i), fields.Val())
			case strings.HasPrefix(err.Error(), "WRONGTYPE"):
				s.damaged++
			default:
				return fmt.Errorf("%w: %w", ErrAway, err)
			}
		}
	}
	return nil
}

// group identifies a row of a report; what it is not grouped by is zero.
type group struct {
	rowKey
	day Day
}

// sum adds up rows.
type sum struct {
	query   Query
	rows    map[group]*Counts
	total   Counts
	damaged int // fields that are no rows
	tooMany bool
}

// addHash adds the hash of a day.
func (s *sum) addHash(day Day, fields map[string]string) {
	for field, value := range fields {
		if len(field) > 1 && field[:2] == fieldProcess+"|" {
			continue
		}
		key, ok := rowOf(field)
		counts, err := decode(value)
		if !ok || err != nil {
			s.damaged++
			continue
		}
		s.add(day, key, &counts)
	}
}

// add adds one row.
func (s *sum) add(day Day, key rowKey, c *Counts) {
	s.total.Add(c)
	var g group
	for _, by := range s.query.By {
		switch by {
		case ByTenant:
			g.tenant = key.tenant
		case ByRoute:
			g.route = key.route
		case ByDay:
			g.day = day
		}
	}
	all := s.rows[g]
	if all == nil {
		if len(s.rows) >= MaxReportRows {
			s.tooMany = true
			return
		}
		all = &Counts{}
		s.rows[g] = all
	}
	all.Add(c)
}
