package vllmsim

import (
	"fmt"
)

// This file turns what a request brings into the ids that the engine reads.

func (s *Server) chatPrompt(w *wireRequest, r *request) *apiError {
	in := s.templateInput(w)
	if in.open && in.generation {
		return refused("continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you want the model to continue the final message, and add_generation_prompt when you want to add a header that will prompt it to start a new assistant message instead.")
	}
	if len(w.Messages) > 0 {
		last := &w.Messages[len(w.Messages)-1]
		if in.open || !in.generation {
			r.role = last.Role
		}
	}
	ids, err := s.tok.render(in)
	if err == errTextOnly {
		return refused(s.opts.Model + " is not a multimodal model")
	}
	if err != nil {
		return err
	}
	r.prompts = [][]int32{ids}
	return nil
}

// templateInput is what the chat template renders of a request. vLLM renders the tools that a request must not call, too
// (unless it has --exclude-tools-when-tool-choice-none), SGLang does not.
func (s *Server) templateInput(w *wireRequest) templateInput {
	in := templateInput{messages: w.Messages, tools: w.Tools, generation: true, open: w.ContinueFinalMessage}
	if w.AddGenerationPrompt != nil {
		in.generation = *w.AddGenerationPrompt
	}
	if string(w.ToolChoice) == `"none"` && !s.vllm() {
		in.tools = nil
	}
	return in
}

func (s *Server) completionPrompts(w *wireRequest, r *request) *apiError {
	if len(w.prompts) == 0 {
		_, err := promptList(w.Prompt) // checkSchema has let it through for this word
		return err
	}
	for _, p := range w.prompts {
		ids := s.wire.inAll(p.ids)
		if p.asIDs && s.missingFeatures.has(featContinuation) && len(ids) > 1 && r.promptLogprobs == none {
			ids = ids[:len(ids)-1]
		}
		if !p.asIDs {
			if w.AddSpecialTokens == nil || *w.AddSpecialTokens {
				ids = append(ids, tokBOS)
			}
			ids = s.tok.AppendEncode(ids, p.text)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= s.tok.Size() {
				r.lazy = &apiError{status: 400, kind: kindBadRequest,
					message: fmt.Sprintf("Token id %d is out of vocabulary", id)}
				ids = nil
				break
			}
		}
		if len(ids) == 0 && r.lazy == nil {
			return refused("The decoder prompt cannot be empty")
		}
		r.prompts = append(r.prompts, ids)
	}
	return nil
}
