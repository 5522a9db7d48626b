package main

var (
	breakerWords = map[int]word{0: {"closed", "green"}, 1: {"half-open", "yellow"}, 2: {"open", "red"}}
	upWords      = map[int]word{0: {"down", "red"}, 1: {"up", "green"}}
	shedWords    = map[int]word{0: {"let in", "green"}, 1: {"shed", "red"}}
)

// drafted is the share of a route's requests with one of some verdicts.
func drafted(verdicts string) string {
	return `sum by (route) (rate(foregate_acceptance_total{R, verdict=~"` + verdicts + `"}[r])) / sum by (route) (rate(foregate_requests_total{R}[r]))`
}

func drafts() board {
	return board{
		file: "acceptance", title: "Acceptance & risk", vars: []string{"route"},
		about: "How many drafts are served, and what is proven of those that are.",
		rows: []row{
			{"Acceptance", []panel{
				lines("Drafts accepted", "percentunit", "Of the drafts that were judged. Below 20 % drafts rarely pay.",
					q(`sum by (route) (rate(foregate_acceptance_total{R, verdict="accepted"}[r])) / sum by (route) (rate(foregate_acceptance_total{R, verdict=~"accepted|rejected"}[r]))`, "{{route}}")).under(0.3, 0.2),
				lines("Drafted and served, of all requests", "percentunit", "Cached answers are requests, too. Where drafts are made only while the target is short of room, or the cost guard keeps them away, both fall and acceptance stays.",
					q(drafted(`accepted|rejected`), "{{route}} drafted"), q(drafted(`accepted`), "{{route}} served")),
				areas("What became of requests", "reqps", "bypassed: no draft was judged, the target answered.", q(`sum by (verdict) (rate(foregate_acceptance_total{R}[r]))`, "{{verdict}}")),
				areas("Why no draft was served", "reqps", "Reasons of refusals and of bypasses.", q(`sum by (verdict, reason) (rate(foregate_acceptance_total{R, verdict!="accepted"}[r]))`, "{{verdict}}: {{reason}}")),
				lines("Draft tokens in answers", "percentunit", "vllm_spec_acceptance_rate: of the draft tokens that were judged in the last five minutes; mean of the replicas.", q(`avg by (route) (vllm_spec_acceptance_rate{R})`, "{{route}}")),
				lines("Expected, by the length of the prompt", "percentunit", "Share of the late drafts that were served.", q(`avg by (route, prompt) (foregate_expected_acceptance{R})`, "{{route}} {{prompt}}")),
				lines("Where drafts begin to pay", "percentunit", "Share of drafts that must be served, for the route's mean request. Above 1 they never pay.",
					q(`max by (route) (foregate_break_even_acceptance{R})`, "{{route}}")),
			}},
			{"The target's word", []panel{
				areas("Drafts about which the target was asked", "reqps", "agrees, disagrees, or none: it could not say.", q(`sum by (verdict) (rate(foregate_verifications_total{R}[r]))`, "{{verdict}}")),
				lines("How long it took", "s", "For its word on a draft; the client waits meanwhile.",
					q(`histogram_quantile(0.5, sum by (le) (rate(foregate_verification_seconds_bucket{R}[r])))`, "P50"), q(`histogram_quantile(0.95, sum by (le) (rate(foregate_verification_seconds_bucket{R}[r])))`, "P95")),
				areas("Carried on by another backend", "reqps", "Answers that were taken over in the middle, by why.", q(`sum by (reason) (rate(foregate_midstream_failovers_total{R}[r]))`, "{{reason}}")),
			}},
			{"The guarantee (modes risk and shadow)", []panel{
				lines("Proven bound", "percentunit", "Of the drafts served, what the target would refuse is proven to be less than this; 1 while nothing is proven, and nothing is served then.",
					q(`max by (route, traffic_class) (foregate_risk_upper_bound{R})`, "{{route}} {{traffic_class}}"), q(`max(foregate_risk_max_disagreement{R})`, "limit")).size(12, 8),
				lines("What audits say", "percentunit", "The same share among the audits, and the interval that holds it at every moment.",
					q(`max by (route, traffic_class) (foregate_risk_estimate{R})`, "{{route}} {{traffic_class}}"),
					q(`max by (route, traffic_class) (foregate_risk_estimate_lower{R})`, "{{route}} {{traffic_class}} at least"),
					q(`max by (route, traffic_class) (foregate_risk_estimate_upper{R})`, "{{route}} {{traffic_class}} at most"), q(`max(foregate_risk_max_disagreement{R})`, "limit")).size(12, 8),
			}},
			{"Phases", []panel{
				lines("Kinds of request by phase", "short", "stopped: the target disagreed with too many of the drafts that the warm-up served. infeasible: audits say that no threshold keeps the promise.",
					q(`count by (phase) (max by (route, traffic_class, phase) (foregate_risk_phase{R}))`, "{{phase}}")),
			}},
			{"Audits", []panel{
				areas("Audits by outcome", "cpm", "A minute. good and bad are evidence; lost counts as bad.", q(`60 * sum by (label) (rate(foregate_audits_total{R}[r]))`, "{{label}}")),
				areas("Audits dropped", "cpm", "A minute, before anybody knew what the target thinks of the draft.", q(`60 * sum by (reason) (rate(foregate_audits_dropped_total{R}[r]))`, "{{reason}}")),
				lines("Evidence", "short", "Audits that the certificates rest on, and those without an outcome yet, which count as bad.",
					q(`max by (route, traffic_class) (foregate_risk_audits{R})`, "{{route}} {{traffic_class}}"), q(`sum(max by (route, traffic_class) (foregate_risk_pending_audits{R}))`, "pending")),
				table("Operating threshold", "short", "Lowest score, in nats, with which a draft is served unverified; no line where none is.",
					q(`max by (route, traffic_class) (foregate_risk_threshold_nats{R})`, "")),
				lines("Alarms and errors", "short", "Alarms of drift, and failures to read or write the evidence in Redis.",
					q(`sum(max by (route, traffic_class) (increase(foregate_risk_alarms_total{R}[r])))`, "alarms"), q(`sum by (kind) (increase(foregate_risk_errors_total{I}[r])) > 0`, "{{kind}}")).size(12, 8),
			}},
			{"Applications", []panel{
				lines("Requests by application", "reqps", "The 20 largest of each route; other is the rest.", q(`sum by (application) (rate(foregate_application_requests_total{R}[r]))`, "{{application}}")).size(8, 7),
				lines("Served by application", "percentunit", "Of the requests of each, those whose answer is a draft.",
					q(`sum by (application) (rate(foregate_application_served_total{R}[r])) / sum by (application) (rate(foregate_application_requests_total{R}[r]))`, "{{application}}")).size(8, 7),
				lines("Agreement by application", "percentunit", "Of the drafts that audits of the last hour stand for, those that the target stands by.",
					q(`sum by (application) (increase(foregate_application_audited_drafts_total{R, agrees="yes"}[1h])) / sum by (application) (increase(foregate_application_audited_drafts_total{R}[1h]))`, "{{application}}")).size(8, 7),
			}},
		},
	}
}

