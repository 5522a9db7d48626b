package proof

import (
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// Claims are all rows of the page, in its order.
func Claims() []Claim {
	return slices.Concat(rentClaims(), moneyClaims(), latencyClaims(), memoryClaims(), shareClaims(), fleetClaims(), faultClaims(), costClaims())
}

// lost are requests without an answer.
func lost(r loadtest.Row) float64 { return float64(r.Errors + r.Shed) }

// share of lost requests.
func lostShare(r loadtest.Row) float64 { return lost(r) / max(float64(r.Requests), 1) }

func moneyClaims() []Claim {
	busy := func(r loadtest.Row) float64 { return r.USDPerMTok }
	priced := func(r loadtest.Row) float64 { return r.PricedPerMTok }
	return []Claim{
		{ID: "cost-with-promise", Text: "token prices with the guarantee: mode risk, ε = .10, audits included, beside the target alone", Unit: dollars, Goal: ratioAtMost(0.36),
			Source:   cases("quality-cost", "target alone", "risk 0.1", priced),
			Note:     "After a warm-up of twenty minutes that is not counted, in which nearly all is audited and little is served. Prices are those of engines that run 64 sequences at once; the quality table below has 128, too.",
			Headline: "with the guarantee (at most 10 % disagreement, audits paid, after the warm-up): cost of a token with drafts, beside the target alone"},
		{ID: "cost-guard", Text: "dollars of busy GPUs per million tokens at prices where drafts do not pay, with the cost guard", Unit: dollars, Goal: ratioAtMost(1.02),
			Source: cases("cascade-price-b", "target_only", "auto", busy), Note: "Without the guard drafts cost more there than they save. A draft pool that is not used still costs its rent."},
		{ID: "day-cost", Text: "dollars by token prices, a day with the default settings beside a naive setup of the same rent", Unit: dollars, Goal: ratioAtMost(1),
			Source: cases("day", "naive, equal cost", "foregate", priced), Headline: "a day with the default settings: cost of a token, beside round robin at the same rent"},
		{ID: "day-drafts", Text: "the same beside Foregate without drafts, whose rent pays for another target", Unit: dollars, Goal: ratioAtMost(1),
			Source: cases("day", "no drafts, equal cost", "foregate", priced), Note: "The cache answers the repeats, and documents make prompts long: both leave drafts less to save.",
			Headline: "the same day: cost of a token with drafts, beside Foregate without drafts and with one target more for their rent"},
	}
}

func latencyClaims() []Claim {
	return []Claim{
		{ID: "ttft-p95", Text: "P95 of the time to first token under bursts", Unit: milliseconds, Goal: ratioAtMost(0.20),
			Source: cases("bursty-multitenant", "round_robin", "fit", func(r loadtest.Row) float64 { return r.TTFT95 })},
		{ID: "ttft-p99", Text: "P99 of the time to first token, with routing and cache", Unit: milliseconds, Goal: ratioAtMost(0.23),
			Source: shortCases("repeats", "round_robin", "fit cache", func(r loadtest.Row) float64 { return r.TTFT99 })},
		{ID: "throughput", Text: "answers per second within the P99 to first token of round robin", Unit: perSecond, Goal: ratioAtLeast(2.6),
			Source: Cases{Scenario: "repeats", Baseline: "round_robin", Foregate: "fit cache 2.7", Of: throughput},
			Note:   "The load is 2.7 times that of round robin. The figure is 0 for a seed with a longer P99 or more lost requests."},
		{ID: "throughput-locality", Text: "answers per second of a 13B model, by prefix-aware routing", Unit: perSecond, Goal: ratioAtLeast(1.22),
			Source: shortCases("locality", "round_robin", "fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond }), Note: slowMiss},
		{ID: "ttft-p99-locality", Text: "P99 of the time to first token of a 13B model, by prefix-aware routing", Unit: milliseconds, Goal: ratioAtMost(0.15),
			Source: shortCases("locality", "round_robin", "fit", func(r loadtest.Row) float64 { return r.TTFT99 }), Note: slowMiss},
		{ID: "hit-latency", Text: "time to first token of a found prefix beside one that is not (median, idle engine)", Unit: milliseconds, Goal: ratioAtMost(0.036),
			Source: shortCases("prefix-latency", "miss", "hit", func(r loadtest.Row) float64 { return r.TTFT50 }),
			Note:   "4,000 tokens, 13B on A10G."},
		{ID: "locality-8b", Text: "where locality gains nothing: answers per second, 8B model", Unit: perSecond, Goal: ratioAtMost(1.05),
			Source: shortCases("locality-sizes", "8B round_robin", "8B fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond }),
			Note:   "Closed clients: what is gained shows in the latency of the first token instead."},
		{ID: "locality-70b", Text: "where locality gains nothing: answers per second, 70B model", Unit: perSecond, Goal: ratioAtMost(1.05),
			Source: shortCases("locality-sizes", "70B round_robin", "70B fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond })},
	}
}

// slowMiss is said where a slow prefill makes the gain larger.
const slowMiss = "A miss takes long here (`hit-latency`), so a hit saves more."

// throughput is the answers per second of round robin, and of Foregate at a higher load: 0 if its first tokens take longer
// at the 99th percentile, or it loses a larger share.
func throughput(rows map[string]loadtest.Row) Pair {
	is, was := rows["fit cache 2.7"], rows["round_robin"]
	if is.TTFT99 > was.TTFT99 || lostShare(is) > lostShare(was) {
		return Pair{was.RequestsPerSecond, 0}
	}
	return Pair{was.RequestsPerSecond, is.RequestsPerSecond}
}

func memoryClaims() []Claim {
	return []Claim{
		{ID: "prefix-hits", Text: "prompt tokens found in KV caches, eight GPUs, thirty users", Unit: share, Goal: valueAtLeast(0.975),
			Source: shortCases("locality", "round_robin", "fit", func(r loadtest.Row) float64 { return r.PrefixHitRate })},
		{ID: "preemptions", Text: "preempted sequences under bursts", Unit: plain, Goal: ratioAtMost(0.06),
			Source: cases("bursty-multitenant", "round_robin", "fit", func(r loadtest.Row) float64 { return float64(r.Preemptions) })},
		{ID: "errors", Text: "requests without an answer under bursts", Unit: share, Goal: valueAtMost(0.0005),
			Source: cases("bursty-multitenant", "round_robin", "fit", lostShare)},
		{ID: "oom-deaths", Text: "engines that die of full KV memory in a burst", Unit: plain, Goal: valueAtMost(0),
			Source: shortCases("overcommit", "round_robin", "fit_shed", func(r loadtest.Row) float64 { return float64(r.OOMDeaths) }),
			Note:   "Ten minutes, engines that die instead of preempting.", Headline: "engines that ran out of KV memory and died in a burst of ten minutes (round robin)"},
		{ID: "high-priority", Text: "requests of high priority that are lost in that burst", Unit: plain, Goal: valueAtMost(0),
			Source: shortCases("overcommit", "round_robin", "fit_shed", func(r loadtest.Row) float64 { return float64(r.HighLost) })},
	}
}

func shareClaims() []Claim {
	return []Claim{
		{ID: "cached", Text: "answers from the response cache", Unit: share, Goal: valueAtLeast(0.38),
			Source: shortCases("repeats", "round_robin", "fit cache", func(r loadtest.Row) float64 { return r.CacheHitRate }),
			Note:   "Two fifths of the requests repeat one of a hundred of their tenant: the load decides."},
		{ID: "drafted", Text: "tokens from the draft pool", Unit: share, Goal: valueAtLeast(0.60),
			Source: shortCases("cascade", "target_only", "confidence", func(r loadtest.Row) float64 { return r.DraftTokenShare })},
		{ID: "acceptance", Text: "accepted drafts of the judged ones", Unit: share, Goal: valueAtLeast(0.42),
			Source: shortCases("cascade", "target_only", "confidence", func(r loadtest.Row) float64 { return r.Acceptance }), Note: "It follows from the simulated pair."},
		{ID: "acceptance-code", Text: "accepted drafts of the judged ones, of traffic like code", Unit: share, Goal: valueAtLeast(0.55), Source: RealPair{},
			Note: "The simulator's language has no code. `make pair` and `make proof-live` tell the agreement of each kind of question, code among them, at real pairs."},
	}
}

func faultClaims() []Claim {
	claim := func(id, text, row string) Claim {
		return Claim{ID: id, Text: text, Unit: seconds, Goal: valueAtMost(2), Source: Fault{row}}
	}
	return []Claim{
		claim("dead-backend", "a killed backend gets nothing more after", "L1"),
		claim("hung-backend", "a frozen backend gets nothing more after", "L2"),
		claim("lying-backend", "a backend that says it is well and fails each request gets nothing more after", "L3"),
	}
}

func costClaims() []Claim {
	return []Claim{
		{ID: "overhead-miss", Text: "CPU time of a request of 1 KiB that the cache does not have, all defaults on, beside a tuned Go reverse proxy", Unit: microseconds, Goal: ratioAtMost(1.0),
			Source: Cost{"miss, 1 KiB, per request"}},
		{ID: "overhead-hit", Text: "CPU time of a hit, beside the same proxy", Unit: microseconds, Goal: ratioAtMost(0.45), Source: Cost{"hit, per request"}},
		{ID: "overhead-relayed", Text: "CPU time of a relayed token of a stream, beside the same proxy", Unit: microseconds, Goal: ratioAtMost(0.85), Source: Cost{"relayed stream, per token"}},
		{ID: "overhead-judged", Text: "CPU time of a judged token of a stream, beside the same proxy", Unit: microseconds, Goal: ratioAtMost(1.5), Source: Cost{"judged stream, per token"}},
	}
}
