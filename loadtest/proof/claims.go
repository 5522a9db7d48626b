package proof

import (
	"slices"

	"github.com/foregate/foregate/loadtest"
)

// Claims are all rows of the page, in its order. The articles: A, KV-cache-aware routing; B, drafts first, with shedding;
// C, speculative decoding with a response cache; D, KV-cache locality.
func Claims() []Claim {
	return slices.Concat(moneyClaims(), latencyClaims(), memoryClaims(), shareClaims(), fleetClaims(), faultClaims(), costClaims())
}

// lost are requests without an answer.
func lost(r loadtest.Row) float64 { return float64(r.Errors + r.Shed) }

// share of lost requests.
func lostShare(r loadtest.Row) float64 { return lost(r) / max(float64(r.Requests), 1) }

func moneyClaims() []Claim {
	return []Claim{
		{
			ID: "cost", Text: "cost per million tokens, with drafts that a fixed threshold accepts", Published: "B: 3.80 → 1.36 $ (× 0.36)", Unit: dollars, Goal: ratioAtMost(0.36),
			Source: Cases{Scenario: "cascade", Baseline: "target_only", Foregate: "confidence", Short: true,
				Of: column("target_only", "confidence", func(r loadtest.Row) float64 { return r.USDPerMTok })},
			Note:     "Mode confidence. The same rent per hour, and a load above what the target alone serves: it loses requests.",
			Headline: "cost per million tokens with drafts for a 70B target, mode `confidence`, beside the target alone on the same hardware budget under overload",
		},
		{
			ID: "cost-with-promise", Text: "the same with the guarantee: mode risk, ε = .10, audits included, beside the target alone", Published: "B: × 0.36, without a guarantee", Unit: dollars, Goal: ratioAtMost(0.36),
			Source: Cases{Scenario: "quality-cost", Baseline: "target alone", Foregate: "risk 0.1",
				Of: column("target alone", "risk 0.1", func(r loadtest.Row) float64 { return r.PricedPerMTok })},
			Note:     "By the prices of tokens, so that it does not depend on how full the engines are. The first hour of a traffic class, in which most is audited.",
			Headline: "the same with the guarantee (mode `risk`, ε = .10, audits included), by the prices of tokens",
		},
		{
			ID: "cost-guard", Text: "cost per million tokens at prices where drafts do not pay, with the cost guard", Unit: dollars, Goal: ratioAtMost(1.02),
			Source: Cases{Scenario: "cascade-price-b", Baseline: "target_only", Foregate: "auto",
				Of: column("target_only", "auto", func(r loadtest.Row) float64 { return r.USDPerMTok })},
			Note:     "Without the guard drafts cost more there than they save.",
			Headline: "the same at prices where drafts do not pay, with the cost guard",
		},
	}
}

