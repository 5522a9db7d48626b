package main

// levels are the degradation levels, by their number in the panels.
var levels = map[int]word{0: {"local", "red"}, 1: {"shared", "green"}}

// level is that number.
const level = `max by (instance) (foregate_redis_mode{I, mode="shared"})`

// served are the results of a look-up that saved a generation.
const served = `result=~"hit|local|coalesced"`

func overview() board {
	return board{
		file: "overview", title: "Overview", vars: []string{"route"},
		about: "Is all well? The other boards say why not.",
		rows: []row{
			{"Now", []panel{
				stat("Requests", "reqps", "Requests a second, all outcomes.", q(`sum(rate(foregate_requests_total{R}[r]))`, "requests")),
				stat("Failed", "percentunit", "Share of requests that ended in 500, 502 or 504; what was turned away (503) is under Shed, and a miss of only-if-cached (504) is the client's.",
					q(`((sum(rate(foregate_requests_total{R, code=~"500|502|504"}[r])) or vector(0)) - (sum(rate(foregate_requests_total{R, code="504", tier="cache"}[r])) or vector(0))) / sum(rate(foregate_requests_total{R}[r]))`, "failed")).over(0.005, 0.02),
				stat("P99 to the first token", "s", "Of streams, cached ones too.", q(`histogram_quantile(0.99, sum by (le) (rate(foregate_time_to_first_token_seconds_bucket{R}[r])))`, "P99")).over(1, 2.5),
				stat("Drafts accepted", "percentunit", "Of the drafts that were judged. Below 20 % drafts rarely pay.",
					q(`sum(rate(foregate_acceptance_total{R, verdict="accepted"}[r])) / sum(rate(foregate_acceptance_total{R, verdict=~"accepted|rejected"}[r]))`, "accepted")).under(0.3, 0.2),
				stat("Answered from the cache", "percentunit", "Of the requests that asked the cache.",
					q(`sum(rate(llm_cache_requests_total{R, `+served+`}[r])) / sum(rate(llm_cache_requests_total{R, result!="bypass"}[r]))`, "hits")).under(0.3, 0.2),
				stat("Saved an hour", "currencyUSD", "What drafts and the cache save in an hour at this rate, beside the target alone.",
					q(`3600 * (sum(rate(foregate_baseline_usd_total{R}[r])) - sum(rate(foregate_cost_usd_total{R}[r])) + sum(rate(foregate_cache_saved_usd_total{R}[r])))`, "USD/h")).under(0.000001, 0),
				stat("Replicas", "short", "Replicas that answer Prometheus, and those that say they are ready.", q(`sum(up{job="foregate"})`, "up"), q(`sum(foregate_ready)`, "ready")).under(2, 1),
				stat("Shed", "reqps", "Requests turned away, all classes.", q(`sum(rate(foregate_shed_total{I}[r])) or vector(0)`, "shed")).over(0.1, 1),
				stat("Open breakers", "short", "Backends whose breaker is open or half-open on some replica.",
					q(`count(max by (pool, backend) (foregate_breaker_state{I}) > 0) or vector(0)`, "breakers")).over(1, 3),
				stat("Fullest KV memory", "percentunit", "Of all backends.", q(`max(foregate_backend_kv_usage{I})`, "KV")).over(0.85, 0.9),
				stat("Degradation level", "short", "The lowest of all replicas.", q(`min(`+level+`)`, "level")).named(levels).under(1, 1),
				stat("Alerts", "short", "Alerts of Foregate that fire.", q(`count(ALERTS{alertname=~"Foregate.+", alertstate="firing"}) or vector(0)`, "firing")).over(1, 3),
			}},
			{"Traffic", []panel{
				areas("Requests by tier", "reqps", "Which tier answered: the draft alone, the target, both in one answer (mixed), or the cache.",
					q(`sum by (tier) (rate(foregate_requests_total{R, tier!="", code!="504"}[r]))`, "{{tier}}")),
				areas("Requests by status", "reqps", "499: the client left. 503: shed, or no backend.", q(`sum by (code) (rate(foregate_requests_total{R}[r]))`, "{{code}}")),
				areas("Requests by priority", "reqps", "The class in which they were served.", q(`sum by (priority) (rate(foregate_requests_total{R}[r]))`, "{{priority}}")),
			}},
			{"Time", []panel{
				lines("To the first token", "s", "From the request to the first byte of its stream, all tiers; the objective is foregate:slo_ttft_seconds.",
					q(`histogram_quantile(0.5, sum by (le) (rate(foregate_time_to_first_token_seconds_bucket{R}[r])))`, "P50"),
					q(`histogram_quantile(0.95, sum by (le) (rate(foregate_time_to_first_token_seconds_bucket{R}[r])))`, "P95"),
					q(`histogram_quantile(0.99, sum by (le) (rate(foregate_time_to_first_token_seconds_bucket{R}[r])))`, "P99"),
					q(`min(route:foregate_slo_ttft_seconds{route=~"$route"})`, "objective")),
				lines("P95 to the first token by tier", "s", "What the cascade costs in time: mixed answers wait for the draft and the target.",
					q(`histogram_quantile(0.95, sum by (tier, le) (rate(foregate_time_to_first_token_seconds_bucket{R}[r])))`, "{{tier}}")),
				lines("Whole answers", "s", "From the request to the end of an answer that is no stream; the objective is foregate:slo_duration_seconds.",
					q(`histogram_quantile(0.5, sum by (le) (rate(llm_request_duration_seconds_bucket{I, model=~"$route", stream="false"}[r])))`, "P50"),
					q(`histogram_quantile(0.95, sum by (le) (rate(llm_request_duration_seconds_bucket{I, model=~"$route", stream="false"}[r])))`, "P95"),
					q(`histogram_quantile(0.99, sum by (le) (rate(llm_request_duration_seconds_bucket{I, model=~"$route", stream="false"}[r])))`, "P99"),
					q(`min(route:foregate_slo_duration_seconds{route=~"$route"})`, "objective")),
			}},
			{"Replicas", []panel{
				states("Degradation level", "shared; local: without Redis.", levels, q(level, "{{instance}}")).size(8, 7).under(1, 1),
				lines("Requests under way", "short", "By replica.", q(`sum by (instance) (foregate_requests_in_flight{I})`, "{{instance}}")).size(8, 7),
				lines("Replicas known", "short", "How many replicas each one knows of; where they differ some do not hear of the others.",
					q(`min by (instance) (foregate_fleet_replicas{I})`, "{{instance}}")).size(8, 7),
				lines("CPU", "short", "Cores that each replica uses.", q(`rate(process_cpu_seconds_total{job="foregate", instance=~"$instance"}[r])`, "{{instance}}")).size(8, 7),
				lines("Memory", "bytes", "Resident memory of each replica.", q(`process_resident_memory_bytes{job="foregate", instance=~"$instance"}`, "{{instance}}")).size(8, 7),
				lines("Trouble", "short", "What should be nothing: panics that were caught, log lines lost, settings refused, unknown or lost, failed readings of settings.",
					q(`sum(increase(foregate_panics_total{I}[r]) or increase(foregate_audits_dropped_total{I, reason="panic"}[r]))`, "panics"),
					q(`sum(increase(foregate_log_lines_dropped_total{I}[r]))`, "log lines lost"),
					q(`count(max by (name) (foregate_settings_rejected{I}))`, "settings refused"),
					q(`count(max by (name) (foregate_settings_unknown{I}))`, "settings unknown"),
					q(`max(foregate_settings_lost{I})`, "settings that Redis lost, not published again"),
					q(`sum(increase(foregate_settings_errors_total{I}[r]))`, "settings not read")).size(8, 7),
			}},
		},
	}
}

