package dialect

// ollama is Ollama from 0.12.11 on, the first release whose OpenAI API has logprobs.
var ollama = Dialect{
	Kind:     Ollama,
	Health:   "/api/version",
	Window:   WindowOllama,
	Members:  Members{OnlyMaxTokens: true},
	Continue: ContinuePrefill,
	Thinking: ThinkingEffort,
}
