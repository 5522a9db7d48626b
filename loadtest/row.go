package loadtest

import "math"

// Row puts the result in numbers, all of them finite. A result without a
// recorder is one of no requests.
func (r *Result) Row() Row { return r.row(r.Recorder.summary()) }

// row is Row of a summary that was read already.
func (r *Result) row(s summary) Row {
	tokens := float64(s.DraftTokens + s.TargetTokens)
	row := Row{
		Name:     r.Case,
		Requests: s.Requests, Errors: s.Errors, Shed: s.Shed,
		Escalated: s.Rejected, Cached: s.Cached, Coalesced: s.Coalesced,

		TTFT50: s.TTFT[0], TTFT95: s.TTFT[1], TTFT99: s.TTFT[2],
		E2E50: s.E2E[0], E2E95: s.E2E[1], E2E99: s.E2E[2],

		RequestsPerSecond: ratio(float64(s.Answered), r.Window.Seconds()),
		TokensPerSecond:   ratio(tokens, r.Window.Seconds()),

		Acceptance:          ratio(float64(s.Accepted), float64(s.Accepted+s.Rejected)),
		DraftTokenShare:     ratio(float64(s.DraftTokens), tokens),
		CheckedDisagreement: ratio(float64(s.WrongAccept), float64(s.CheckedAccepts)),
		SharedDrafts:        s.SharedDrafts, WrongShared: ratio(float64(s.WrongShared), float64(s.SharedDrafts)),
		Identical:    ratio(float64(s.Identical), float64(s.Checked)),
		CacheHitRate: ratio(float64(s.Cached+s.Coalesced), float64(s.Answered)),
	}
	row.Guarded = ratio(float64(s.Guarded), float64(s.Answered))
	row.CheckedShare = ratio(float64(s.TargetChecked), float64(s.Accepted+s.Rejected))
	row.Scored = ratio(float64(s.Scored), tokens+float64(s.PromptTokens))
	for _, g := range s.Priorities {
		switch g.Name {
		case "high":
			row.HighTTFT99, row.HighLost = g.TTFT99, g.Shed+g.Error
		case "low":
			row.LowShed = g.Shed
		}
	}
	r.promised(&row, &s)
	r.pools(&row)
	row.USDPerMTok = ratio((row.DraftUSD+row.TargetUSD)*1e6, float64(s.Delivered))
	if r.Totals {
		r.totals(&row, &s)
	}
	return row
}

// pools fills in what the backends did and what it cost.
func (r *Result) pools(row *Row) {
	queries, hits := 0, 0
	for _, u := range r.Pools {
		queries += u.PrefixQueries
		hits += u.PrefixHits
		row.Preemptions += u.Preemptions
		row.OOMDeaths += u.OOMDeaths

		seconds := finite(u.Busy.Seconds() * float64(u.GPUs))
		usd := finite(u.Busy.Hours() * u.USDPerHour)
		row.GPUSeconds = finite(row.GPUSeconds + seconds)
		if u.Tier == "draft" {
			row.DraftGPUSeconds += seconds
			row.DraftUSD = finite(row.DraftUSD + usd)
			continue
		}
		row.TargetGPUSeconds += seconds
		row.TargetUSD = finite(row.TargetUSD + usd)
	}
	row.PrefixHitRate = ratio(float64(hits), float64(queries))
}

// ratio is a ÷ b, and 0 when there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return finite(a / b)
}

// finite is v, or 0 when v is no number.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
