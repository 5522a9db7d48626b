package pool

import "time"

// Rates before anything is learned, and the bounds of what is believed.
// vllm-api.md §7: 0.15–0.30 ms per prompt token of an 8B model on an H100 is
// 3,300–6,600 tokens/s, and 10–40 ms between tokens is 25–100 tokens/s.
const (
	prefillDefault, prefillLeast, prefillMost = 4000.0, 50.0, 200_000.0
	decodeDefault, decodeLeast, decodeMost    = 40.0, 1.0, 1000.0
	meanPromptDefault                         = 512.0
)

const (
	// learnShare is how much a full sample moves an average: about ten
	// samples replace it.
	learnShare = 0.2
	// A prefill sample is full from fullPrefill tokens on and none below
	// leastPrefill, where the fixed cost of a request (about 30 ms) is all that
	// it would measure.
	fullPrefill, leastPrefill = 512.0, 64.0
	// The same for the tokens of an answer.
	fullDecode, leastDecode = 64.0, 8.0
	// promptShare is how much one request moves the mean prompt.
	promptShare = 1.0 / 64
)

// rates are what is learned of one backend's speed, as seconds per token: the
// average of times is what the expected wait needs, and one absurdly fast
// sample cannot move it far.
type rates struct {
	prefill float64 // seconds per prompt token
	decode  float64 // seconds per token of one request
}

func newRates() rates { return rates{prefill: 1 / prefillDefault, decode: 1 / decodeDefault} }

// learnPrefill takes that tokens (the prompt and what was queued before it)
// took so long.
func (r *rates) learnPrefill(tokens float64, took time.Duration) {
	if tokens < leastPrefill || took <= 0 {
		return
	}
	sample := clamp(took.Seconds()/tokens, 1/prefillMost, 1/prefillLeast)
	r.prefill += (sample - r.prefill) * learnShare * min(tokens/fullPrefill, 1)
}

// learnDecode takes that so many tokens after the first took so long.
func (r *rates) learnDecode(tokens float64, took time.Duration) {
	if tokens < leastDecode || took <= 0 {
		return
	}
	sample := clamp(took.Seconds()/tokens, 1/decodeMost, 1/decodeLeast)
	r.decode += (sample - r.decode) * learnShare * min(tokens/fullDecode, 1)
}

func clamp(v, least, most float64) float64 { return max(least, min(v, most)) }

// Bounds of what is believed of how long a token is, in tokens per byte of text:
// from one in 16 bytes (whitespace, code) to one for each byte.
const (
	densityDefault = 1.0 / 4 // the vendors' rule of thumb for English
	densityLeast   = 1.0 / 16
	densityMost    = 1.0
	// A prompt of fullText bytes or more counts wholly as a sample.
	fullText = 2000.0
)

// density is what is learned of a model's tokens per byte of text, its chat template
// included. Zero is not learned yet.
type density float64

func (d density) of(bytes int) int {
	if d == 0 {
		d = densityDefault
	}
	return int(float64(max(bytes, 1))*float64(d)) + 1
}

// learn takes that a prompt of so many bytes had so many tokens. The first long
// sample replaces the rule of thumb; factor is by how much it was wrong, else 1.
func (d *density) learn(bytes, tokens int) (factor float64) {
	sample := clamp(float64(tokens)/float64(bytes), densityLeast, densityMost)
	if *d == 0 && float64(bytes) >= fullText {
		*d = density(sample)
		return sample / densityDefault
	}
	if *d > 0 {
		*d += density((sample - float64(*d)) * learnShare * min(float64(bytes)/fullText, 1))
	}
	return 1
}
