package usage

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Whose usage a report shows.
const (
	ScopeFleet   = "fleet"
	ScopeReplica = "replica" // without Redis
)

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

func rowFor(c *Counts) Row { return Row{Counts: *c, USD: c.DraftUSD + c.TargetUSD} }

// fill writes the rows of a report.
func (s *sum) fill(r *Report) {
	r.Rows, r.Total = make([]Row, 0, len(s.rows)), rowFor(&s.total)
	for g, c := range s.rows {
		row := rowFor(c)
		row.Tenant, row.Route = g.tenant, g.route
		if s.query.has(ByDay) {
			row.Day = g.day.String()
		}
		r.Rows = append(r.Rows, row)
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		for _, by := range r.By {
			if order := cmp.Compare(a.Group(by), b.Group(by)); order != 0 {
				return order
			}
		}
		return 0
	})
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

// column is a count in a table.
type column struct {
	name  string // as in JSON
	value func(r *Row) string
}

func number(name string, of func(r *Row) int64) column {
	return column{name, func(r *Row) string { return strconv.FormatInt(of(r), 10) }}
}

func amount(name string, of func(r *Row) Nanos) column {
	return column{name, func(r *Row) string { return of(r).String() }}
}

// columnsOfCSV are the counts in the order of a CSV file.
var columnsOfCSV = []column{
	number("requests", func(r *Row) int64 { return r.Requests }),
	number("ok", func(r *Row) int64 { return r.OK }),
	number("refused", func(r *Row) int64 { return r.Refused }),
	number("limited", func(r *Row) int64 { return r.Limited }),
	number("shed", func(r *Row) int64 { return r.Shed }),
	number("failed", func(r *Row) int64 { return r.Failed }),
	number("client_left", func(r *Row) int64 { return r.ClientLeft }),
	number("cached_answers", func(r *Row) int64 { return r.Cached }),
	number("coalesced_answers", func(r *Row) int64 { return r.Coalesced }),
	number("prompt_tokens", func(r *Row) int64 { return r.Prompt }),
	number("completion_tokens", func(r *Row) int64 { return r.Completion }),
	number("draft_tokens", func(r *Row) int64 { return r.DraftTokens }),
	number("cached_tokens", func(r *Row) int64 { return r.CachedTokens }),
	amount("draft_usd", func(r *Row) Nanos { return r.DraftUSD }),
	amount("target_usd", func(r *Row) Nanos { return r.TargetUSD }),
	amount("usd", func(r *Row) Nanos { return r.USD }),
	amount("target_alone_usd", func(r *Row) Nanos { return r.TargetAloneUSD }),
	amount("saved_by_drafts_usd", func(r *Row) Nanos { return r.DraftsSaved }),
	amount("saved_by_cache_usd", func(r *Row) Nanos { return r.CacheSaved }),
}

// WriteCSV writes the rows as RFC 4180 wants it: a line of names, then one line per row, without the total. Decimals
// have a point. A name that a spreadsheet would take for a formula begins with an apostrophe.
func (r *Report) WriteCSV(w io.Writer) error {
	lines := csv.NewWriter(w)
	lines.UseCRLF = true
	cells := make([]string, 0, len(r.By)+len(columnsOfCSV))
	for _, by := range r.By {
		cells = append(cells, string(by))
	}
	for _, c := range columnsOfCSV {
		cells = append(cells, c.name)
	}
	if err := lines.Write(cells); err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells = cells[:0]
		for _, by := range r.By {
			cells = append(cells, cell(row.Group(by)))
		}
		for _, c := range columnsOfCSV {
			cells = append(cells, c.value(row))
		}
		if err := lines.Write(cells); err != nil {
			return err
		}
	}
	lines.Flush()
	return lines.Error()
}

// cell makes a name harmless in a spreadsheet: it is not taken for a formula, and it is one line of text.
func cell(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	if first, _ := utf8.DecodeRuneInString(name); strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + name
	}
	return name
}
