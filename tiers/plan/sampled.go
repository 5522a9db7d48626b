package plan

import (
	"slices"
	"strconv"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// SampledMissing says in one word why an answer above temperature 0 cannot be verified exactly, "" where it
// can. What is refused goes to the target: nothing is approximated in silence.
func SampledMissing(cfg Config, f Facts) string {
	r := f.Request
	switch {
	case !cfg.VerifySampled:
		return "sampled"
	case r.Penalties:
		return "penalties"
	case r.Structured:
		return "structured" // a grammar begins anew at the first generated token
	case r.Tools:
		return "tools"
	case r.Extras:
		return "output_fields"
	case slices.ContainsFunc(unsampled, func(name string) bool { return r.Raw(name) != nil }), !ContinuesExactly(r):
		return "sampled_fields"
	case !plainSampling(r):
		return "sampled_temperature"
	case r.PromptTokens > cfg.MaxPromptTokens:
		return "prompt_length"
	case cfg.Scoring.MaxConcurrent == 0 || cfg.Scoring.MaxTokens <= r.PromptTokens:
		return "sampled_score_tokens"
	}
	return f.SampledEngineMissing()
}

// unsampled are the fields, of those that a continuation by ids can name, that change by which law tokens are drawn,
// where an answer ends or what of it is shown, in ways that bounds do not know of.
var unsampled = []string{
	"min_p", "stop_token_ids", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
}

// minTemperature is the lowest temperature that vLLM samples by: it draws by this one where a request asks for less.
const minTemperature = .01

// plainSampling reports whether temperature, top_p and top_k are such as engines take by their word.
func plainSampling(r *openai.Request) bool {
	k := string(r.Raw("top_k"))
	_, err := strconv.Atoi(k)
	return r.Temperature >= minTemperature && SamplingOf(r).TopP > 0 && (err == nil || k == "" || k == "null")
}

// SamplingOf is by which law the target draws for a request; its top_k of −1 or 0 is all.
func SamplingOf(r *openai.Request) accept.Sampling {
	s := accept.Sampling{Temperature: r.Temperature, TopP: 1}
	if v, err := strconv.ParseFloat(string(r.Raw("top_p")), 64); err == nil {
		s.TopP = v
	}
	if k, err := strconv.Atoi(string(r.Raw("top_k"))); err == nil {
		s.TopK = max(k, 0)
	}
	return s
}

const (
	// SampledTop is how many alternatives are wanted of the draft and of a score: all that engines tell.
	SampledTop = 20
	// sampledTopK is from how many tokens a draft is drawn at most. It is one less than are listed, so that one can
	// see whether the last has an equal: engines keep all of equals.
	sampledTopK = SampledTop - 1
	// sampledMinP is how likely, as a share of the likeliest, a token of a draft is at least: of the twenty that are listed
	// that leaves a dozen where probabilities fall as Zipf's law has it, so that it, and no tie, is where the draft's law ends.
	sampledMinP = .02
	// MaxSampled is the longest draft in tokens: its scores are then 4 MB.
	MaxSampled = 2048
	// SampledDraws is how many draws of the target are asked for at once.
	SampledDraws = 8
)

// SampledEngineMissing says what the engines of both pools lack.
func (f Facts) SampledEngineMissing() string {
	same, known := probe.SameTokens(f.Draft, f.Target)
	switch {
	case f.Target == nil:
		return "target_unprobed"
	case f.Draft == nil:
		return "draft_unprobed"
	case !known || !same:
		return "tokenizers_differ"
	case f.Target.Scoring == "":
		return "target_without_scoring"
	case f.Target.Scoring == openai.ScoreSGLang || f.Target.ScoreTop < SampledTop:
		return "sampled_scores" // too few alternatives, or in another shape
	case !f.Draft.TokenIDs || f.Draft.MissingReason(probe.MissingPromptIDs) != "" || !f.Draft.RawLogprobs || f.Draft.TopLogprobs < SampledTop:
		return "sampled_draft_logprobs"
	case f.Target.MissingReason(probe.MissingContinue) != "" || f.Target.MissingReason(probe.MissingWords) != "" || !f.Target.TokenIDs:
		return "sampled_continuation"
	case len(f.Target.EOS) == 0 || slices.ContainsFunc(f.Draft.EOS, func(id int32) bool { return !slices.Contains(f.Target.EOS, id) }):
		return "sampled_ends"
	case !f.Target.Processed:
		return "sampled_raw_target" // with what probability a token was drawn is not known
	case !f.Target.Plain:
		return "sampled_defaults" // what a request does not name is not known to be left alone
	}
	return ""
}

// DraftSampling is by which law a draft for a request is drawn.
func DraftSampling(r *openai.Request) accept.Sampling {
	s := SamplingOf(r)
	s.MinP = sampledMinP
	if s.TopK == 0 || s.TopK > sampledTopK {
		s.TopK = sampledTopK
	}
	return s
}
