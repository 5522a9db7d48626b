package openai

import (
	"errors"
	"strconv"
)

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
// none.
func (q *ScoreQuestion) Body(dst []byte) []byte {
	if q.Style == ScoreSGLang {
		return q.sglangBody(dst)
	}
	dst = append(dst, `{"model":`...)
	dst = quote(dst, q.Model)
	dst = append(dst, `,"prompt":`...)
	dst = q.ids(dst)
	dst = append(dst, `,"max_tokens":1,"temperature":0,"prompt_logprobs":`...)
	dst = strconv.AppendInt(dst, int64(q.top()), 10)
	dst = append(dst, `,"stream":false`...)
	return appendScheduling(dst, "cache_salt", q.Salt, q.Priority)
}

// sglangBody requests scores from the last token before the draft on, because the first entry that SGLang
// returns is null. Cached tokens before it are not computed again. SGLang calls the salt extra_key; its chat
// endpoint derives it from cache_salt.
func (q *ScoreQuestion) sglangBody(dst []byte) []byte {
	dst = append(dst, `{"input_ids":`...)
	dst = q.ids(dst)
	dst = append(dst, `,"sampling_params":{"max_new_tokens":1,"temperature":0},"return_logprob":true,"logprob_start_len":`...)
	dst = strconv.AppendInt(dst, int64(max(len(q.Prompt)-1, 0)), 10)
	dst = append(dst, `,"top_logprobs_num":`...)
	dst = strconv.AppendInt(dst, int64(q.top()), 10)
	dst = append(dst, `,"return_text_in_logprobs":true,"stream":false`...)
	return appendScheduling(dst, "extra_key", q.Salt, q.Priority)
}

// ids appends the prompt and the draft as one list.
func (q *ScoreQuestion) ids(dst []byte) []byte {
	dst = append(dst, '[')
	for i, part := range [...][]int32{q.Prompt, q.Draft} {
		for j, id := range part {
			if j > 0 || i > 0 && len(q.Prompt) > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
	}
	return append(dst, ']')
}

// appendScheduling ends a body with the fields for an engine's cache and its scheduler.
func appendScheduling(dst []byte, saltName, salt string, priority *int64) []byte {
	if salt != "" {
		dst = append(dst, ',')
		dst = quote(dst, saltName)
		dst = append(dst, ':')
		dst = quote(dst, salt)
	}
	if priority != nil {
		dst = append(dst, `,"priority":`...)
		dst = strconv.AppendInt(dst, *priority, 10)
	}
	return append(dst, '}')
}
