package gateway

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/words"
)

// countUsage counts a finished request for its tenant. Requests without a known route are not counted: they used nothing.
func (g *Gateway) countUsage(l *accessRecord, took time.Duration) {
	if l.route == "" {
		return
	}
	u := ledger.Use{Began: l.Began, Tenant: l.Caller.Tenant, Route: l.route, Counts: usageOf(l), Took: took}
	if l.Receipt != nil {
		u.First = l.Receipt.First
	}
	g.opts.Ledger.Add(&u)
}

// usageOf returns the usage of one request, as its receipt tells it.
func usageOf(l *accessRecord) ledger.Counts {
	c := ledger.Counts{Requests: 1}
	switch {
	case l.code == statusGone:
		c.ClientLeft = 1
	case l.code == http.StatusTooManyRequests:
		c.Limited = 1
	case l.code == http.StatusServiceUnavailable:
		c.Shed = 1
	case l.code >= http.StatusInternalServerError && !l.isClients():
		c.Failed = 1
	case l.code >= http.StatusBadRequest:
		c.Refused = 1
	default:
		c.OK = 1
	}
	if e := l.Entry; e != nil {
		if l.Cache == cache.ResultCoalesced {
			c.Coalesced = 1
		} else {
			c.Cached = 1
		}
		c.Prompt, c.Completion = int64(e.Prompt), int64(e.Accepted+e.Target)
		c.CachedTokens, c.CacheSaved = c.Prompt+c.Completion, ledger.NanosOf(e.USD)
		return c
	}
	if rc := l.Receipt; rc != nil {
		c.Prompt, c.Completion, c.DraftTokens = int64(rc.PromptTokens), int64(rc.AcceptedTokens+rc.TargetTokens), int64(rc.AcceptedTokens)
		c.DraftUSD = ledger.NanosOf(rc.DraftUSD)
		c.TargetUSD = ledger.NanosOf(rc.USD) - c.DraftUSD
		c.DraftsSaved = ledger.NanosOf(rc.SavedUSD)
		c.TargetAloneUSD = c.USD() + c.DraftsSaved
		if rc.Unpriced {
			c.Unpriced = 1
		}
	}
	return c
}

// usageTimeout bounds reading and sending usage.
const usageTimeout = 30 * time.Second

// usage answers GET /admin/usage?from=&to=&by=&format= with JSON or CSV.
func (g *Gateway) usage(w http.ResponseWriter, r *http.Request) (any, error) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(usageTimeout)) // net/http always supports it
	q, err := query(r, "from", "to", "by", "format")
	if err != nil {
		return nil, err
	}
	if q.Has("format") && q.Get("format") != "json" && q.Get("format") != "csv" {
		return nil, badParam("format", "want json or csv")
	}
	for _, name := range []string{"from", "to", "by"} {
		if q.Has(name) && q.Get(name) == "" {
			return nil, badParam(name, "is empty")
		}
	}
	wanted, err := usageQuery(q.Get("from"), q.Get("to"), q.Get("by"), time.Now())
	if err != nil {
		return nil, err
	}
	report, err := g.opts.Ledger.Read(r.Context(), wanted)
	if err != nil || q.Get("format") != "csv" {
		return report, err
	}
	var table bytes.Buffer
	if err := writeCSV(&table, report); err != nil {
		return nil, err
	}
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="foregate-usage-%s-%s.csv"`, report.From, report.To))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(table.Bytes()) // the client may have disconnected
	return nil, nil
}

// usageHours answers GET /admin/usage/hours?from=&to=.
func (g *Gateway) usageHours(w http.ResponseWriter, r *http.Request) (any, error) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(usageTimeout)) // net/http always supports it
	q, err := query(r, "from", "to")
	if err != nil {
		return nil, err
	}
	from, to, err := daysOf(q.Get("from"), q.Get("to"), ledger.MaxHourDays, time.Now())
	if err != nil {
		return nil, err
	}
	if q.Get("from") == "" {
		from = to.AddDate(0, 0, -7)
	}
	return g.opts.Ledger.ReadHours(r.Context(), from, to)
}

// usageQuery reads the parameters of a query for usage, "" for a missing one. The default is the current month until today, by
// tenant. With only to, the query begins with that day's month.
func usageQuery(from, to, by string, now time.Time) (q ledger.Query, err error) {
	if q.From, q.To, err = daysOf(from, to, ledger.MaxDays, now); err != nil {
		return ledger.Query{}, err
	}
	if from == "" {
		q.From = q.To.AddDate(0, 0, 1-q.To.Day())
	}
	for word := range strings.SplitSeq(cmp.Or(by, string(ledger.ByTenant)), ",") {
		d := ledger.Dimension(strings.TrimSpace(word))
		if !slices.Contains([]ledger.Dimension{ledger.ByTenant, ledger.ByRoute, ledger.ByDay}, d) || slices.Contains(q.By, d) {
			return ledger.Query{}, badParam("by", "want tenant, route and day, one or more of them, each once, such as tenant,day")
		}
		q.By = append(q.By, d)
	}
	return q, nil
}

// daysOf reads the first and the last day of a query; both are today by default.
func daysOf(from, to string, most int, now time.Time) (first, last time.Time, err error) {
	const day = 24 * time.Hour
	parse := func(name, text string, otherwise time.Time) time.Time {
		if text == "" {
			return otherwise
		}
		t, wrong := time.Parse(time.DateOnly, text)
		if wrong != nil || t.Year() < 1970 {
			err = badParam(name, "want a UTC day such as 2026-11-23")
		}
		return t
	}
	last = parse("to", to, now.UTC().Truncate(day))
	first = parse("from", from, last)
	if err != nil {
		return first, last, err
	}
	f, l := first.Format(time.DateOnly), last.Format(time.DateOnly)
	switch days := int(last.Sub(first)/day) + 1; {
	case days < 1:
		err = badParam("from", fmt.Sprintf("%s is after %s; both are UTC days and included", f, l))
	case days > most:
		err = badParam("from", fmt.Sprintf("%s … %s are %d days; want at most %d", f, l, days, most))
	}
	return first, last, err
}

// columnsOfCSV are the counts in the order of a CSV file, by their names in JSON: usd is behind what it is the sum of.
var columnsOfCSV = slices.Insert(ledger.Columns(), slices.Index(ledger.Columns(), "target_usd")+1, "usd")

// numbersOf returns the counts of a row by their names in JSON.
func numbersOf(r *ledger.Row) (all map[string]json.Number, err error) {
	counts, err := json.Marshal(ledger.Row{Counts: r.Counts, USD: r.USD}) // without names, which are no numbers
	if err == nil {
		err = json.Unmarshal(counts, &all)
	}
	return all, err
}

// writeCSV writes the rows of a report as RFC 4180 wants it: a line of names, then one line per row, without the total. Decimals
// have a point. A name that a spreadsheet would take for a formula begins with an apostrophe.
func writeCSV(w io.Writer, r *ledger.Report) error {
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
		numbers, err := numbersOf(row)
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
	name = words.Printable(name)
	if first, _ := utf8.DecodeRuneInString(name); strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + name
	}
	return name
}
