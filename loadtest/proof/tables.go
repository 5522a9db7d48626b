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
}

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
			{"TTFT p99", milliseconds, func(r loadtest.Row) float64 { return r.TTFT99 }},
			{"E2E p99", milliseconds, func(r loadtest.Row) float64 { return r.E2E99 }},
			{"rent per million tokens", dollars, func(r loadtest.Row) float64 { return r.RentPerMTok }},
			{"by token prices", dollars, func(r loadtest.Row) float64 { return r.PricedPerMTok }},
			{"target GPUs busy", share, func(r loadtest.Row) float64 { return r.TargetUtilisation }},
			{"cached", share, func(r loadtest.Row) float64 { return r.CacheHitRate }},
			{"drafted tokens", share, func(r loadtest.Row) float64 { return r.DraftTokenShare }},
			{wrongColumn, share, func(r loadtest.Row) float64 { return r.WrongShare }},
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

// write puts the table onto the page.
func (t *table) write(b *strings.Builder, cells map[string]tableCells) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", t.Title, t.About)
	head, body := t.text(cells)
	row(b, head...)
	line(b, len(head))
	for _, cells := range body {
		row(b, cells...)
	}
}

// text are the table's head and lines, as they are written.
func (t *table) text(cells map[string]tableCells) (head []string, body [][]string) {
	head = []string{"case"}
	for _, c := range t.Columns {
		head = append(head, c.Name)
	}
	for _, cs := range t.Cases {
		out := []string{cs}
		for _, c := range t.Columns {
			out = append(out, c.Unit.Spread(spread(cells[cs][c.Name])))
		}
		body = append(body, out)
	}
	return head, body
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
