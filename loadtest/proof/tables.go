package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest"
)

// table is a scenario whose cases the page shows beside each other.
type table struct {
	Scenario, Title, About string
	Cases                  []string
	Columns                []tableColumn
	// Comparisons are said under the table; they compare means of two cases.
	Comparisons []comparison
}

// comparison is a sentence with the ratio of a column's mean in one case to that in another.
type comparison struct{ Text, Column, Case, Beside string } // Text has %s for the ratio

// tableColumn is a figure of every case.
type tableColumn struct {
	Name string
	Unit Unit
	Of   func(r loadtest.Row) float64
}

// tables are all of them.
func tables() []table { return []table{dayTable(), qualityTable()} }

const (
	costColumn  = "cost beside the target alone"
	wrongColumn = "wrong of all answers"
	priceColumn = "by token prices"
	ttftColumn  = "TTFT p99"
)

func dayTable() table {
	return table{
		Scenario: "day", Title: "A day",
		About: "Diurnal load with bursts, tenants of three priorities, retrieved documents, several turns, repeats; a bad threshold that is set live and rolled back, a lost target, a Redis failover. " +
			"The second of two days of twelve virtual minutes each (`loadtest/scenarios/day.yaml` has the load, the hardware and what was chosen). *foregate* is the default, mode `risk` with ε = .10; each *without* leaves one part out.",
		Cases: []string{"naive, equal cost", "naive, equal hardware", "foregate", "confidence", "without cache", "without routing", "without shedding", "without drafts", "no drafts, equal cost"},
		Columns: []tableColumn{
			{"rent, $/h", dollars, func(r loadtest.Row) float64 { return r.Rent }},
			{"answers/s", perSecond, func(r loadtest.Row) float64 { return r.RequestsPerSecond }},
			{"lost", share, lostShare},
			{"high priority lost", plain, func(r loadtest.Row) float64 { return float64(r.HighLost) }},
			{"TTFT p50", milliseconds, func(r loadtest.Row) float64 { return r.TTFT50 }},
			{ttftColumn, milliseconds, func(r loadtest.Row) float64 { return r.TTFT99 }},
			{"E2E p99", milliseconds, func(r loadtest.Row) float64 { return r.E2E99 }},
			{"rent per million tokens", dollars, func(r loadtest.Row) float64 { return r.RentPerMTok }},
			{priceColumn, dollars, func(r loadtest.Row) float64 { return r.PricedPerMTok }},
			{"target GPUs busy", share, func(r loadtest.Row) float64 { return r.TargetUtilisation }},
			{"cached", share, func(r loadtest.Row) float64 { return r.CacheHitRate }},
			{"drafted tokens", share, func(r loadtest.Row) float64 { return r.DraftTokenShare }},
			{wrongColumn, share, func(r loadtest.Row) float64 { return r.WrongShare }},
		},
		Comparisons: []comparison{
			{"By token prices, foregate costs %s of the naive setup of equal rent,", priceColumn, "foregate", "naive, equal cost"},
			{"and %s of the same targets with cache and routing but without drafts.", priceColumn, "foregate", "without drafts"},
			{"Drafts do not save time: where their rent pays for another target, the P99 to first token is %s of foregate's.", ttftColumn, "no drafts, equal cost", "foregate"},
		},
	}
}

func qualityTable() table {
	return table{
		Scenario: "quality-cost", Title: "Quality beside cost",
		About: "One kind of request, of whose drafts a sixth is wrong, at a load that makes nobody wait. A fixed threshold, mode `risk` at five ε, a router that sends a share of the requests to the draft by chance, and an oracle that knows the loosest threshold with at most ε of the drafts wrong. " +
			"Cost: prices of tokens, audits included. *Wrong*: answers that the target would refuse.",
		Cases: []string{"target alone", "threshold 0", "threshold 0.2", "threshold 0.26", "threshold 0.3", "threshold 0.315", "risk 0.05", "risk 0.08", "risk 0.1", "risk 0.12", "risk 0.15",
			"router 0.25", "router 0.5", "router 0.75", "oracle 0.08", "oracle 0.1", "oracle 0.12", "oracle 0.15"},
		Columns: []tableColumn{
			{costColumn, times, func(r loadtest.Row) float64 { return r.PricedPerMTok }}, // divided by that of the first case
			{"answers by the draft", share, func(r loadtest.Row) float64 { return r.Served }},
			{"wrong of these", share, func(r loadtest.Row) float64 { return r.UnverifiedWrong }},
			{wrongColumn, share, func(r loadtest.Row) float64 { return r.WrongShare }},
			{"TTFT p50", milliseconds, func(r loadtest.Row) float64 { return r.TTFT50 }},
			{"TTFT p95", milliseconds, func(r loadtest.Row) float64 { return r.TTFT95 }},
		},
	}
}

func tableNames() (out []string) {
	for _, t := range tables() {
		out = append(out, t.Scenario)
	}
	return out
}

// cells are the table's figures.
func (t *table) cells(all map[runKey]rows, seeds []uint64) map[string]tableCells {
	out := map[string]tableCells{}
	for _, name := range t.Cases {
		out[name] = tableCells{}
		for _, column := range t.Columns {
			for _, seed := range seeds {
				row := all[runKey{t.Scenario, seed}]
				v := column.Of(row[name])
				if column.Name == costColumn {
					v /= max(column.Of(row[t.Cases[0]]), 1e-12)
				}
				out[name][column.Name] = append(out[name][column.Name], v)
			}
		}
	}
	return out
}

// section is the table as it is written.
func (t *table) section(cells map[string]tableCells) section {
	g := grid{Head: []string{"case"}}
	for _, c := range t.Columns {
		g.Head = append(g.Head, c.Name)
	}
	for _, name := range t.Cases {
		out := []string{name}
		for _, c := range t.Columns {
			out = append(out, c.Unit.Spread(spread(cells[name][c.Name])))
		}
		g.Rows = append(g.Rows, out)
	}
	s := section{Title: t.Title, About: t.About, Grids: []grid{g}}
	if len(cells) > 0 && len(t.Comparisons) > 0 {
		s.Grids = append(s.Grids, grid{Text: t.compared(cells)})
	}
	return s
}

// compared are the table's comparisons in words.
func (t *table) compared(cells map[string]tableCells) string {
	out := make([]string, len(t.Comparisons))
	for i, c := range t.Comparisons {
		ratio := spread(cells[c.Case][c.Column]).Mean / max(spread(cells[c.Beside][c.Column]).Mean, 1e-12)
		out[i] = fmt.Sprintf(c.Text, times.Text(ratio))
	}
	return strings.Join(out, " ")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
