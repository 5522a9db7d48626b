package vllmsim

import (
	"cmp"
	"fmt"
)

// Options say what a server simulates. The zero value is a target model on an A10G in real time.
type Options struct {
	Engine      string  // whose wire: one of [Engines]; default "vllm"
	Model       string  // served model name; default "sim"
	Profile     string  // speeds and sizes, see [ProfileNames]; default "a10g-8b"
	Divergence  float64 // 0..1: how far this model strays from the target of the same seed; 0 is the target itself (docs/measurements.md#simulated-drafts: how many drafts that makes wrong)
	Blind       float64 // 0..1: how little its confidence says of where it strays, see [Model]
	Sentences   bool    // answers are plausible sentences instead of the toy grammar's words, for people who watch; other likelihoods, since fewer words may come
	Seed        uint64  // the language; a draft and its target share it
	TimeScale   float64 // 20 = twenty times faster than the profile; default 1
	MaxModelLen int     // default 131072; never more than the KV cache holds

	Policy              string // scheduling policy: "fcfs" (default) or "priority"
	BlocksOverride      int    // KV blocks instead of the profile's
	MaxNumSeqs          int    // instead of the profile's
	MaxBatchedTokens    int    // instead of the profile's
	PromptTokensDetails bool   // --enable-prompt-tokens-details: usage tells cached_tokens

	Tokenizer string   // "" or "other": the same texts and language under other token ids, all of them
	Without   []string // features that the engine lacks, see [Features]

	// Answers are what chats that offer tools get instead of the language: the first one, where no assistant has spoken yet, then
	// the next, and so on. One whose tool is not offered, and what comes after the last one, is the language's. For a draft they
	// are sure or not as its other answers are.
	Answers []Answer

	Hosted Hosted // of engine openai: a provider's

	APIKeys        []string // --api-key: requests to /v1/… and some others need one of them; none is open
	KeyForAllPaths bool     // so do /health, /metrics and the rest, as with a proxy in front

	Fault Fault // what is wrong from the start
}

// Resolve fills in what is left out and returns the profile with the sizes that the options put in its place. The error
// tells what a server would not start with.
func (o Options) Resolve() (Options, Profile, error) {
	o.Engine, o.Model = cmp.Or(o.Engine, engineVLLM), cmp.Or(o.Model, "sim")
	if o.Profile == "" {
		o.Profile = "a10g-8b"
	}
	if o.TimeScale == 0 {
		o.TimeScale = 1
	}
	if o.Policy == "" {
		o.Policy = "fcfs"
	}
	p, err := ProfileByName(o.Profile)
	if err != nil {
		return o, p, err
	}
	override(&p.Blocks, o.BlocksOverride)
	override(&p.MaxSeqs, o.MaxNumSeqs)
	override(&p.MaxBatchedTokens, o.MaxBatchedTokens)
	if o.MaxModelLen == 0 {
		o.MaxModelLen = 131072
	}
	// vLLM refuses to start with a context that its cache cannot hold; here it shrinks, as --max-model-len auto does.
	o.MaxModelLen = min(o.MaxModelLen, (p.Blocks-1)*BlockSize)
	return o, p, cmp.Or(checkEngine(&o), o.validate(&p))
}

func override(dst *int, v int) {
	if v != 0 {
		*dst = v
	}
}

func (o *Options) validate(p *Profile) error {
	switch {
	case !(o.Divergence >= 0 && o.Divergence <= 1):
		return fmt.Errorf("vllmsim: divergence %v is not within 0..1", o.Divergence)
	case !(o.Blind >= 0 && o.Blind <= 1):
		return fmt.Errorf("vllmsim: blind %v is not within 0..1", o.Blind)
	case o.Tokenizer != "" && o.Tokenizer != tokenizerOther:
		return fmt.Errorf("vllmsim: unknown tokenizer %q; known: %s", o.Tokenizer, tokenizerOther)
	case !(o.TimeScale >= 0.01 && o.TimeScale <= 1e5): // clocks of 64 bits count no further
		return fmt.Errorf("vllmsim: time scale %v is not within 0.01..100000", o.TimeScale)
	case o.Policy != "fcfs" && o.Policy != "priority":
		return fmt.Errorf("vllmsim: unknown policy %q; known: fcfs, priority", o.Policy)
	case o.Hosted.on() && o.Engine != engineOpenAI:
		return fmt.Errorf("vllmsim: a hosted server speaks OpenAI's API, and this one that of %s", o.Engine)
	case p.Blocks < 2 || p.MaxSeqs < 1 || p.MaxBatchedTokens < 1 || o.MaxModelLen < 1:
		return fmt.Errorf("vllmsim: %d blocks, %d sequences, %d batched tokens, context %d: all must be positive",
			p.Blocks, p.MaxSeqs, p.MaxBatchedTokens, o.MaxModelLen)
	}
	return cmp.Or(checkFeatures(o.Without), checkAnswers(o.Answers), o.Fault.validate())
}

// TB is what Start needs of a test; *testing.T and *testing.B fit.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start runs a server on a free loopback port until the test ends.
func Start(t TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err == nil {
		err = s.Start("127.0.0.1:0")
	}
	if err != nil {
		t.Fatalf("vllmsim: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