func pools() board {
	return board{
		file: "pools", title: "Pools & KV", vars: []string{"pool"},
		about: "Backends: their memory, how prompts find their beginnings there, and how well they are known.",
		rows: []row{
			{"Memory", []panel{
				lines("KV memory by backend", "percentunit", "As last read. The lines are the defaults of shed.low and shed.normal: above the first new requests of class low wait or are shed, above the second those of class normal.",
					q(`max by (pool, backend) (foregate_backend_kv_usage{P})`, "{{pool}} {{backend}}")).over(0.85, 0.95).size(12, 9),
				lines("Fullest and mean by pool", "percentunit", "Where they part a backend is hot, which the mean hides.",
					q(`max by (pool) (foregate_backend_kv_usage{P})`, "{{pool}} fullest"), q(`avg by (pool) (foregate_backend_kv_usage{P})`, "{{pool}} mean")).size(12, 9),
			}},
			{"Work", []panel{
				areas("Requests on each backend", "short", "Of all replicas.", q(`sum by (pool, backend) (foregate_backend_requests_in_flight{P})`, "{{pool}} {{backend}}")),
				areas("Prompt tokens sent", "short", "A second, as estimated.", q(`sum by (pool, backend) (rate(foregate_prefix_prompt_tokens_total{P}[r]))`, "{{pool}} {{backend}}")),
				areas("Waiting for room", "short", "Requests that wait at a pool, by class.", q(`sum by (pool, priority) (foregate_queue_depth{P})`, "{{pool}} {{priority}}")),
			}},
			{"Choosing", []panel{
				lines("Prefix hits by the engines' own count", "percentunit", "Share of the prompt tokens that were in the prefix cache.",
					q(`max by (pool, backend) (rate(foregate_backend_prefix_hit_tokens_total{P}[r])) / max by (pool, backend) (rate(foregate_backend_prefix_query_tokens_total{P}[r]))`, "{{pool}} {{backend}}")),
				lines("Prefix hits expected and found", "percentunit", "What choosing went by, and what came of it. Where they part the index of prefixes is wrong.",
					q(`sum by (pool) (rate(foregate_prefix_expected_tokens_total{P}[r])) / sum by (pool) (rate(foregate_prefix_prompt_tokens_total{P}[r]))`, "{{pool}} expected"),
					q(`sum by (pool) (max by (pool, backend) (rate(foregate_backend_prefix_hit_tokens_total{P}[r]))) / sum by (pool) (max by (pool, backend) (rate(foregate_backend_prefix_query_tokens_total{P}[r])))`, "{{pool}} found")),
				lines("Fit", "percentunit", "router_fit_score of the backends that were picked: 1/(1 + expected wait in seconds). Half is a second.",
					q(`histogram_quantile(0.5, sum by (pool, le) (rate(router_fit_score_bucket{P}[r])))`, "{{pool}} P50"), q(`histogram_quantile(0.05, sum by (pool, le) (rate(router_fit_score_bucket{P}[r])))`, "{{pool}} P5")),
				lines("Evictions prevented", "reqps", "Picks by which the request pushes less than half as much out of KV memory as on the backend whose turn it was (round-robin).", q(`sum by (pool) (rate(router_evictions_prevented_total{P}[r]))`, "{{pool}}")),
				areas("Failed calls", "reqps", "Calls to backends that failed, by kind.", q(`sum by (pool, kind) (rate(foregate_upstream_failures_total{P}[r]))`, "{{pool}} {{kind}}")),
				lines("Drained or gone", "short", "Backends that are up, and that somebody drained, by pool.", q(`sum by (pool) (max by (pool, backend) (foregate_backend_up{P}))`, "{{pool}} up"), q(`sum by (pool) (max by (pool, backend) (foregate_backend_drained{P}))`, "{{pool}} drained")),
			}},
			{"What is known", []panel{
				states("Backends", "up: it accepts connections.", upWords, q(`max by (pool, backend) (foregate_backend_up{P})`, "{{pool}} {{backend}}")).under(1, 1),
				lines("Age of readings", "s", "A reading counts as it is up to 2 s, and for nothing from 10 s on.", q(`max by (pool, backend) (foregate_scrape_age_seconds{P})`, "{{pool}} {{backend}}")).over(2, 10).size(6, 8),
				lines("Readings that failed", "short", "By backend.", q(`sum by (pool, backend) (increase(foregate_scrape_errors_total{P}[r])) > 0`, "{{pool}} {{backend}}")).size(6, 8),
				table("What engines lack", "short", "Found out by asking one engine of each pool. Modes that need it send their requests to the target.",
					q(`max by (pool, capability) (foregate_probe_missing{P}) > 0`, ""), "Value"),
				lines("Last probe", "s", "Time since the pool's engines were last answered a question of the probe; they are asked once in an engine's life.", q(`max by (pool) (foregate_probe_age_seconds{P})`, "{{pool}}")).size(6, 8),
			}},
		},
	}
}

