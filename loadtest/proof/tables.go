package proof

import (
	"cmp"
	"maps"
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// table is a scenario whose cases the page shows beside each other.
type table struct {
	Scenario string
	Cases    []string
	Columns  []tableColumn
}

// tableColumn is a figure of every case.
type tableColumn struct {
	Name string
	Unit Unit
	Of   func(r loadtest.Row) float64
}

// tables are all of them.
func tables() []table { return nil }

func tableNames() (out []string) {
	for _, t := range tables() {
		out = append(out, t.Scenario)
	}
	return out
}

// cells are the table's figures.
func (t *table) cells(all map[runKey]rows, seeds []uint64) map[string]tableCells {
	out := map[string]tableCells{}
	for _, cs := range t.Cases {
		out[cs] = tableCells{}
		for _, c := range t.Columns {
			for _, seed := range seeds {
				out[cs][c.Name] = append(out[cs][c.Name], c.Of(all[runKey{t.Scenario, seed}][cs]))
			}
		}
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
