package proof

import "github.com/foregate/foregate/loadtest/cost"

// pairs are the figures of a row of the benchmark of the gateway's cost, one of each round.
func pairs(r *cost.Report, title string) (out []Pair) {
	for _, row := range r.Rows {
		if row.Title != title {
			continue
		}
		for i := range row.Own {
			out = append(out, Pair{Baseline: row.Beside[i], Foregate: row.Own[i]})
		}
	}
	return out
}
