package dialect

import "github.com/foregate/foregate/tiers/openai"

// sglang is SGLang, as its source was in July 2026.
var sglang = Dialect{
	Kind:   SGLang,
	Mark:   Mark{"sglang", "sglang:", "/get_model_info", "model_path"},
	Health: "/health",
	Load: Load{Flag: "--enable-metrics", Metrics: Metrics{
		Rank:    "dp_rank",
		Parts:   []string{"tp_rank", "pp_rank"}, // several with --enable-metrics-for-all-schedulers
		Tokens:  "sglang:max_total_num_tokens",
		Usage:   []string{"sglang:token_usage"},
		Running: []string{"sglang:num_running_reqs"}, Waiting: []string{"sglang:num_queue_reqs"},
		PromptTokens:     []string{"sglang:prompt_tokens_total"},
		GenerationTokens: []string{"sglang:generation_tokens_total"},
		PrefixQueries:    []string{"sglang:prompt_tokens_total"},
		PrefixHits:       []string{"sglang:cached_tokens_total"},
		Preemptions:      []string{"sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total"},
	}},
	Tokenize:   TokenizeSGLang,
	Scoring:    []openai.ScoreStyle{openai.ScoreSGLang, openai.ScoreCompletions},
	Members:    Members{WholeTokenIDs: true, IDPrompts: true, CacheSalt: true, Priority: true, HighFirst: true, TemplateArgs: true},
	ContinueBy: ContinueByFlags,
}
