package openai

import "strconv"

// Documents is the raw value of the field documents, which vLLM's templates print into
// the prompt; nil where there is none or it is not sent on.
func (r *Request) Documents() []byte {
	if m, ok := r.member("documents"); ok && !m.drop {
		return m.value.Of(r.Body)
	}
	return nil
}

// Choices is how many choices a whole answer to the request has: n for each prompt, whatever best_of is.
func (r *Request) Choices() int {
	n, err := strconv.Atoi(string(r.Raw("n")))
	if err != nil {
		n = 1
	}
	return n * max(r.prompts, 1)
}

// Unshareable says why an answer to the request may not serve another one that is identical: "logprobs" were
// asked for, "output_fields" that only a backend can fill, or "prompt_kind", several prompts in one
// request. It is "" where the answer may.
func (r *Request) Unshareable() string {
	switch {
	case r.Logprobs:
		return "logprobs"
	case r.shows:
		return "output_fields"
	case r.Kind == Completion && r.prompts != 1:
		return "prompt_kind"
	}
	return ""
}

// Sampled reports whether two answers to the request may differ: it is above temperature 0 and names no seed.
func (r *Request) Sampled() bool { return r.Temperature > 0 && !r.HasSeed }