func answers() board {
	return board{
		file: "cache", title: "Cache", vars: []string{"route"},
		about: "Answers that are kept, and identical requests that share one.",
		rows: []row{
			{"Hits", []panel{
				lines("Hit ratio by route", "percentunit", "Of the requests that asked, as the replicas count over five minutes. Below 20 % the cache is not worth much.",
					q(`avg by (route) (llm_cache_hit_ratio{R})`, "{{route}}")).under(0.3, 0.2),
				areas("Lookups by result", "reqps", "hit: from Redis; local: from this replica's memory; coalesced: with an answer under way; away, late, error: Redis did not say; bypass: did not ask.",
					q(`sum by (result) (rate(llm_cache_requests_total{R}[r]))`, "{{result}}")),
				lines("Lookups in Redis", "s", "How long requests waited for the cache. What is over redis.timeout (15 ms) goes on without.",
					q(`histogram_quantile(0.5, sum by (le) (rate(foregate_cache_lookup_seconds_bucket{I}[r])))`, "P50"),
					q(`histogram_quantile(0.99, sum by (le) (rate(foregate_cache_lookup_seconds_bucket{I}[r])))`, "P99")).over(0.015, 0.05),
			}},
			{"Worth", []panel{
				areas("Saved by hits", "currencyUSD", "Dollars an hour that the answers given again had cost to make.", q(`3600 * sum by (route) (rate(foregate_cache_saved_usd_total{R}[r]))`, "{{route}}")),
				areas("Tokens not generated", "short", "A second, of answers given again.", q(`sum by (kind) (rate(foregate_cache_saved_tokens_total{R}[r]))`, "{{kind}}")),
			}},
			{"Store", []panel{
				lines("Copies in memory", "bytes", "Bytes of answers in each replica's own memory (cache.local_bytes at most).", q(`sum by (instance) (foregate_cache_local_bytes{I})`, "{{instance}}")),
				lines("Not kept", "short", "Answers that were to be kept and are not: queue, Redis away, Redis full, too large, unsound, refused, replica stopped.",
					q(`sum by (reason) (increase(foregate_cache_dropped_total{I}[r])) > 0`, "{{reason}}")),
				lines("Passed over", "short", "Values in Redis that are not served. damaged: somebody or something changed them. foreign: another key or version.",
					q(`sum by (reason) (increase(foregate_cache_refused_total{I}[r])) > 0`, "{{reason}}")),
				lines("Sharing now", "short", "Requests that share an answer in the making, or make one that others may share.", q(`sum by (instance) (foregate_cache_coalescing_requests{I})`, "{{instance}}")),
			}},
		},
	}
}

