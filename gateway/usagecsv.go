package gateway

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/foregate/foregate/gateway/ledger"
)

// columnsOfCSV are the counts in the order of a CSV file, by their names in JSON.
var columnsOfCSV = []string{
	"requests", "ok", "refused", "limited", "shed", "failed", "client_left", "cached_answers", "coalesced_answers",
	"prompt_tokens", "completion_tokens", "draft_tokens", "cached_tokens",
	"draft_usd", "target_usd", "usd", "target_alone_usd", "saved_by_drafts_usd", "saved_by_cache_usd",
}

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
