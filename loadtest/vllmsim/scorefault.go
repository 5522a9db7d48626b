package vllmsim

// scoreError is what Fault.Score can be.
const scoreError = "error"

// asksForScores reports whether a body wants the logprobs of tokens that it brings along, on whichever route. What cannot
// be read asks for nothing.
func asksForScores(body []byte) bool {
	var q struct {
		PromptLogprobs *int `json:"prompt_logprobs"`
		ReturnLogprob  bool `json:"return_logprob"`
		StartLen       *int `json:"logprob_start_len"`
	}
	if decode(body, &q) != nil {
		return false
	}
	return q.PromptLogprobs != nil || q.ReturnLogprob && q.StartLen != nil && *q.StartLen >= 0
}
