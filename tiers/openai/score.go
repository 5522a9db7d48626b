package openai

// ScoreStyle is a way to have an engine say what it thinks of tokens that it did
// not choose itself.
type ScoreStyle string

// The styles, as [ScoreQuestion] writes them.
const (
	ScoreCompletions ScoreStyle = "completions" // vLLM: POST /v1/completions with prompt_logprobs
	ScoreGenerate    ScoreStyle = "generate"    // vLLM: POST /inference/v1/generate with prompt_logprobs
	ScoreSGLang      ScoreStyle = "sglang"      // SGLang: POST /generate with logprob_start_len
)

// ScoreQuestion asks an engine to score Draft as the continuation of Prompt.
type ScoreQuestion struct {
	Style         ScoreStyle
	Model         string
	Prompt, Draft []int32
	Top           int // alternatives wanted at each place, 1..20
	Salt          string
	Priority      *int64 // nil: the pool's engines do not schedule by it
}

// Scored is what an engine says of one token.
type Scored struct {
	Logprob float64   // of the token, nats
	TopID   int32     // the first choice
	Top     float64   // its logprob
	Tops    []float64 // of the listed alternatives, the token's own included where it is one of them
	Alike   bool      // the first choice differs from the token by white space or case at most
}

// Scores are an engine's answer to a ScoreQuestion: one Scored for each token of the
// draft.
type Scores struct {
	Tokens []Scored
	Next   int32 // the engine's own choice behind the draft; −1 where it is not told
	Cached int   // tokens of the prompt that it had; 0 where it is not told
}