func cost() board {
	return board{
		file: "cost", title: "Cost", vars: []string{"route"},
		about: "What requests cost, and what drafts and the cache save. All of it needs usd_per_hour of the pools.",
		rows: []row{
			{"Now", []panel{
				stat("Spent an hour", "currencyUSD", "Cost of the work for requests and their audits. It adds up to the rent when the GPUs are full.", q(`3600 * sum(rate(foregate_cost_usd_total{R}[r]))`, "USD/h")).size(6, 4),
				stat("Saved by drafts an hour", "currencyUSD", "Beside the target alone, audits included. Below nothing drafts lose money.",
					q(`3600 * (sum(rate(foregate_baseline_usd_total{R}[r])) - sum(rate(foregate_cost_usd_total{R}[r])))`, "USD/h")).size(6, 4).under(0.000001, 0),
				stat("Saved by the cache an hour", "currencyUSD", "What the answers given again had cost to make.", q(`3600 * sum(rate(foregate_cache_saved_usd_total{R}[r]))`, "USD/h")).size(6, 4),
				stat("A million output tokens", "currencyUSD", "What requests cost, by the tokens of their answers.",
					q(`1e6 * sum(rate(foregate_cost_usd_total{R}[r])) / sum(rate(foregate_tokens_total{I, kind="delivered"}[r]))`, "USD")).size(6, 4),
			}},
			{"Drafts", []panel{
				lines("With and without drafts", "currencyUSD", "Dollars an hour of all requests: the target alone, and as it is, with audits.",
					q(`3600 * sum(rate(foregate_baseline_usd_total{R}[r]))`, "target alone"), q(`3600 * sum(rate(foregate_cost_usd_total{R}[r]))`, "as it is")),
				lines("Saved by route", "currencyUSD", "In all since the replicas started. A curve that falls loses money.", q(`sum by (route) (foregate_saved_usd{R})`, "{{route}}")),
				lines("Acceptance and break-even", "percentunit", "Drafts served, and how many must be for drafts to pay, of each route's mean request.",
					q(`route:foregate_acceptance:ratio_rate30m{route=~"$route"}`, "{{route}} accepted"), q(`max by (route) (foregate_break_even_acceptance{R})`, "{{route}} break-even")),
			}},
			{"Tokens", []panel{
				areas("Cost by part", "currencyUSD", "Dollars an hour, at drafts, at targets and fallbacks, and for audits.", q(`3600 * sum by (part) (rate(foregate_cost_usd_total{R}[r]))`, "{{part}}")),
				areas("Tokens delivered by tier", "short", "A second.", q(`sum by (tier) (rate(foregate_tokens_total{I, kind="delivered"}[r]))`, "{{tier}}")).shares(),
				lines("Draft tokens in vain", "percentunit", "Of the tokens drafted, those that are in no answer.",
					q(`sum(rate(foregate_tokens_total{I, tier="draft", kind="wasted"}[r])) / sum(rate(foregate_draft_tokens_total{I}[r]))`, "wasted")),
				lines("Target tokens beside answers", "short", "A second: computed to say what the target thinks of drafts before they are served.",
					q(`sum(rate(foregate_scored_tokens_total{R}[r]))`, "checks")),
				lines("Cost of audits", "currencyUSD", "Dollars an hour, by route. Nothing while prices of tokens are unknown.", q(`3600 * sum by (route) (rate(foregate_cost_usd_total{R, part="audit"}[r]))`, "{{route}}")),
				areas("Not generated, thanks to the cache", "short", "Tokens a second.", q(`sum by (kind) (rate(foregate_cache_saved_tokens_total{R}[r]))`, "{{kind}}")),
			}},
		},
	}
}
