package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dimension is what rows of a report may be grouped by.
type Dimension string

// The dimensions.
const (
	ByTenant Dimension = "tenant"
	ByRoute  Dimension = "route"
	ByDay    Dimension = "day"
)

// Query asks for the usage of some UTC days.
type Query struct {
	From, To time.Time   // of the first and the last day, both included
	By       []Dimension // in the order of the report's columns and rows; without one there is only the total
}

// ParamError says what is wrong with a parameter of a query.
type ParamError struct{ Name, Message string }

// Error implements error.
func (e *ParamError) Error() string { return e.Name + ": " + e.Message }

// ParseQuery parses the parameters of a query, "" for a missing one. The default is the current month until today, by
// tenant. With only to, the query begins with that day's month. Errors are of type *ParamError.
func ParseQuery(from, to, by string, now time.Time) (q Query, err error) {
	if q.From, q.To, err = parseDays(from, to, MaxDays, now); err != nil {
		return Query{}, err
	}
	if from == "" {
		q.From = q.To.AddDate(0, 0, 1-q.To.Day())
	}
	if by == "" {
		by = string(ByTenant)
	}
	for word := range strings.SplitSeq(by, ",") {
		d := Dimension(strings.TrimSpace(word))
		if !slices.Contains([]Dimension{ByTenant, ByRoute, ByDay}, d) || slices.Contains(q.By, d) {
			return Query{}, &ParamError{"by", "want tenant, route and day, one or more of them, each once, such as tenant,day"}
		}
		q.By = append(q.By, d)
	}
	return q, nil
}

// parseDays parses the first and the last day of a query; both are today by default.
func parseDays(from, to string, most day, now time.Time) (first, last time.Time, err error) {
	parse := func(name, text string, otherwise time.Time) time.Time {
		if text == "" {
			return otherwise
		}
		t, wrong := time.Parse(time.DateOnly, text)
		if wrong != nil || t.Year() < 1970 {
			err = &ParamError{name, "want a UTC day such as 2026-11-23"}
		}
		return t
	}
	last = parse("to", to, dayOf(now).begin())
	first = parse("from", from, last)
	f, l := first.Format(time.DateOnly), last.Format(time.DateOnly)
	switch days := dayOf(last) - dayOf(first) + 1; {
	case err != nil:
	case days < 1:
		err = &ParamError{"from", fmt.Sprintf("%s is after %s; both are UTC days and included", f, l)}
	case days > most:
		err = &ParamError{"from", fmt.Sprintf("%s … %s are %d days; want at most %d", f, l, days, most)}
	}
	return first, last, err
}

// Whose usage a report shows.
const (
	ScopeFleet   = "fleet"
	ScopeReplica = "replica" // without Redis
)

// MaxReportRows bounds the rows of a report.
const MaxReportRows = 20_000

// ErrTooManyRows means that a report has more rows than are told.
var ErrTooManyRows = fmt.Errorf("the usage has more than %d rows", MaxReportRows)

// Span says whose usage a report shows, and of which UTC days.
type Span struct {
	From    string     `json:"from"` // the first and the last day, both included
	To      string     `json:"to"`
	Scope   string     `json:"scope"`           // fleet, or replica: the one that was asked
	Since   *time.Time `json:"since,omitempty"` // where usage is only in the process' memory, or in a Redis inside it: its start
	Damaged int        `json:"damaged_fields"`  // fields in Redis that are not usage and were not counted
}

// Report is the usage of some UTC days, as GET /admin/usage shows it.
type Report struct {
	Span
	By    []Dimension `json:"by"`
	Rows  []Row       `json:"rows"` // ordered by their groups
	Total Row         `json:"total"`
}

// Row is the usage of one group. What the report is not grouped by is "".
type Row struct {
	Tenant string `json:"tenant,omitempty"`
	Route  string `json:"route,omitempty"`
	Day    string `json:"day,omitempty"`
	Counts
	USD Nanos `json:"usd"` // draft_usd and target_usd together
}

// Group returns the row's value of a dimension.
func (r *Row) Group(by Dimension) string {
	return map[Dimension]string{ByTenant: r.Tenant, ByRoute: r.Route, ByDay: r.Day}[by]
}

// read reads rows of some days, and says what they are.
func (l *Ledger) read(ctx context.Context, kind string, from, to time.Time, see func(day, rowKey, sums)) (s Span, err error) {
	s = Span{From: from.Format(time.DateOnly), To: to.Format(time.DateOnly), Scope: ScopeFleet}
	if l.redis == nil {
		s.Scope = ScopeReplica
	}
	if l.redis == nil || l.o.Embedded {
		s.Since = &l.book.began
	}
	if s.Damaged, err = l.readRows(ctx, kind, dayOf(from), dayOf(to), see); s.Damaged > 0 {
		l.log.Warn().Int("fields", s.Damaged).Msg("usage in Redis has fields that are not usage; they are not counted")
	}
	return s, err
}

// Read returns the usage of the fleet, or of this process without Redis. Errors are [ErrAway], [ErrTooManyRows] and the
// context's.
func (l *Ledger) Read(ctx context.Context, q Query) (*Report, error) {
	rows, total := map[Row]*Row{}, Row{} // by their groups
	span, err := l.read(ctx, pageUsage, q.From, q.To, func(d day, key rowKey, n sums) {
		total.add(n)
		var g Row
		for _, by := range q.By {
			switch by {
			case ByTenant:
				g.Tenant = key.name
			case ByRoute:
				g.Route = key.route
			case ByDay:
				g.Day = d.begin().Format(time.DateOnly)
			}
		}
		if rows[g] == nil && len(rows) <= MaxReportRows {
			first := g
			rows[g] = &first
		}
		if row := rows[g]; row != nil {
			row.add(n)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) > MaxReportRows:
		return nil, ErrTooManyRows
	}
	total.USD = total.Counts.USD()
	report := &Report{Span: span, By: q.By, Rows: make([]Row, 0, len(rows)), Total: total}
	for _, row := range rows {
		row.USD = row.Counts.USD()
		report.Rows = append(report.Rows, *row)
	}
	slices.SortFunc(report.Rows, func(a, b Row) int {
		for _, by := range report.By {
			if order := cmp.Compare(a.Group(by), b.Group(by)); order != 0 {
				return order
			}
		}
		return 0
	})
	return report, nil
}
