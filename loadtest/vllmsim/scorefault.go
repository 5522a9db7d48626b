package vllmsim

import "encoding/json"

// What Fault.Score can be.
const (
	scoreError      = "error"
	scoreHang       = "hang"
	scoreShort      = "short"
	scoreMisaligned = "misaligned"
	scoreGarbage    = "garbage"
	scoreDie        = "die"
)

var scoreFaults = []string{scoreError, scoreHang, scoreShort, scoreMisaligned, scoreGarbage, scoreDie}

// asksForScores reports whether a body wants the logprobs of tokens that it brings along, on whichever route. What cannot
// be read asks for nothing.
func asksForScores(body []byte) bool {
	var q struct {
		PromptLogprobs *int            `json:"prompt_logprobs"`
		Echo           bool            `json:"echo"`
		Logprobs       json.RawMessage `json:"logprobs"`
		Sampling       struct {
			PromptLogprobs *int `json:"prompt_logprobs"`
		} `json:"sampling_params"`
		ReturnLogprob bool `json:"return_logprob"`
		StartLen      *int `json:"logprob_start_len"`
	}
	if unmarshal(body, &q) != nil {
		return false
	}
	return q.PromptLogprobs != nil || q.Sampling.PromptLogprobs != nil || q.Echo && !isNull(q.Logprobs) && string(q.Logprobs) != "false" ||
		q.ReturnLogprob && q.StartLen != nil && *q.StartLen >= 0
}

// leavesOut reports whether a short array has no entry for token i. What is left is as of vLLM's V2 runner when it reads
// every full block from its cache: null, and what comes after the last of them.
func (in *scoring) leavesOut(i int) bool {
	return in.fault == scoreShort && i > 0 && i <= max(1, (len(in.prompt)-1)/BlockSize*BlockSize)
}

// spoiltEntry stands for no logprob, but a whole entry.
const spoiltEntry = "entry"

// spoilt is what stands for every logprob of a prompt: "" is the truth. Which kind of garbage it is goes by the prompt.
func (in *scoring) spoilt() string {
	if in.fault != scoreGarbage {
		return ""
	}
	kinds := [...]string{"null", `"-0.25"`, "NaN", spoiltEntry} // Python writes NaN, which no JSON is
	return kinds[hashIDs(hashSeed, in.prompt)%uint64(len(kinds))]
}
