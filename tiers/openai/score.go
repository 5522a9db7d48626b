package openai

import "errors"

// ScoreStyle is a way to let an engine score tokens that it did not choose itself.
type ScoreStyle string

// The styles, as in [ScoreQuestion].
const (
	ScoreCompletions ScoreStyle = "completions" // vLLM: POST /v1/completions with prompt_logprobs
	ScoreSGLang      ScoreStyle = "sglang"      // SGLang: POST /generate with logprob_start_len
)

// ScoreQuestion asks an engine to score Draft as the continuation of Prompt.
type ScoreQuestion struct {
	Style         ScoreStyle
	Model         string
	Prompt, Draft []int32
	Top           int // alternatives per position, 1..20
	Salt          string
	Priority      *int64 // nil: the pool's engines do not schedule by priority
}

// Scored is an engine's score of one token.
type Scored struct {
	Logprob float64   // of the token, nats
	TopID   int32     // the first choice
	Top     float64   // logprob of TopID
	Tops    []float64 // of the most likely listed tokens, falling, and the token's own
	Alike   bool      // the first choice differs from the token only in white space or case
}

// Scores are the answer to a ScoreQuestion: one Scored for each token of the draft.
type Scores struct {
	Tokens []Scored
	Told   TokenText // what the engine says of the draft's tokens
	Cached int       // cached prompt tokens; 0 if it is not reported
}

// Errors of an answer to a [ScoreQuestion] or a judge's question.
var (
	ErrShort      = errors.New("fewer tokens were scored than the draft has")
	ErrMisaligned = errors.New("the scores are of other tokens than the draft's")
	ErrScores     = errors.New("the scores cannot be read")
)

// maxTop is the engines' default maximum of alternatives per position (vLLM's --max-logprobs).
const maxTop = 20

func (q *ScoreQuestion) top() int { return min(max(q.Top, 1), maxTop) }

// Path is the path to post the question to.
func (q *ScoreQuestion) Path() string {
	if q.Style == ScoreSGLang {
		return "/generate"
	}
	return Completion.Path()
}

// Body appends the question as JSON. One token is generated, because engines refuse to generate
// none. SGLang is asked from the last token before the draft on, because the first entry that it returns is null; cached
// tokens before it are not computed again. SGLang calls the salt extra_key; its chat endpoint derives it from cache_salt.
func (q *ScoreQuestion) Body(dst []byte) []byte {
	top := int64(q.top())
	if q.Style == ScoreSGLang {
		return Object(dst, append([]Edit{
			SetIDs("input_ids", q.Prompt, q.Draft), Set("sampling_params", `{"max_new_tokens":1,"temperature":0}`), Set("return_logprob", "true"),
			SetInt("logprob_start_len", int64(max(len(q.Prompt)-1, 0))), SetInt("top_logprobs_num", top), Set("return_text_in_logprobs", "true"), Set("stream", "false"),
		}, scheduling("extra_key", q.Salt, q.Priority)...)...)
	}
	return Object(dst, append([]Edit{
		SetText("model", q.Model), SetIDs("prompt", q.Prompt, q.Draft), Set("max_tokens", "1"), Set("temperature", "0"), SetInt("prompt_logprobs", top), Set("stream", "false"),
	}, scheduling("cache_salt", q.Salt, q.Priority)...)...)
}

// scheduling are the members for an engine's cache and its scheduler.
func scheduling(saltName, salt string, priority *int64) (members []Edit) {
	if salt != "" {
		members = append(members, SetText(saltName, salt))
	}
	if priority != nil {
		members = append(members, SetInt("priority", *priority))
	}
	return members
}
