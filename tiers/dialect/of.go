package dialect

// Of returns the dialect of a kind. An engine that is not known yet ("" or Auto) is taken for vLLM.
func Of(k Kind) *Dialect {
	switch k {
	case SGLang:
		return &sglang
	case LlamaCpp:
		return &llamacpp
	case OpenAI:
		return &openaiCompatible
	}
	return &vllm
}
