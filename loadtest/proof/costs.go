package proof

import "github.com/foregate/foregate/loadtest/cost"

// costPairs are the figures of a row of the benchmark of the gateway's cost, one of each round.
func costPairs(r *cost.Row) (out []Pair) {
	for i := range r.Own {
		out = append(out, Pair{Baseline: r.Beside[i], Foregate: r.Own[i]})
	}
	return out
}

// TakeCosts makes the figures of claims about the gateway's cost those of a report. Claims that it has no row of stay.
func (r *Results) TakeCosts(claims []Claim, report *cost.Report) {
	if report == nil {
		return
	}
	for i := range claims {
		c, ok := claims[i].Source.(Cost)
		for j := range report.Rows {
			if ok && report.Rows[j].Title == c.Row && len(report.Rows[j].Own) > 0 {
				r.Live[claims[i].ID] = costPairs(&report.Rows[j])
			}
		}
	}
}
