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

// Choices is how many choices an answer to the request has, where it has one prompt: n, whatever best_of is.
func (r *Request) Choices() int {
	n, err := strconv.Atoi(string(r.Raw("n")))
	if err != nil {
		return 1
	}
	return n
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
	case r.Kind == Completion && !r.onePrompt():
		return "prompt_kind"
	}
	return ""
}

// onePrompt reports whether a completion has one prompt: a text, the ids of one, or a list of just one of
// them.
func (r *Request) onePrompt() bool {
	raw := r.Raw("prompt")
	if len(raw) == 0 || raw[0] != '[' {
		return true
	}
	in := borrowCursor(raw)
	defer in.release()
	elements := 0
	for range in.array() {
		if in.kind() == '0' {
			return true // the ids of one
		}
		if elements++; elements > 1 {
			return false
		}
		in.skip()
	}
	return elements == 1
}
