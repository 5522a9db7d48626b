package usage

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
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

// columnsOfCSV are the counts in the order of a CSV file, by their names in JSON.
var columnsOfCSV = []string{
	"requests", "ok", "refused", "limited", "shed", "failed", "client_left", "cached_answers", "coalesced_answers",
	"prompt_tokens", "completion_tokens", "draft_tokens", "cached_tokens",
	"draft_usd", "target_usd", "usd", "target_alone_usd", "saved_by_drafts_usd", "saved_by_cache_usd",
}

// numbers returns the counts of a row by their names in JSON.
func (r *Row) numbers() (all map[string]json.Number, err error) {
	counts, err := json.Marshal(Row{Counts: r.Counts, USD: r.USD}) // without names, which are no numbers
	if err == nil {
		err = json.Unmarshal(counts, &all)
	}
	return all, err
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
	cells = append(cells, columnsOfCSV...)
	if err := lines.Write(cells); err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells = cells[:0]
		for _, by := range r.By {
			cells = append(cells, cell(row.Group(by)))
		}
		numbers, err := row.numbers()
		if err != nil {
			return err
		}
		for _, name := range columnsOfCSV {
			cells = append(cells, numbers[name].String())
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
