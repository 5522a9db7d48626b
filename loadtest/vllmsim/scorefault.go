package vllmsim

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
		PromptLogprobs *int `json:"prompt_logprobs"`
		ReturnLogprob  bool `json:"return_logprob"`
		StartLen       *int `json:"logprob_start_len"`
	}
	if decode(body, &q) != nil {
		return false
	}
	return q.PromptLogprobs != nil || q.ReturnLogprob && q.StartLen != nil && *q.StartLen >= 0
}

// spoil makes of the entries of a prompt's tokens, the first of which is empty, what the fault makes of them. A short list
// is as of vLLM's V2 runner when it reads every full block from its cache: null, and what comes after the last of them.
func spoil[T any](in *scoring, list []T) []T {
	switch in.fault {
	case scoreShort:
		return append(list[:1:1], list[min(len(list), max(1, (len(list)-1)/BlockSize*BlockSize)+1):]...)
	case scoreMisaligned:
		return append(make([]T, 1, len(list)), list[:len(list)-1]...)
	}
	return list
}

// spoiltEntry stands for no logprob, but a whole entry.
const spoiltEntry = "entry"

// garbage is what stands for every logprob of a prompt: "" is the truth. Which kind of garbage it is goes by the prompt.
func (s *scoring) garbage() string {
	if s.fault != scoreGarbage {
		return ""
	}
	kinds := [...]string{"null", "text", spoiltEntry}
	return kinds[hashIDs(hashSeed, s.prompt)%uint64(len(kinds))]
}

// value is a logprob as the fault leaves it.
func (s *scoring) value(lp float64) any {
	switch s.garbage() {
	case "":
		return lp
	case "text":
		return "-0.25"
	}
	return nil
}
