package estimate

import (
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// Tokens per second before anything is learned, the bounds of what is believed, and the tokens
// of a mean prompt before one was seen.
// 0.15–0.30 ms per prompt token of an 8B model on an H100 is
// 3,300–6,600 tokens/s, and 10–40 ms between tokens is 25–100 tokens/s.
const (
	DefaultPrefill = 4000.0
	MinPrefill     = 50.0
	maxPrefill     = 200_000.0
	DefaultDecode  = 40.0
	MinDecode      = 1.0
	maxDecode      = 1000.0
	DefaultPrompt  = 512.0
)

const (
	// learnShare is how much a full sample moves an average: about ten
	// samples replace it.
	learnShare = 0.2
	// A prefill sample is full from fullPrefill tokens on and none below
	// minPrefillSample, where the fixed cost of a request (about 30 ms) is all that
	// it would measure.
	fullPrefill, minPrefillSample = 512.0, 64.0
	// The same for the tokens of an answer.
	fullDecode, minDecodeSample = 64.0, 8.0
)

// Speed is the learned speed of one backend in seconds per token. The mean of times is what the expected wait needs, and
// a single fast sample cannot move it far.
type Speed struct {
	Prefill float64 // seconds per prompt token
	Decode  float64 // seconds per token of one request
}

// NewSpeed returns the values before any sample.
func NewSpeed() Speed { return Speed{Prefill: 1 / DefaultPrefill, Decode: 1 / DefaultDecode} }

// LearnPrefill adds a sample: tokens (the prompt and those queued before it) took so long.
func (s *Speed) LearnPrefill(tokens float64, took time.Duration) {
	if tokens < minPrefillSample || took <= 0 {
		return
	}
	sample := clamp(took.Seconds()/tokens, 1/maxPrefill, 1/MinPrefill)
	s.Prefill += (sample - s.Prefill) * learnShare * min(tokens/fullPrefill, 1)
}

// LearnDecode adds a sample: so many tokens after the first took so long.
func (s *Speed) LearnDecode(tokens float64, took time.Duration) {
	if tokens < minDecodeSample || took <= 0 {
		return
	}
	sample := clamp(took.Seconds()/tokens, 1/maxDecode, 1/MinDecode)
	s.Decode += (sample - s.Decode) * learnShare * min(tokens/fullDecode, 1)
}

// How much of its pool's mean time per token a backend may be believed to need at
// least (Fastest) and at most (Slowest). A pool is one model on one kind of hardware: who seems faster found
// the prompt in its prefix cache, and would draw every other prompt too; who seems slower was
// measured behind a queue that nobody saw, and would never be asked again.
const (
	Fastest = 0.8
	Slowest = 1.5
)

// Within returns s limited by the mean of its pool.
func (s Speed) Within(mean Speed) Speed {
	return Speed{
		Prefill: clamp(s.Prefill, Fastest*mean.Prefill, Slowest*mean.Prefill),
		Decode:  clamp(s.Decode, Fastest*mean.Decode, Slowest*mean.Decode),
	}
}

// Pace returns the seconds per token of one request between two readings, where it was last before; 0 if they do not tell. If
// requests run and none got a token, as in a step of many prompts, each waits for its next token since the first reading at
// least: it is not unknown how slow that is.
func Pace(last float64, was, is pressure.Reading) float64 {
	tokens, took := is.GenerationTokens-was.GenerationTokens, is.At.Sub(was.At).Seconds()
	running := float64(was.Running+is.Running) / 2
	switch {
	case tokens < 0 || took <= 0 || running < 1 || is.GenerationTokens == 0:
		return 0
	case tokens == 0:
		return max(last, clamp(took, 1/maxDecode, 1/MinDecode))
	}
	return clamp(running*took/tokens, 1/maxDecode, 1/MinDecode)
}

func clamp(v, lower, upper float64) float64 { return max(lower, min(v, upper)) }

// Bounds of what is believed of how long a token is, in tokens per byte of text:
// from one in 16 bytes (whitespace, code) to one for each byte.
const (
	defaultDensity = 1.0 / 4 // the vendors' rule of thumb for English
	minDensity     = 1.0 / 16
	maxDensity     = 1.0
	// A prompt of fullText bytes or more counts wholly as a sample.
	fullText = 2000.0
)

// Density is the learned number of tokens per byte of text, chat template included. Zero has no sample.
type Density float64

// Of returns the estimated tokens of a text of so many bytes, at least 1.
func (d Density) Of(bytes int) int {
	if d == 0 {
		d = defaultDensity
	}
	return int(float64(max(bytes, 1))*float64(d)) + 1
}

// Learn adds a prompt of so many bytes and tokens. The first long sample replaces the default; factor is the correction
// that this makes, else 1.
func (d *Density) Learn(bytes, tokens int) (factor float64) {
	sample := clamp(float64(tokens)/float64(bytes), minDensity, maxDensity)
	if *d == 0 && float64(bytes) >= fullText {
		*d = Density(sample)
		return sample / defaultDensity
	}
	if *d > 0 {
		*d += Density((sample - float64(*d)) * learnShare * min(float64(bytes)/fullText, 1))
	}
	return 1
}
