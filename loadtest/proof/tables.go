package proof

import (
	"cmp"
	"maps"
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// table is a scenario whose cases the page shows beside each other.
type table struct {
	Scenario, Title, About string
	Cases                  []string
	Columns                []tableColumn
	Beside                 []string // cases that foregate is compared with
}

// comparedColumns are those in which the case foregate is compared with others.
var comparedColumns = []string{priceColumn, widePriceColumn, rentColumn, ttftColumn, "E2E p99"}

// tableColumn is a figure of every case.
type tableColumn struct {
	Name string
	Unit Unit
	Of   func(r loadtest.Row) float64
}

// tables are all of them.
func tables() []table { return []table{dayTable(), qualityTable()} }

const (
	costColumn     = "cost beside the target alone"
	wideCostColumn = "with prices of 128 at once"
	ofAllColumn    = "disagreement of all answers"
	rentColumn     = "rent per million tokens"
	priceColumn    = "by token prices"
	ttftColumn     = "TTFT p99"

	widePriceColumn = "by those of 128 at once"

	// pricesAre says what prices of tokens are.
	pricesAre = "A token's price is the rent ÷ the tokens per second of an engine that runs 64 sequences at once, or 128: a target's token costs less in larger batches, a draft's hardly."
)

func dayTable() table {
	return table{
		Scenario: "day", Title: "A day",
		About: "Diurnal load with bursts, tenants of three priorities, retrieved documents, several turns, repeats; a bad threshold that is set live and rolled back, a lost target, a Redis failover. " +
			"The second of two days of twelve virtual minutes each (`loadtest/scenarios/day.yaml` has the load, the hardware and what was chosen). *foregate* is the default, mode `risk` with ε = .10; each *without* leaves one part out. An A10G cannot hold the target, so *naive, same targets* has the two target servers alone, as *without drafts*. " +
			pricesAre,
		Cases: []string{"naive, equal cost", "naive, same targets", "foregate", "confidence", "without cache", "without routing", "without shedding", "without drafts", "no drafts, equal cost"},
		Columns: []tableColumn{
			{"rent, $/h", dollars, func(r loadtest.Row) float64 { return r.Rent }},
			{"answers/s", perSecond, func(r loadtest.Row) float64 { return r.RequestsPerSecond }},
			{"lost", share, lostShare},
			{"high priority lost", plain, func(r loadtest.Row) float64 { return float64(r.HighLost) }},
			{"TTFT p50", milliseconds, func(r loadtest.Row) float64 { return r.TTFT50 }},
			{ttftColumn, milliseconds, func(r loadtest.Row) float64 { return r.TTFT99 }},
			{"E2E p99", milliseconds, func(r loadtest.Row) float64 { return r.E2E99 }},
			{rentColumn, dollars, func(r loadtest.Row) float64 { return r.RentPerMTok }},
			{priceColumn, dollars, func(r loadtest.Row) float64 { return r.PricedPerMTok }},
			{widePriceColumn, dollars, func(r loadtest.Row) float64 { return r.WidePricedPerMTok }},
			{"target GPUs busy", share, func(r loadtest.Row) float64 { return r.TargetUtilisation }},
			{"cached", share, func(r loadtest.Row) float64 { return r.CacheHitRate }},
			{"drafted tokens", share, func(r loadtest.Row) float64 { return r.DraftTokenShare }},
			{ofAllColumn, share, func(r loadtest.Row) float64 { return r.DisagreementOfAll }},
		},
		Beside: []string{"naive, equal cost", "no drafts, equal cost", "without drafts"},
	}
}

func qualityTable() table {
	return table{
		Scenario: "quality-cost", Title: "Quality beside cost",
		About: "One kind of request, of whose drafts a sixth is wrong, at a load that makes nobody wait. A fixed threshold, mode `risk` at five ε, a router that sends a share of the requests to the draft by chance, and an oracle that knows the loosest threshold with at most ε of the drafts wrong. " +
			"Cost: prices of tokens, audits included; the first twenty of thirty minutes are a warm-up and not counted. *Disagreement*: answers that the target would refuse. " + pricesAre,
		Cases: []string{"target alone", "threshold 0", "threshold 0.2", "threshold 0.26", "threshold 0.3", "threshold 0.315", "risk 0.05", "risk 0.08", "risk 0.1", "risk 0.12", "risk 0.15",
			"router 0.25", "router 0.5", "router 0.75", "oracle 0.08", "oracle 0.1", "oracle 0.12", "oracle 0.15"},
		Columns: []tableColumn{
			{costColumn, times, func(r loadtest.Row) float64 { return r.PricedPerMTok }}, // of the first case, as is the next
			{wideCostColumn, times, func(r loadtest.Row) float64 { return r.WidePricedPerMTok }},
			{"answers by the draft", share, func(r loadtest.Row) float64 { return r.Served }},
			{"disagreement", share, func(r loadtest.Row) float64 { return r.UnverifiedDisagreement }},
			{ofAllColumn, share, func(r loadtest.Row) float64 { return r.DisagreementOfAll }},
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
				if column.Name == costColumn || column.Name == wideCostColumn {
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
	s := section{Title: t.Title, About: t.About + " `bin/loadtest run " + t.Scenario + " --seeds 5` measures it again.", Grids: []grid{g}}
	if len(cells) > 0 && len(t.Beside) > 0 {
		s.Grids = append(s.Grids, t.compared(cells))
	}
	return s
}

// compared tells how many times those of other cases the means of the case foregate are.
func (t *table) compared(cells map[string]tableCells) grid {
	g := grid{
		Text: "The figures of *foregate* ÷ those of other cases. In *no drafts, equal cost* the rent of the drafts pays for another target; *without drafts* saves it.",
		Head: append([]string{"beside"}, comparedColumns...),
	}
	for _, beside := range t.Beside {
		row := []string{beside}
		for _, column := range comparedColumns {
			row = append(row, times.Text(spread(cells["foregate"][column]).Mean/max(spread(cells[beside][column]).Mean, 1e-12)))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
