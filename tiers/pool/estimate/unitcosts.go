package estimate

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// enoughPrompts and enoughDecode are how many samples make a price: of prompts, and
	// of answers or pairs of readings.
	enoughPrompts, enoughDecode = 32, 32
	// promptsKept is of how many prompts the mean speed is kept.
	promptsKept = 128
	// decodeFor is how much work of one backend the mean throughput is kept of: a minute
	// that readings tell of. An answer counts for decodeAnswer.
	decodeFor, decodeAnswer = time.Minute, 500 * time.Millisecond
	// maxGap is the longest time between two readings of which they tell together.
	maxGap = 10 * time.Second
	// crowdRise is how much of the way one sample moves the crowd up, and crowdHalf how
	// long it takes to fall to half where there are no more such crowds: a night does not
	// make a token as dear as the one of an empty pool.
	crowdRise = 1.0 / 16
	crowdHalf = 6 * time.Hour
	// crowded is the share of the usual crowd from which on a backend counts as busy.
	crowded = 0.5
)

// UnitCosts learns how many tokens one busy backend of the pool processes per second.
//
// A backend costs the same whether it runs one request or sixty, so by its current load a token of an idle backend would
// seem sixty times as dear. The wanted price is the one at the pool's usual concurrency. So only times with at least
// half of the usual concurrency count, and that value rises fast and falls slowly. A draft pool that gets no requests
// because it seemed expensive therefore does not become more expensive.
type UnitCosts struct {
	tokens, seconds float64 // of late prompts: sum of the tokens to be computed, and the time it took
	prompts         int     // that these rest on, up to enoughPrompts

	crowd   float64   // requests at once on one backend, usually
	at      time.Time // when the crowd was last moved
	decode  float64   // tokens per second of one backend with at least half of it
	samples float64   // that decode rests on
}

// Prompt adds a sample: so many tokens (the prompt and those queued before it) took so long.
func (u *UnitCosts) Prompt(tokens float64, took time.Duration) {
	if tokens < minPrefillSample || took <= 0 {
		return
	}
	const keep = 1 - 1.0/promptsKept
	u.prompts = min(u.prompts+1, enoughPrompts)
	u.tokens = u.tokens*keep + tokens
	u.seconds = u.seconds*keep + clamp(took.Seconds(), tokens/maxPrefill, tokens/MinPrefill)
}

// Readings adds two consecutive readings.
func (u *UnitCosts) Readings(was, is pressure.Reading) {
	tokens, took := is.GenerationTokens-was.GenerationTokens, is.At.Sub(was.At)
	if crowd := float64(was.Running+is.Running) / 2; tokens > 0 && took > 0 && took <= maxGap && crowd >= 1 {
		u.made(crowd, tokens/took.Seconds(), took, is.At)
	}
}

// Answer adds a sample: an answer had so many tokens after the first in the given time, at concurrency crowd.
func (u *UnitCosts) Answer(crowd, tokens float64, took time.Duration, now time.Time) {
	if tokens < minDecodeSample || took <= 0 {
		return
	}
	u.made(crowd, crowd*tokens/took.Seconds(), decodeAnswer, now)
}

// made adds that one backend generated perSecond tokens per second at concurrency crowd for the given time.
func (u *UnitCosts) made(crowd, perSecond float64, took time.Duration, now time.Time) {
	if since := now.Sub(u.at); since > 0 {
		if !u.at.IsZero() {
			u.crowd *= math.Exp2(-since.Hours() / crowdHalf.Hours())
		}
		u.at = now
	}
	if crowd < crowded*u.crowd {
		return
	}
	perSecond = clamp(perSecond, crowd*MinDecode, crowd*maxDecode)
	if u.samples == 0 {
		u.crowd, u.decode = crowd, perSecond
	}
	if crowd > u.crowd {
		u.crowd += (crowd - u.crowd) * crowdRise
	}
	u.samples++
	u.decode += (perSecond - u.decode) * max(took.Seconds()/decodeFor.Seconds(), 1/u.samples)
}

// PerToken returns the cost of a prompt token and of an answer token on a backend with the given price per second. ok is
// false with too few samples: it needs 32 streamed answers to prompts of 64 tokens or more, and 16 s of work by readings
// or 32 streamed answers.
func (u *UnitCosts) PerToken(perSecond float64) (prefill, decode float64, ok bool) {
	if u.prompts < enoughPrompts || u.samples < enoughDecode {
		return 0, 0, false
	}
	return perSecond * u.seconds / u.tokens, perSecond / u.decode, true
}
