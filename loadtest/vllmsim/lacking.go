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
	featEndLogprob     = "end_logprob"      // the token that ends an answer comes with its id, without a logprob
	featRunningUsage   = "running_usage"    // continuous_usage_stats is ignored: usage comes at the end alone
	featMetrics        = "metrics"          // /metrics: of SGLang a flag turns it on
	featContinuation   = "continuation"     // a prompt of ids loses its last one, unless it is scored: what goes on from it is inexact
)

// Features returns what [Options.Without] can name.
func Features() []string {
	return []string{featTokenIDs, featPromptIDs, featPromptLogprobs, featTokenize, featLogprobs, featEndLogprob, featRunningUsage, featContinuation, featMetrics}
}

func checkFeatures(list []string) error {
	for _, name := range list {
		if !slices.Contains(Features(), name) {
			return fmt.Errorf("vllmsim: unknown feature %q to be without; known: %s", name, strings.Join(Features(), ", "))
		}
	}
	return nil
}

// lacking is what a server does not do.
type lacking struct {
	tokenIDs     bool
	promptIDs    bool
	scores       bool // prompt_logprobs
	tokenize     bool
	logprobs     bool
	endLogprob   bool
	runningUsage bool
	continuation bool
	metrics      bool
}

func newLacking(o *Options) lacking {
	without := func(name string) bool { return slices.Contains(o.Without, name) }
	return lacking{tokenIDs: without(featTokenIDs), promptIDs: without(featPromptIDs), scores: without(featPromptLogprobs),
		tokenize: without(featTokenize), logprobs: without(featLogprobs),
		endLogprob: without(featEndLogprob), runningUsage: without(featRunningUsage), continuation: without(featContinuation), metrics: without(featMetrics)}
}

// strip takes out of a body what the server does not know.
func (l *lacking) strip(w *wireRequest) {
	if l.tokenIDs {
		w.ReturnTokenIDs = false
	}
	if l.scores {
		w.PromptLogprobs = nil
		if w.native != nil {
			w.native.start = none
		}
	}
	if l.logprobs {
		w.Logprobs, w.TopLogprobs = nil, nil
	}
	if l.runningUsage && w.StreamOptions != nil {
		w.StreamOptions.Continuous = false
	}
}

// event takes out of an output what the server does not tell: the logprob of a token that ended the answer. A stop string
// ends an answer within a token like any other.
func (l *lacking) event(ev *event) {
	if _, word := ev.stop.(string); l.endLogprob && ev.finish == finishStop && !word {
		ev.lp = nil
	}
}

// close takes away the routes that the server has not got.
func (l *lacking) close(all map[string]route) {
	var gone []string
	if l.tokenize {
		gone = append(gone, "/tokenize", "/detokenize")
	}
	if l.metrics {
		gone = append(gone, "/metrics")
	}
	for _, path := range gone {
		delete(all, path)
	}
}
