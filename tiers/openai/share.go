package openai

import "strconv"

// Documents is the raw value of the field documents, which vLLM's templates print into the prompt; nil if
// there is none or it is not forwarded.
func (r *Request) Documents() []byte {
	if m, ok := r.member("documents"); ok && !m.drop {
		return m.value.Of(r.Body)
	}
	return nil
}

// Choices is the number of choices in a whole answer: n for each prompt, independent of best_of.
func (r *Request) Choices() int {
	n := 1
	if raw := r.Raw("n"); raw != nil {
		if asked, err := strconv.Atoi(string(raw)); err == nil {
			n = asked
		}
	}
	return n * max(r.prompts.n, 1)
}

// Answers is the number of answers that an engine generates: the choices for each prompt, with best_of also those that it
// discards.
func (r *Request) Answers() int { return r.N * max(r.prompts.n, 1) }

// Unshareable returns why an answer to the request may not serve an identical one: "logprobs" were requested,
// "output_fields" that only a backend can fill, or "prompt_kind", several prompts in one request. It is "" if
// the answer may be shared.
func (r *Request) Unshareable() string {
	switch {
	case r.Logprobs:
		return "logprobs"
	case r.shows:
		return "output_fields"
	case r.Kind == Completion && r.prompts.n != 1:
		return "prompt_kind"
	}
	return ""
}

// Sampled reports whether two answers to the request may differ: the temperature is above 0 and there is no
// seed.
func (r *Request) Sampled() bool { return r.Temperature > 0 && !r.HasSeed }