func latencyClaims() []Claim {
	return []Claim{
		{
			ID: "ttft-p95", Text: "P95 of the time to first token under bursts", Published: "A: 480 → 95 ms (× 0.20)", Unit: milliseconds, Goal: ratioAtMost(0.20),
			Source: Cases{Scenario: "bursty-multitenant", Baseline: "round_robin", Foregate: "fit",
				Of: column("round_robin", "fit", func(r loadtest.Row) float64 { return r.TTFT95 })},
		},
		{
			ID: "ttft-p99", Text: "P99 of the time to first token, with routing and cache", Published: "C: 480 → 110 ms (× 0.23)", Unit: milliseconds, Goal: ratioAtMost(0.23),
			Source: Cases{Scenario: "repeats", Baseline: "round_robin", Foregate: "fit cache", Short: true,
				Of: column("round_robin", "fit cache", func(r loadtest.Row) float64 { return r.TTFT99 })},
		},
		{
			ID: "e2e-p99", Text: "P99 of the time to the last token, with drafts", Published: "B: 1.4 → 0.72 s (× 0.51)", Unit: milliseconds, Goal: ratioAtMost(0.51),
			Source: Cases{Scenario: "cascade", Baseline: "target_only", Foregate: "confidence", Short: true,
				Of: column("target_only", "confidence", func(r loadtest.Row) float64 { return r.E2E99 })},
			Note: "A target with free capacity is faster than drafts: here it is overloaded.",
		},
		{
			ID: "throughput", Text: "answers per second within the P99 to first token of round robin", Published: "C: 800 → 2,100 /s (× 2.6)", Unit: perSecond, Goal: ratioAtLeast(2.6),
			Source: Cases{Scenario: "repeats", Baseline: "round_robin", Foregate: "fit cache 2.7",
				Of: column("round_robin", "fit cache 2.7", func(r loadtest.Row) float64 { return r.RequestsPerSecond })},
			Note: "No request is lost, and the P99 is lower than that of round robin at the lower load.",
		},
		{
			ID: "throughput-locality", Text: "answers per second of a 13B model, by prefix-aware routing", Published: "D: 36.3 → 44.4 /s (× 1.22)", Unit: perSecond, Goal: ratioAtLeast(1.22),
			Source: Cases{Scenario: "locality", Baseline: "round_robin", Foregate: "fit", Short: true,
				Of: column("round_robin", "fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond })},
		},
		{
			ID: "ttft-p99-locality", Text: "P99 of the time to first token of a 13B model, by prefix-aware routing", Published: "D: 6.8 → 1.0 s (× 0.15)", Unit: milliseconds, Goal: ratioAtMost(0.15),
			Source: Cases{Scenario: "locality", Baseline: "round_robin", Foregate: "fit", Short: true,
				Of: column("round_robin", "fit", func(r loadtest.Row) float64 { return r.TTFT99 })},
		},
		{
			ID: "hit-latency", Text: "time to first token of a found prefix beside one that is not (median, idle engine)", Published: "D: 500 → 18 ms (× 0.036)", Unit: milliseconds, Goal: ratioAtMost(0.036),
			Source: Cases{Scenario: "prefix-latency", Baseline: "miss", Foregate: "hit", Short: true,
				Of: column("miss", "hit", func(r loadtest.Row) float64 { return r.TTFT50 })},
			Note: "4,000 tokens, 13B on A10G. The article does not name its GPU.",
		},
		{
			ID: "locality-8b", Text: "where locality gains nothing: answers per second, 8B model", Published: "D: about × 1.0", Unit: perSecond, Goal: ratioAtMost(1.05),
			Source: Cases{Scenario: "locality-sizes", Baseline: "8B round_robin", Foregate: "8B fit", Short: true,
				Of: column("8B round_robin", "8B fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond })},
			Note: "Closed clients: what is gained shows in the latency of the first token instead.",
		},
		{
			ID: "locality-70b", Text: "the same, 70B model", Published: "D: about × 1.0", Unit: perSecond, Goal: ratioAtMost(1.05),
			Source: Cases{Scenario: "locality-sizes", Baseline: "70B round_robin", Foregate: "70B fit", Short: true,
				Of: column("70B round_robin", "70B fit", func(r loadtest.Row) float64 { return r.RequestsPerSecond })},
		},
	}
}

func memoryClaims() []Claim {
	return []Claim{
		{
			ID: "prefix-hits", Text: "prompt tokens found in KV caches, eight GPUs, thirty users", Published: "D: 12.5 → 97.5 %", Unit: share, Goal: valueAtLeast(0.975),
			Source: Cases{Scenario: "locality", Baseline: "round_robin", Foregate: "fit", Short: true,
				Of: column("round_robin", "fit", func(r loadtest.Row) float64 { return r.PrefixHitRate })},
			Headline: "prefix hits, eight GPUs, thirty users, beside round robin",
		},
		{
			ID: "preemptions", Text: "preempted sequences under bursts", Published: "A: −94 % (× 0.06)", Unit: plain, Goal: ratioAtMost(0.06),
			Source: Cases{Scenario: "bursty-multitenant", Baseline: "round_robin", Foregate: "fit",
				Of: column("round_robin", "fit", func(r loadtest.Row) float64 { return float64(r.Preemptions) })},
		},
		{
			ID: "errors", Text: "requests without an answer under bursts", Published: "A: 1.2 → 0.05 %", Unit: share, Goal: valueAtMost(0.0005),
			Source: Cases{Scenario: "bursty-multitenant", Baseline: "round_robin", Foregate: "fit",
				Of: column("round_robin", "fit", lostShare)},
		},
		{
			ID: "oom-deaths", Text: "engines that die of full KV memory in a burst", Published: "C: 4 a day → 0", Unit: plain, Goal: valueAtMost(0),
			Source: Cases{Scenario: "overcommit", Baseline: "round_robin", Foregate: "fit_shed", Short: true,
				Of: column("round_robin", "fit_shed", func(r loadtest.Row) float64 { return float64(r.OOMDeaths) })},
			Note:     "Ten minutes, engines that die instead of preempting.",
			Headline: "engines that died of full KV memory in a burst of ten minutes, beside round robin",
		},
		{
			ID: "high-priority", Text: "requests of high priority that are lost in that burst", Published: "B: low priority is refused above 85 % KV usage", Unit: plain, Goal: valueAtMost(0),
			Source: Cases{Scenario: "overcommit", Baseline: "round_robin", Foregate: "fit_shed", Short: true,
				Of: column("round_robin", "fit_shed", func(r loadtest.Row) float64 { return float64(r.HighLost) })},
		},
	}
}

func shareClaims() []Claim {
	return []Claim{
		{
			ID: "cached", Text: "answers from the response cache", Published: "C: 38 %", Unit: share, Goal: valueAtLeast(0.38),
			Source: Cases{Scenario: "repeats", Baseline: "round_robin", Foregate: "fit cache", Short: true,
				Of: column("round_robin", "fit cache", func(r loadtest.Row) float64 { return r.CacheHitRate })},
			Note: "Two fifths of the requests repeat one of a hundred of their tenant: the load decides.",
		},
		{
			ID: "drafted", Text: "tokens from the draft pool", Published: "B: 60–70 %", Unit: share, Goal: valueAtLeast(0.60),
			Source: Cases{Scenario: "cascade", Baseline: "target_only", Foregate: "confidence", Short: true,
				Of: column("target_only", "confidence", func(r loadtest.Row) float64 { return r.DraftTokenShare })},
		},
		{
			ID: "acceptance", Text: "accepted drafts of the judged ones", Published: "C: 42 %", Unit: share, Goal: valueAtLeast(0.42),
			Source: Cases{Scenario: "cascade", Baseline: "target_only", Foregate: "confidence", Short: true,
				Of: column("target_only", "confidence", func(r loadtest.Row) float64 { return r.Acceptance })},
			Note: "It follows from the simulated pair.",
		},
		{
			ID: "acceptance-code", Text: "the same of traffic like code", Published: "C: 55 %", Unit: share, Goal: valueAtLeast(0.55), Source: RealPair{},
			Note: "The simulator's language has no code. `make proof-live` tells acceptance of chat and of code apart at a real pair.",
		},
	}
}

func faultClaims() []Claim {
	claim := func(id, text, row string) Claim {
		return Claim{ID: id, Text: text, Published: "A: 2 s after a pod was killed", Unit: seconds, Goal: valueAtMost(2), Source: Fault{row}}
	}
	return []Claim{
		claim("dead-backend", "a killed backend gets nothing more after", "L1"),
		claim("hung-backend", "a frozen backend gets nothing more after", "L2"),
		claim("lying-backend", "a backend that says it is well and fails each request gets nothing more after", "L3"),
	}
}

func costClaims() []Claim {
	return []Claim{
		{
			ID: "overhead-miss", Text: "CPU time of a request of 1 KiB that the cache does not have, all defaults on, beside a tuned Go reverse proxy", Unit: microseconds, Goal: ratioAtMost(1.0),
			Source: Cost{"miss, 1 KiB, per request"}, Headline: "CPU per request of 1 KiB that the cache does not have, all defaults on, beside a tuned reverse proxy in Go",
		},
		{ID: "overhead-hit", Text: "CPU time of a hit, beside the same", Unit: microseconds, Goal: ratioAtMost(0.45), Source: Cost{"hit, per request"}},
		{ID: "overhead-relayed", Text: "CPU time of a relayed token of a stream, beside the same", Unit: microseconds, Goal: ratioAtMost(0.85), Source: Cost{"relayed stream, per token"}},
		{ID: "overhead-judged", Text: "CPU time of a judged token of a stream, beside the same", Unit: microseconds, Goal: ratioAtMost(1.5), Source: Cost{"judged stream, per token"}},
	}
}
