package vllmsim

import (
	"fmt"
	"slices"
	"strings"
)

// What an engine may be without: what it does not know it ignores, and routes that it has not got are not found.
const (
	featTokenIDs       = "token_ids"        // return_token_ids
	featPromptIDs      = "prompt_token_ids" // of chats and completions: return_token_ids brings the generated ones alone
	featPromptLogprobs = "prompt_logprobs"  // neither on vLLM's routes nor on SGLang's
	featTokenize       = "tokenize"         // /tokenize and /detokenize
	featLogprobs       = "logprobs"         // of generated tokens
	featContinuation   = "continuation"     // a prompt of ids loses its last one, unless it is scored: what goes on from it is inexact
)

// Features returns what [Options.Without] can name.
func Features() []string {
	return []string{featTokenIDs, featPromptIDs, featPromptLogprobs, featTokenize, featLogprobs, featContinuation}
}

func checkFeatures(list []string) error {
	for _, name := range list {
		if !slices.Contains(Features(), name) {
			return fmt.Errorf("vllmsim: unknown feature %q to be without; known: %s", name, strings.Join(Features(), ", "))
		}
	}
	return nil
}

// lacking are the features that a server has not got.
type lacking []string

func (l lacking) has(feature string) bool { return slices.Contains(l, feature) }

// strip takes out of a body what the server does not know.
func (l lacking) strip(w *wireRequest) {
	if l.has(featTokenIDs) {
		w.ReturnTokenIDs = false
	}
	if l.has(featPromptLogprobs) {
		w.PromptLogprobs = nil
		if w.native != nil {
			w.native.start = none
		}
	}
	if l.has(featLogprobs) {
		w.Logprobs, w.TopLogprobs = nil, nil
	}
}

// close takes away the routes that the server has not got.
func (l lacking) close(all map[string]route) {
	if l.has(featTokenize) {
		delete(all, "/tokenize")
		delete(all, "/detokenize")
	}
}
