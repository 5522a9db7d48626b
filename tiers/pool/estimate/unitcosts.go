package estimate

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// enoughPrompts and enoughWork are how many samples are believed: of prompts, and of answers or pairs of readings.
	enoughPrompts, enoughWork = 32, 32
	// promptsKept is of how many prompts the mean speed is kept.
	promptsKept = 128
	// workKept is how much work of one backend the sums are kept of. An answer counts for answerWork.
	workKept, answerWork = time.Minute, 500 * time.Millisecond
	// maxGap is the longest time between two readings of which they tell together.
	maxGap = 10 * time.Second
	// crowdRise is how much of the way one sample moves the crowd up, and crowdHalf how
	// long it takes to fall to half where there are no more such crowds: a night does not
	// make a token as dear as the one of an empty pool.
	crowdRise = 1.0 / 16
	crowdHalf = 6 * time.Hour
	// crowded is the share of the usual crowd from which on a backend counts as full.
	crowded = 0.75
	// promptShare is the time of a prompt token, in answer tokens, before prompts were seen: about that of an 8B or a 70B model
	// on H100s with 64 sequences.
	promptShare = 0.25
)

// UnitCosts learns how long a full backend of the pool needs for a prompt token that it computes, and for an answer token.
// Both times add up: what it computed while it was full, priced by them, is the time that this took.
//
// A backend costs the same whether it runs one request or sixty, so by its current load a token of an idle backend would
// seem sixty times as dear. The wanted price is the one at the pool's usual concurrency. So only times with at least
// three quarters of it count, and that value rises fast and falls slowly. A draft pool that gets no requests because it
// seemed expensive therefore does not become more expensive.
type UnitCosts struct {
	tokens, took float64 // of late prompts: sum of the tokens to be computed, and the seconds until the first token
	prompts      int     // that these rest on, up to enoughPrompts

	crowd float64   // requests at once on one backend, usually
	at    time.Time // when the crowd was last moved

	seconds, prompt, answer float64 // of late full time: how long, and the tokens computed and generated in it
	samples                 float64 // that these rest on
}

// Prompt adds a sample: so many tokens (the prompt and those queued before it) took so long.
func (u *UnitCosts) Prompt(tokens float64, took time.Duration) {
	if tokens < minPrefillSample || took <= 0 {
		return
	}
	const keep = 1 - 1.0/promptsKept
	u.prompts = min(u.prompts+1, enoughPrompts)
	u.tokens = u.tokens*keep + tokens
	u.took = u.took*keep + clamp(took.Seconds(), tokens/maxPrefill, tokens/MinPrefill)
}

// Readings adds two consecutive readings.
func (u *UnitCosts) Readings(was, is pressure.Reading) {
	tokens, took := is.GenerationTokens-was.GenerationTokens, is.At.Sub(was.At)
	computed := is.PromptTokens - was.PromptTokens - (is.PrefixHits - was.PrefixHits)
	if crowd := float64(was.Running+is.Running) / 2; tokens > 0 && took > 0 && took <= maxGap && crowd >= 1 {
		u.add(sample{crowd: crowd, prompt: max(computed, 0), answer: tokens, took: took, at: is.At})
	}
}

// Answer adds a sample: at concurrency crowd, an answer to so many computed prompt tokens had so many after the first in the
// given time.
func (u *UnitCosts) Answer(crowd, prompt, tokens float64, took time.Duration, now time.Time) {
	if tokens < minDecodeSample || took <= 0 {
		return
	}
	n := crowd * answerWork.Seconds() / took.Seconds() // such answers in the time that the sample counts for
	u.add(sample{crowd: crowd, prompt: n * prompt, answer: n * tokens, took: answerWork, at: now})
}

// sample is what one backend did in a time.
type sample struct {
	crowd, prompt, answer float64
	took                  time.Duration
	at                    time.Time
}

func (u *UnitCosts) add(s sample) {
	if since := s.at.Sub(u.at); since > 0 {
		if !u.at.IsZero() {
			u.crowd *= math.Exp2(-since.Hours() / crowdHalf.Hours())
		}
		u.at = s.at
	}
	if s.crowd < crowded*u.crowd {
		return
	}
	if u.samples == 0 {
		u.crowd = s.crowd
	}
	if s.crowd > u.crowd {
		u.crowd += (s.crowd - u.crowd) * crowdRise
	}
	seconds := s.took.Seconds()
	keep := math.Exp(-seconds / workKept.Seconds())
	u.samples++
	u.seconds = u.seconds*keep + seconds
	u.prompt = u.prompt*keep + s.prompt
	u.answer = u.answer*keep + clamp(s.answer, seconds*s.crowd*MinDecode, seconds*s.crowd*maxDecode)
}

// Seconds returns the time that a full backend needs for a computed prompt token and for an answer token. perSecond is its
// speed of prompts where that is configured, else 0. ok is false with too few samples: it needs 16 s of work by readings, or
// 32 streamed answers.
func (u *UnitCosts) Seconds(perSecond float64) (prefill, decode float64, ok bool) {
	if u.samples < enoughWork {
		return 0, 0, false
	}
	switch {
	case perSecond > 0:
		prefill = 1 / perSecond
	case u.prompts >= enoughPrompts:
		prefill = u.took / u.tokens // decoding between is in it, so it may be too long
	default:
		prefill = promptShare * u.seconds / (u.answer + promptShare*u.prompt)
	}
	prefill = min(prefill, u.seconds/(u.prompt+u.answer)) // no token is cheaper to generate than to read
	return prefill, (u.seconds - u.prompt*prefill) / u.answer, true
}