func shedding() board {
	return board{
		file: "shedding", title: "Shedding & breakers", vars: []string{"pool"},
		about: "Who is turned away and why, and which backends are left alone.",
		rows: []row{
			{"Shedding", []panel{
				areas("Shed by class", "reqps", "Requests turned away with 503. high should never be here.", q(`sum by (priority) (rate(foregate_shed_total{P}[r]))`, "{{priority}}")),
				areas("Shed by reason", "reqps", "kv_pressure: memory is above the class's threshold; kv_growth: it would be; backend_queue: too many requests wait in the engines; backend_delay: they wait there for too long; gateway_queue: too many wait in the gateway.",
					q(`sum by (pool, reason) (rate(foregate_shed_total{P}[r]))`, "{{pool}} {{reason}}")),
				lines("Fullest backend by pool", "percentunit", "The lines are the defaults of shed.low and shed.normal.", q(`max by (pool) (foregate_backend_kv_usage{P})`, "{{pool}}")).over(0.85, 0.95),
				states("Classes turned away now", "For some route.", shedWords, q(`max by (pool, priority) (foregate_shedding{P})`, "{{pool}} {{priority}}")).over(1, 1),
				lines("Waiting for room", "short", "Requests in line.", q(`sum by (priority) (foregate_queue_depth{P})`, "{{priority}}")).size(6, 8),
				lines("How long they waited", "s", "P95 of those that had to wait.", q(`histogram_quantile(0.95, sum by (priority, le) (rate(foregate_queue_wait_seconds_bucket{I}[r])))`, "{{priority}}")).size(6, 8),
			}},
			{"Breakers", []panel{
				states("Breakers", "The worst of the replicas'.", breakerWords, q(`max by (pool, backend) (foregate_breaker_state{P})`, "{{pool}} {{backend}}")).over(1, 2),
				lines("Alone in its opinion", "short", "Breakers that are open on one replica and closed for the fleet: that replica's network is sick.",
					q(`sum by (instance) (foregate_breaker_open_here_only{P})`, "{{instance}}")).size(6, 8),
				lines("Transitions", "short", "By the state that they came to.", q(`sum by (to) (increase(foregate_breaker_transitions_total{P}[r]))`, "{{to}}")).size(6, 8),
			}},
			{"Limits and retries", []panel{
				areas("Refused by a tenant's limit", "reqps", "429, by which limit.", q(`sum by (limit) (rate(foregate_rate_limited_total{I}[r]))`, "{{limit}}")),
				lines("Amplification", "short", "Requests with their retries, by requests: above 1.2 clients make an overload worse.",
					q(`sum(rate(foregate_client_attempts_total{I}[r])) / sum(rate(foregate_client_attempts_total{I, kind="first"}[r]))`, "attempts a request")).over(1.2, 1.5),
				lines("Own retries given up", "short", "Retries that the gateway did not make because retry.budget was spent.", q(`sum(increase(foregate_retry_budget_exhausted_total{I}[r]))`, "given up")),
				lines("Made normal", "short", "Requests of priority high whose tenant has used up its share of it (limit.high_priority_share).", q(`sum(increase(foregate_limit_demoted_total{I}[r]))`, "demoted")),
				areas("How limits were counted", "reqps", "shared: in Redis and in time; else each replica counts its part.", q(`sum by (result) (rate(foregate_limit_redis_total{I}[r]))`, "{{result}}")),
				lines("Errors of coordination", "short", "Round trips and keys in Redis that failed.",
					q(`sum by (kind) (increase(foregate_fleet_errors_total{I}[r])) > 0`, "fleet: {{kind}}"),
					q(`sum(increase(foregate_limit_corrections_dropped_total{I}[r])) > 0`, "limits: corrections lost")),
			}},
		},
	}
}
