package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	USD Nanos `json:"usd"` // draft_usd, target_usd and audit_usd together
}

// finish sets the sum, and amounts that are unknown.
func (r *Row) finish() {
	r.USD = r.Counts.USD()
	if r.blank(); r.USD == 0 && r.Unpriced > 0 {
		r.USD = Unknown
	}
}

// Group returns the row's value of a dimension.
func (r *Row) Group(by Dimension) string { return *r.group(by) }

func (r *Row) group(by Dimension) *string {
	switch by {
	case ByTenant:
		return &r.Tenant
	case ByRoute:
		return &r.Route
	}
	return &r.Day
}

// Read returns the usage of the fleet, or of this process without Redis. Errors are [ErrAway], [ErrTooManyRows] and the
// context's.
func (l *Ledger) Read(ctx context.Context, q Query) (*Report, error) {
	groups, total := map[Row]*Row{}, Row{}
	span, err := l.read(ctx, pageUsage, q.From, q.To, func(key rowKey, n sums) bool {
		total.add(n)
		all, g := Row{Tenant: key.name, Route: key.route, Day: key.day.begin().Format(time.DateOnly)}, Row{}
		for _, by := range q.By {
			*g.group(by) = all.Group(by)
		}
		row := groups[g]
		if row == nil && len(groups) <= MaxReportRows {
			first := g
			row = &first
			groups[g] = row
		}
		if row != nil {
			row.add(n)
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case len(groups) > MaxReportRows:
		return nil, ErrTooManyRows
	}
	report := &Report{Span: span, By: q.By, Rows: make([]Row, 0, len(groups)), Total: total}
	report.Total.finish()
	for _, row := range groups {
		row.finish()
		report.Rows = append(report.Rows, *row)
	}
	slices.SortFunc(report.Rows, func(a, b Row) int {
		order := 0
		for _, by := range q.By {
			order = cmp.Or(order, cmp.Compare(a.Group(by), b.Group(by)))
		}
		return order
	})
	return report, nil
}
