package dialect

import "github.com/foregate/foregate/tiers/openai"

// vllm is vLLM 0.9.2 to 0.32.
var vllm = Dialect{
	Kind:   VLLM,
	Mark:   Mark{"vllm", "vllm:", "/version", "version"},
	Health: "/health",
	Load: Load{Metrics: Metrics{
		Rank:    "engine",
		Usage:   []string{"vllm:kv_cache_usage_perc"},
		Running: []string{"vllm:num_requests_running"}, Waiting: []string{"vllm:num_requests_waiting"},
		CacheInfo: "vllm:cache_config_info",
		// Python's client appends _total, some exporters do not.
		PromptTokens:     []string{"vllm:prompt_tokens_total", "vllm:prompt_tokens"},
		GenerationTokens: []string{"vllm:generation_tokens_total", "vllm:generation_tokens"},
		PrefixQueries:    []string{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"},
		PrefixHits:       []string{"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"},
		Preemptions:      []string{"vllm:num_preemptions_total", "vllm:num_preemptions"},
		// A histogram: its count is the number of engine steps.
		Iterations: []string{"vllm:iteration_tokens_total", "vllm:iteration_tokens_total_count"},
	}},
	Tokenize:   TokenizeVLLM,
	Scoring:    []openai.ScoreStyle{openai.ScoreCompletions},
	Members:    Members{TokenIDs: true, IDPrompts: true, CacheSalt: true, Priority: true, TemplateArgs: true, UsageSoFar: true},
	ContinueBy: ContinueByFlags,
}
