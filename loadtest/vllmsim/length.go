package vllmsim

import (
	"fmt"
	"strconv"
)

// checkRequest refuses a request that does not fit the context, in the order of the engine's own looks at it.
func (s *Server) checkRequest(r *request, prompt, asked int) *apiError {
	exact := !r.chat && r.wire.idPrompt()
	err := s.checkLength(prompt, asked, exact)
	if err != nil {
		err.long = &overlong{prompt: prompt, asked: asked, limit: s.opts.MaxModelLen}
	}
	return err
}

// checkLength refuses what does not fit the context. vLLM ends an answer at the end of the context, however much was asked
// for; the others refuse what would not fit.
func (s *Server) checkLength(prompt, asked int, exact bool) *apiError {
	limit, fits := s.opts.MaxModelLen, s.opts.MaxModelLen
	if !s.vllm() {
		fits -= asked
	}
	switch {
	case asked > limit:
		return invalid(fmt.Sprintf("max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", asked, limit),
			"max_tokens", strconv.Itoa(asked))
	case prompt > fits:
		about := ""
		if !exact {
			prompt, about = fits+1, "at least " // tokenisation stops at the limit
		}
		if !s.vllm() {
			return refused(fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.",
				limit, prompt+asked, prompt, asked))
		}
		return invalid(fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %s%d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
			limit, about, prompt), "input_tokens", strconv.Itoa(prompt))
	}
	return s.checkEngineLength(prompt)
}

// checkEngineLength is the engine's own look at the length.
func (s *Server) checkEngineLength(prompt int) *apiError {
	switch limit := s.opts.MaxModelLen; {
	case prompt > limit:
		return refused(fmt.Sprintf("The decoder prompt (length %d) is longer than the maximum model length of %d. Make sure that `max_model_len` is no smaller than the number of text tokens.", prompt, limit))
	case prompt == limit:
		return refused(fmt.Sprintf("The decoder prompt (length %d) plus the number of requested output tokens (at least 1) is longer than the maximum model length of %d.", prompt, limit))
	}
	return nil
}
