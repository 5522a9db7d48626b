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
	q.To = pageOf(now).begin()
	if to != "" {
		if q.To, err = parseDay("to", to); err != nil {
			return Query{}, err
		}
	}
	q.From = q.To.AddDate(0, 0, 1-q.To.Day())
	if from != "" {
		if q.From, err = parseDay("from", from); err != nil {
			return Query{}, err
		}
	}
	first, last := q.From.Format(time.DateOnly), q.To.Format(time.DateOnly)
	switch days := pageOf(q.To) - pageOf(q.From) + 1; {
	case days < 1:
		return Query{}, &ParamError{"from", fmt.Sprintf("%s is after %s; both are UTC days and included", first, last)}
	case days > MaxDays:
		return Query{}, &ParamError{"from", fmt.Sprintf("%s … %s are %d days; want at most %d", first, last, days, MaxDays)}
	}
	q.By, err = parseBy(by)
	return q, err
}

func parseDay(name, text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 {
		return time.Time{}, &ParamError{name, "want a UTC day such as 2026-11-23"}
	}
	return t, nil
}

func parseBy(text string) (by []Dimension, err error) {
	if text == "" {
		return []Dimension{ByTenant}, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		d := Dimension(strings.TrimSpace(word))
		if !slices.Contains([]Dimension{ByTenant, ByRoute, ByDay}, d) || slices.Contains(by, d) {
			return nil, &ParamError{"by", "want tenant, route and day, one or more of them, each once, such as tenant,day"}
		}
		by = append(by, d)
	}
	return by, nil
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

// Report is the usage of some UTC days, as GET /admin/usage shows it.
type Report struct {
	From    string      `json:"from"` // the first and the last day, both included
	To      string      `json:"to"`
	By      []Dimension `json:"by"`
	Scope   string      `json:"scope"`           // fleet, or replica: the one that was asked
	Since   *time.Time  `json:"since,omitempty"` // where usage is only in the process' memory, or in a Redis inside it: its start
	Damaged int         `json:"damaged_fields"`  // fields in Redis that are not usage and were not counted
	Rows    []Row       `json:"rows"`            // ordered by their groups
	Total   Row         `json:"total"`
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
	switch by {
	case ByTenant:
		return r.Tenant
	case ByRoute:
		return r.Route
	}
	return r.Day
}

func rowOf(c Counts) Row { return Row{Counts: c, USD: c.DraftUSD + c.TargetUSD} }

// Read returns the usage of the fleet, or of this process without Redis. Errors are [ErrAway], [ErrTooManyRows] and the
// context's.
func (l *Ledger) Read(ctx context.Context, q Query) (*Report, error) {
	type group struct{ tenant, route, day string }
	groups, total := map[group]*Counts{}, Counts{}
	report := &Report{From: q.From.Format(time.DateOnly), To: q.To.Format(time.DateOnly), By: q.By, Scope: ScopeFleet}
	if l.redis == nil {
		report.Scope = ScopeReplica
	}
	if l.redis == nil || l.o.Embedded {
		report.Since = &l.usage.began
	}
	var err error
	report.Damaged, err = l.readRows(ctx, pageOf(q.From), pageOf(q.To), func(p page, key rowKey, n sums) {
		c := countsOf(n)
		total.Add(&c)
		var g group
		for _, by := range q.By {
			switch by {
			case ByTenant:
				g.tenant = key.tenant
			case ByRoute:
				g.route = key.route
			case ByDay:
				g.day = p.begin().Format(time.DateOnly)
			}
		}
		all := groups[g]
		if all == nil && len(groups) > MaxReportRows {
			return
		} else if all == nil {
			all = &Counts{}
			groups[g] = all
		}
		all.Add(&c)
	})
	switch {
	case err != nil:
		return nil, err
	case len(groups) > MaxReportRows:
		return nil, ErrTooManyRows
	case report.Damaged > 0:
		l.log.Warn().Int("fields", report.Damaged).Msg("usage in Redis has fields that are not usage; they are not counted")
	}
	report.Rows, report.Total = make([]Row, 0, len(groups)), rowOf(total)
	for g, c := range groups {
		row := rowOf(*c)
		row.Tenant, row.Route, row.Day = g.tenant, g.route, g.day
		report.Rows = append(report.Rows, row)
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
