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
	Of   func(c *loadtest.Case, r loadtest.Row) float64
}

// tables are all of them.
func tables() []table { return []table{dayTable(), qualityTable()} }

// of is a column that the row alone tells.
func of(name string, unit Unit, value func(r loadtest.Row) float64) tableColumn {
	return tableColumn{name, unit, func(_ *loadtest.Case, r loadtest.Row) float64 { return value(r) }}
}

const (
	costColumn  = "cost beside the target alone"
	wrongColumn = "wrong of all answers"
)

func dayTable() table {
	return table{
		Scenario: "day", Title: "A day",
		About: "Diurnal load with bursts, tenants of three priorities, retrieved documents, several turns, repeats; a bad threshold that is set live and rolled back, a lost target, a Redis failover. " +
			"A day in sixteen minutes of virtual time (`loadtest/scenarios/day.yaml` has the load, the hardware and what was chosen). *foregate* is the default, mode `risk` with ε = .10; each *without* leaves one part out.",
		Cases: []string{"naive, equal cost", "naive, equal hardware", "foregate", "without cache", "without routing", "without shedding", "without drafts", "no drafts, equal cost"},
		Columns: []tableColumn{
			{"rent, $/h", dollars, func(c *loadtest.Case, _ loadtest.Row) float64 { return rent(c) }},
			of("answers/s", perSecond, func(r loadtest.Row) float64 { return r.RequestsPerSecond }),
			of("lost", share, lostShare),
			of("high priority lost", plain, func(r loadtest.Row) float64 { return float64(r.HighLost) }),
			of("TTFT p50", milliseconds, func(r loadtest.Row) float64 { return r.TTFT50 }),
			of("TTFT p99", milliseconds, func(r loadtest.Row) float64 { return r.TTFT99 }),
			of("E2E p99", milliseconds, func(r loadtest.Row) float64 { return r.E2E99 }),
			{"rent per million tokens", dollars, func(c *loadtest.Case, r loadtest.Row) float64 {
				return rent(c) / 3600 / max(r.TokensPerSecond, 1e-9) * 1e6
			}},
			{"target GPUs busy", share, utilisation},
			of("cached", share, func(r loadtest.Row) float64 { return r.CacheHitRate }),
			of("drafted tokens", share, func(r loadtest.Row) float64 { return r.DraftTokenShare }),
			of(wrongColumn, share, wrongShare),
		},
	}
}

// rent is what the backends of a case cost, in dollars an hour.
func rent(c *loadtest.Case) float64 {
	usd := float64(c.Target.Count) * c.Target.USDPerHour
	if c.Draft != nil {
		usd += float64(c.Draft.Count) * c.Draft.USDPerHour
	}
	return usd
}

// utilisation is the share of the measured time in which the targets compute.
func utilisation(c *loadtest.Case, r loadtest.Row) float64 {
	hours := window(r) / 3600
	return r.TargetUSD / max(c.Target.USDPerHour*float64(c.Target.Count)*hours, 1e-9)
}

// wrongShare are the answers that the target would have refused, of all.
func wrongShare(r loadtest.Row) float64 { return r.Served * r.UnverifiedWrong }

func qualityTable() table {
	return table{
		Scenario: "quality-cost", Title: "Quality beside cost",
		About: "One kind of request, of whose drafts a sixth is wrong, at a load that makes nobody wait. A fixed threshold, mode `risk` at five ε, a router that sends a share of the requests to the draft by chance, and an oracle that knows the loosest threshold with at most ε of the drafts wrong. " +
			"Cost: prices of tokens, audits included. *Wrong*: answers that the target would refuse.",
		Cases: []string{"target alone", "threshold 0", "threshold 0.2", "threshold 0.26", "threshold 0.3", "threshold 0.315", "risk 0.05", "risk 0.08", "risk 0.1", "risk 0.12", "risk 0.15",
			"router 0.25", "router 0.5", "router 0.75", "oracle 0.08", "oracle 0.1", "oracle 0.12", "oracle 0.15"},
		Columns: []tableColumn{
			of(costColumn, times, func(r loadtest.Row) float64 { return r.PricedPerMTok }), // divided by that of the first case
			of("answers by the draft", share, func(r loadtest.Row) float64 { return r.Served }),
			of("wrong of these", share, func(r loadtest.Row) float64 { return r.UnverifiedWrong }),
			of(wrongColumn, share, wrongShare),
			of("TTFT p50", milliseconds, func(r loadtest.Row) float64 { return r.TTFT50 }),
			of("TTFT p95", milliseconds, func(r loadtest.Row) float64 { return r.TTFT95 }),
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
func (t *table) cells(s *loadtest.Scenario, all map[runKey]rows, seeds []uint64) map[string]tableCells {
	out := map[string]tableCells{}
	for i := range s.Cases {
		c := &s.Cases[i]
		if !slices.Contains(t.Cases, c.Name) {
			continue
		}
		out[c.Name] = tableCells{}
		for _, column := range t.Columns {
			for _, seed := range seeds {
				row := all[runKey{t.Scenario, seed}]
				v := column.Of(c, row[c.Name])
				if column.Name == costColumn {
					v /= max(column.Of(c, row[t.Cases[0]]), 1e-12)
				}
				out[c.Name][column.Name] = append(out[c.Name][column.Name], v)
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
