// Package dialect describes what differs between the kinds of inference engines: where their load is read, how they
// tokenize, which request members they know, how they score and how an answer is continued. It is data and pure
// functions; [Find] alone asks, by a function. Each kind has a file of its own. Start at [Of] and [Dialect].
package dialect

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// Kind names a kind of engine, as pools.NAME.engine does.
type Kind string

// The kinds. Auto is only a setting: the engine is asked which of the others it is.
const (
	Auto     Kind = "auto"
	VLLM     Kind = "vllm"
	SGLang   Kind = "sglang"
	LlamaCpp Kind = "llamacpp"
	OpenAI   Kind = "openai" // any other server that speaks OpenAI's API, such as Ollama
)

// dialects are all kinds of engines. The mark of a later one is looked for first.
var dialects = []*Dialect{&vllm, &sglang, &llamacpp, &openaiCompatible}

// Kinds are all values of pools.NAME.engine.
var Kinds = kinds()

func kinds() []Kind {
	all := []Kind{Auto}
	for _, d := range dialects {
		all = append(all, d.Kind)
	}
	return all
}

// ParseKind returns the kind that a setting names; "" is Auto. The error lists the kinds.
func ParseKind(s string) (Kind, error) {
	if s == "" {
		return Auto, nil
	}
	if k := Kind(s); slices.Contains(Kinds, k) {
		return k, nil
	}
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = string(k)
	}
	return "", fmt.Errorf("%q is not an engine: use one of %s", s, strings.Join(names, ", "))
}

// Dialect is what differs between kinds of engines. A Dialect never changes.
type Dialect struct {
	Kind        Kind
	Mark        Mark
	Health      string // GET this path answers 200 while the server lives; "": nothing may be asked, only a TCP connection is made
	Load        Load
	Tokenize    Tokenize
	PropsWindow bool // the context length of a request is in GET /props, not in max_model_len of GET /v1/models
	// Scoring are the ways to score a given text that may work, the best one first. Empty: drafts are checked by a
	// judge.
	Scoring []openai.ScoreStyle
	Members Members
	// IgnoresClose says that the engine goes on with an answer in one piece whose client has gone. With a stream it notices
	// that, so it is asked for one instead.
	IgnoresClose bool
	ContinueBy   ContinueBy
}

// Mark is what answers of GETs have only of this kind of engine; "": there is nothing.
type Mark struct {
	Owner        string // owned_by in /v1/models
	Prefix       string // the names of metrics in /metrics begin with it
	Path, Member string // the answer to a path has a member, in JSON
}

// Load says where an engine tells its load.
type Load struct {
	Metrics Metrics // names in GET /metrics; without a Running name there is no /metrics to read
	Flag    string  // the flag of the engine that turns /metrics on; "": they are always there, and their absence is a fault
}

// Metrics are names of metric families. Of several names the first that is exposed counts.
type Metrics struct {
	Rank             string   // label of the engines behind one URL (data parallel ranks); "": there is one
	Parts            []string // labels of the parts of one engine, which may all tell the same: those with the lowest number count
	Usage            []string // gauge, 0..1 of the KV memory; none: it is not told
	Tokens           string   // gauge, tokens that the KV memory holds
	Running, Waiting []string // gauges, requests
	CacheInfo        string   // a series whose labels tell block size and blocks
	PromptTokens     []string // counters since the engine's start
	GenerationTokens []string
	PrefixQueries    []string
	PrefixHits       []string
	Preemptions      []string
	Iterations       []string
}

// Tokenize says how texts are turned into ids and back.
type Tokenize string

// The ways to tokenize.
const (
	TokenizeNone     Tokenize = ""         // no route
	TokenizeVLLM     Tokenize = "vllm"     // POST /tokenize {"prompt"} or {"messages"}, POST /detokenize → "prompt"
	TokenizeSGLang   Tokenize = "sglang"   // as vLLM, but /detokenize leaves special tokens out unless it is asked for them, and answers "text"
	TokenizeLlamaCpp Tokenize = "llamacpp" // POST /tokenize {"content"}, POST /apply-template, POST /detokenize → "content"
)

// Members are the request members that an engine knows beyond OpenAI's.
type Members struct {
	TokenIDs      bool // return_token_ids
	WholeTokenIDs bool // return_token_ids, but it refuses it in streams of chats
	IDsInLogprobs bool // entries of logprobs have the token's "id"
	IDPrompts     bool // /v1/completions takes ids as its prompt
	OnlyMaxTokens bool // it ignores or refuses max_completion_tokens
	CacheSalt     bool // cache_salt
	Priority      bool // priority
	TemplateArgs  bool // chat_template_kwargs; enable_thinking: false in them turns thinking off
	UsageSoFar    bool // stream_options.continuous_usage_stats
	OneChoice     bool // it gives one choice, and may answer 500 where more are asked for
	Strict        bool // it may refuse members that OpenAI's API does not have
	HighFirst     bool // a higher priority is earlier; with vLLM a lower one is
}

// ContinueBy says how an engine is asked to continue the text of an unfinished answer of a chat. That of a completion all
// continue: its prompt gets longer.
type ContinueBy string

// The ways to ask.
const (
	ContinueByFlags   ContinueBy = "flags"   // continue_final_message and add_generation_prompt: false
	ContinueByIDs     ContinueBy = "ids"     // a completion behind the ids of prompt and text: in a chat the engine would repeat the text
	ContinueByPrefill ContinueBy = "prefill" // a last message of the assistant; what comes of it must be found out
)

// Continue says what an engine answers that is asked to continue a text.
type Continue string

// The answers.
const (
	ContinueUnknown Continue = ""          // it was not asked yet
	Continues       Continue = "continues" // the rest alone
	Repeats         Continue = "repeats"   // the very text once more, then the rest
	ContinueNot     Continue = "no"        // neither: another backend begins the answer anew
)

// Continues returns what engines of this kind answer that are asked to continue a text; found is what the probe has seen.
func (d *Dialect) Continues(found Continue) Continue {
	switch {
	case found != ContinueUnknown:
		return found
	case d.ContinueBy == ContinueByPrefill:
		return ContinueNot
	}
	return Continues
}

// Reads reports whether there is a /metrics to read.
func (l *Load) Reads() bool { return len(l.Metrics.Running) > 0 }

// EnginePriority returns what an engine is told for a priority of vLLM's direction, where a lower one is earlier; nil: the
// engine knows no priority, or none is given.
func (d *Dialect) EnginePriority(p *int64) *int64 {
	switch {
	case p == nil || !d.Members.Priority:
		return nil
	case d.Members.HighFirst:
		turned := -max(*p, -math.MaxInt64)
		return &turned
	}
	return p
}

// IsNotServed reports whether a status says that a server has no such model or path.
func IsNotServed(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusMisdirectedRequest, http.StatusNotImplemented:
		return true
	}
	return false
}

// Of returns the dialect of a kind. An engine that is not known yet ("" or Auto) is taken for vLLM.
func Of(k Kind) *Dialect {
	for _, d := range dialects {
		if d.Kind == k {
			return d
		}
	}
	return &vllm
}

// openaiCompatible is a server of which nothing is known but that it speaks OpenAI's API.
var openaiCompatible = Dialect{Kind: OpenAI, Members: Members{Strict: true}, ContinueBy: ContinueByPrefill}
