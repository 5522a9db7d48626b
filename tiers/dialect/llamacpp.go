package dialect

// llamacpp is llama.cpp's llama-server, as its source was in April 2026.
var llamacpp = Dialect{
	Kind:   LlamaCpp,
	Mark:   Mark{"llamacpp", "llamacpp:", "/props", "default_generation_settings"},
	Health: "/health", // 503 while it loads the model
	// Its KV memory is divided into slots and cannot run out: it tells no usage, and its queue shows its load.
	Load: Load{Flag: "--metrics", Metrics: Metrics{
		Running: []string{"llamacpp:requests_processing"}, Waiting: []string{"llamacpp:requests_deferred"},
		PromptTokens:     []string{"llamacpp:prompt_tokens_total"},
		GenerationTokens: []string{"llamacpp:tokens_predicted_total"},
		Iterations:       []string{"llamacpp:n_decode_total"},
	}},
	Tokenize:     TokenizeLlamaCpp,
	PropsWindow:  true,
	Members:      Members{IDsInLogprobs: true, IDPrompts: true, OnlyMaxTokens: true, OneChoice: true, TemplateArgs: true},
	ContinueBy:   ContinueByIDs,
	IgnoresClose: true,
}
