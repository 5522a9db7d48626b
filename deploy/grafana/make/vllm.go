package main

// engines shows what vLLM tells of itself, by its own names, so that they may be looked up in its papers.
// An engine with data parallelism has a series for each rank, which are added up, but for the KV cache: there the
// fullest counts.
func engines() board {
	const kv = `max by (model_name, instance) (vllm:kv_cache_usage_perc{E})`
	const perToken = `sum by (model_name, le) (rate(vllm:inter_token_latency_seconds_bucket{E}[r]))`
	return board{
		file: "engines", title: "Engines", vars: []string{"model", "engine"},
		about: "vLLM's own metrics, as Prometheus reads them from each engine (job vllm). What the gateways make of them is on Pools & KV.",
		rows: []row{
			{"Load", []panel{
				lines("Requests running", "short", "In the engine's batch: prefilling or decoding.", eq(`sum by (model_name, instance) (vllm:num_requests_running{E})`, "{{model_name}} {{instance}}")),
				lines("Requests waiting", "short", "In the engine's queue, those that were preempted too. It has no bound of its own: the gateways shed before it grows.",
					eq(`sum by (model_name, instance) (vllm:num_requests_waiting{E})`, "{{model_name}} {{instance}}")),
				lines("KV cache in use", "percentunit", "Share of the GPU's blocks that requests under way hold. The lines are the defaults of shed.low and shed.normal.",
					eq(kv, "{{model_name}} {{instance}}")).over(0.85, 0.95),
			}},
			{"Speed", []panel{
				lines("Time per output token", "s", "Between two tokens of an answer, after the first.",
					eq(`histogram_quantile(0.5, `+perToken+`)`, "{{model_name}} P50"), eq(`histogram_quantile(0.95, `+perToken+`)`, "{{model_name}} P95")),
				lines("To the first token", "s", "In the engine, its queue included.",
					eq(`histogram_quantile(0.5, sum by (model_name, le) (rate(vllm:time_to_first_token_seconds_bucket{E}[r])))`, "{{model_name}} P50"),
					eq(`histogram_quantile(0.95, sum by (model_name, le) (rate(vllm:time_to_first_token_seconds_bucket{E}[r])))`, "{{model_name}} P95")),
				areas("Tokens generated", "short", "A second.", eq(`sum by (model_name, instance) (rate(vllm:generation_tokens_total{E}[r]))`, "{{model_name}} {{instance}}")),
			}},
			{"Memory", []panel{
				lines("Preemptions", "short", "Requests that lost their blocks to others and begin again: the KV cache is too small for what runs.",
					eq(`sum by (model_name, instance) (increase(vllm:num_preemptions_total{E}[r]))`, "{{model_name}} {{instance}}")),
				lines("Prefix cache hits", "percentunit", "Share of the prompt tokens that were looked up and found.",
					eq(`sum by (model_name, instance) (rate(vllm:prefix_cache_hits_total{E}[r])) / sum by (model_name, instance) (rate(vllm:prefix_cache_queries_total{E}[r]))`, "{{model_name}} {{instance}}")),
				areas("Prompt tokens", "short", "A second, those found in the prefix cache too.", eq(`sum by (model_name, instance) (rate(vllm:prompt_tokens_total{E}[r]))`, "{{model_name}} {{instance}}")),
			}},
		},
	}
}
