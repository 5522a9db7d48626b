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

// UnitCosts are what is learned of how many tokens one busy backend of the pool makes in a
// second.
//
// Busy is the point: a backend costs the same whether it makes one answer or sixty at
// once, so a token of an idle one seems to cost sixty times as much, though nothing is
// cheaper than to ask it. What is wanted is the price of a token at the crowd that the
// pool works with. So the throughput is that of the times with at least half of the usual
// crowd, and the usual crowd is quick to rise and slow to fall. It also keeps a draft
// pool that gets no requests, because it seemed dear, from seeming dearer for that.
type UnitCosts struct {
	tokens, seconds float64 // of late prompts: sum of the tokens to be computed, and the time it took
	prompts         int     // that these rest on, up to enoughPrompts

	crowd   float64   // requests at once on one backend, usually
	at      time.Time // when the crowd was last moved
	decode  float64   // tokens per second of one backend with at least half of it
	samples float64   // that decode rests on
}

// Prompt takes that so many tokens (the prompt's and what was queued before it) took so long.
func (u *UnitCosts) Prompt(tokens float64, took time.Duration) {
	if tokens < minPrefillSample || took <= 0 {
		return
	}
	const keep = 1 - 1.0/promptsKept
	u.prompts = min(u.prompts+1, enoughPrompts)
	u.tokens = u.tokens*keep + tokens
	u.seconds = u.seconds*keep + clamp(took.Seconds(), tokens/maxPrefill, tokens/MinPrefill)
}

// Readings takes two that follow each other.
func (u *UnitCosts) Readings(was, is pressure.Reading) {
	tokens, took := is.GenerationTokens-was.GenerationTokens, is.At.Sub(was.At)
	if crowd := float64(was.Running+is.Running) / 2; tokens > 0 && took > 0 && took <= maxGap && crowd >= 1 {
		u.made(crowd, tokens/took.Seconds(), took, is.At)
	}
}

// Answer takes that an answer had so many tokens after the first in so long, one of a crowd.
func (u *UnitCosts) Answer(crowd, tokens float64, took time.Duration, now time.Time) {
	if tokens < minDecodeSample || took <= 0 {
		return
	}
	u.made(crowd, crowd*tokens/took.Seconds(), decodeAnswer, now)
}

// made takes that one backend made so many tokens per second for a crowd, for so long.
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

// PerToken are what a prompt token and a token of an answer cost on a backend that costs so much
// per second. ok is false where too little was seen: 32 prompts of 64 tokens or more whose answer
// was streamed, and 16 s of work told by readings or 32 streamed answers.
func (u *UnitCosts) PerToken(perSecond float64) (prefill, decode float64, ok bool) {
	if u.prompts < enoughPrompts || u.samples < enoughDecode {
		return 0, 0, false
	}
	return perSecond * u.seconds / u.tokens, perSecond / u.decode, true
}
