// Package health judges one backend by a series of its readings, by what becomes of our own
// calls, and by whether it answers at all: whether it seems to hang, whether its readings can be
// believed, and what share of its turns it may take.
//
// Start at [Vitals] and [Contact]. The package is pure: it has no clock, no lock and no logger.
// Its callers bring the time, and make one call of a value at a time, but for [Vitals.Listening]
// and [Vitals.Heard].
package health

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// hungAfter: an engine that has work and makes no step for this long is suspect, and so out
	// within 2 s of the last step with readings every 500 ms. A step takes 5–100 ms, with
	// a chunk of a long prompt up to a few seconds on a slow card: slowSteps times the
	// longest pause that ended well, or that our own prompts explain, is waited for.
	hungAfter = time.Second
	slowSteps = 1.5
	// outAfter is how many times longer than a suspect a backend is silent that is down.
	outAfter = 2
	// lostAfter is how many times longer it stands still before requests under way there
	// move: a step that is only long would end meanwhile.
	lostAfter = 2
	// frozenMargin is what may lie between a step and the answer's first byte here.
	frozenMargin = 250 * time.Millisecond
	// maxPause is the longest that may be learned: longer ones are hangs that ended.
	maxPause = 5 * time.Second
	// answersFor is how long a token speaks for an engine whose numbers stand still; it is
	// probed more often than that.
	answersFor = 3 * time.Second
	// longStep is the prompt tokens of one step: vLLM's default on cards that are slow
	// enough for it to matter.
	longStep = 2048
	// lyingAfter is how long a KV usage may stay the same to the last bit while the
	// engine works: it makes steps for lyingRequests requests, or so many as lyingSteps
	// for any. A request needs a block more every 16 tokens (reliability.md M6).
	lyingAfter    = 10 * time.Second
	lyingRequests = 8
	lyingSteps    = 64
	// rampTime is how long a backend that has just come takes less than its share,
	// from MinRamp of it on (Traefik's breaker: 10 s, linear).
	rampTime = 10 * time.Second
	// MinRamp is the share that it takes at first.
	MinRamp = 0.1
	// faultsFade is the time in which the memory of failed calls fades to a third.
	faultsFade = 5 * time.Second
	// minFaults is the share of failed calls below which they are forgotten: one failed
	// call counts for 5 s, three in a row for 10.
	minFaults = 0.1
	// faultShare is how much one call moves the share of failed ones.
	faultShare = 0.3
)

// Monitor are what a series of readings, and what becomes of our own calls, tell of a
// backend beside its load.
type Monitor struct {
	base time.Time // before everything: heard counts from it
	at   time.Time // when the last reading was taken

	iterations float64
	moved      time.Time     // when a step was last seen, or no work
	still      time.Duration // how long there has been work and no step
	pause      time.Duration // the longest of these that ended well
	patience   time.Duration // how long still may be
	stuck      bool          // it is too long
	served     time.Time     // when it last began an answer of ours
	frozen     bool          // it began one, and its count of steps did not move

	usage   float64
	changed time.Time // when the usage last changed, or there was too little work to tell
	steps   float64   // the count of steps then
	lying   bool      // the usage says nothing: it is always the same, or all of it is frozen

	since time.Time // when it came, or came back; zero is long ago

	faults   float64 // share of failed calls, when it was last moved
	faultsAt time.Time

	asked time.Time     // when it was first asked what it has not answered since; zero is never
	quiet time.Duration // how long it has answered nothing, by the last question
	limit time.Duration // how long that may be

	listening atomic.Bool  // somebody wants to know whether it still answers
	heard     atomic.Int64 // when it last gave a token, in nanoseconds after base
}

// Load is what we have there that a reading could know.
type Load struct {
	Requests, Waiting int     // waiting are those whose first token has not come
	Queued            int     // prompt tokens that are still to be computed
	Prefill           float64 // seconds that one of these takes
}

// step is how long the longest step may take that the load explains.
func (l Load) step() time.Duration {
	return time.Duration(min(float64(l.Queued), longStep) * l.Prefill * float64(time.Second))
}

// Begin says when the first moment is that may be told of. It is called before all others.
func (v *Monitor) Begin(base time.Time) { v.base = base }

// Observe takes a reading in. restarted says that its counters began anew: its cache is
// empty.
func (v *Monitor) Observe(r pressure.Reading, own Load) (restarted bool) {
	restarted = r.Iterations < v.iterations
	if restarted {
		v.MarkStarted(r.At)
	}
	v.step(r, r.Running > 0 || r.Waiting > 0 || own.Waiting > 0, restarted)
	v.patience = max(hungAfter, time.Duration(slowSteps*float64(max(v.pause, own.step()))))
	v.stuck = v.still >= v.patience
	v.listening.Store(v.still > 0 || !v.asked.IsZero())
	if r.Answers && v.stuck {
		v.heard.Store(int64(r.At.Sub(v.base)))
	}
	v.at = r.At
	// Without requests nothing is in use, so a usage that is shown all the same is as
	// telling; and a lie stands until it changes, though it may keep everybody away.
	running := max(r.Running, own.Requests)
	few := running < lyingRequests && !v.lying && (r.KVUsage == 0 || r.Running+r.Waiting > 0)
	worked := running > 0 && r.KVUsage > 0 && r.Iterations-v.steps >= lyingSteps // and it still is the same
	if r.KVUsage != v.usage || few && running == 0 || v.changed.IsZero() || restarted {
		v.usage, v.changed, v.steps = r.KVUsage, r.At, r.Iterations
	}
	v.lying = !v.stuck && r.At.Sub(v.changed) >= lyingAfter && (!few || worked)
	return restarted
}

// step follows how long the engine has made no step though it had work.
func (v *Monitor) step(r pressure.Reading, busy, restarted bool) {
	// An answer that began between two readings took a step between them.
	seen := v.served.After(v.moved.Add(frozenMargin)) && r.At.After(v.served)
	v.frozen = v.frozen || seen && !v.moved.IsZero() && r.Iterations > 0
	switch moves := r.Iterations != v.iterations; {
	case moves || r.Iterations == 0 || v.moved.IsZero():
		if v.still > 0 && v.still <= maxPause && !restarted {
			v.pause = max(v.still, v.pause-v.pause/512)
		}
		if v.stuck {
			v.faults = 0 // calls failed because it stood still, and will not for that
		}
		v.iterations, v.moved, v.still = r.Iterations, r.At, 0
		v.frozen = false
	case busy || v.stuck: // who stood still is well when it makes a step, not when its work is gone
		v.still = r.At.Sub(v.moved)
	default:
		v.moved, v.still = r.At, 0
	}
}

// MarkUnanswered notes that a question asked at the given time was not answered in time:
// the whole process may hang.
func (v *Monitor) MarkUnanswered(asked, now time.Time, own Load) {
	if v.asked.IsZero() || v.GaveTokensSince(v.asked) {
		v.asked = asked
	}
	v.quiet = now.Sub(v.asked)
	v.limit = max(hungAfter, time.Duration(slowSteps*float64(own.step())))
	v.listening.Store(true)
}

// MarkAnswered notes that it answered a question, or that the questions since were late by
// this replica's own fault.
func (v *Monitor) MarkAnswered() { v.asked, v.quiet = time.Time{}, 0 }

// IsSilent reports whether it has answered nothing for too long, tokens included.
func (v *Monitor) IsSilent() bool {
	return !v.asked.IsZero() && v.quiet >= v.limit && !v.GaveTokensSince(v.asked)
}

// IsLost reports whether it has been silent, or has stood still, for so long that what is
// under way there is to be done elsewhere.
func (v *Monitor) IsLost() bool {
	return v.IsSilent() || v.IsSuspect() && v.still >= lostAfter*v.patience
}

// NeedsTokens reports whether somebody wants to know of tokens that come. It may be called at any time.
func (v *Monitor) NeedsTokens() bool { return v.listening.Load() }

// MarkTokens notes that the backend gives tokens. It may be called at any time.
func (v *Monitor) MarkTokens(now time.Time) { v.heard.Store(int64(now.Sub(v.base))) }

// givesTokens reports whether it gives tokens though its readings stand still: then it is
// the readings that are frozen, not the engine.
func (v *Monitor) givesTokens() bool {
	heard := time.Duration(v.heard.Load())
	return heard > v.moved.Sub(v.base)+hungAfter/2 && heard > v.at.Sub(v.base)-answersFor
}

// GaveTokensSince reports whether it gave tokens since a time, as far as somebody
// listened.
func (v *Monitor) GaveTokensSince(t time.Time) bool {
	heard := time.Duration(v.heard.Load())
	return heard > 0 && heard > t.Sub(v.base)
}

// IsSuspect reports whether it seems to hang.
func (v *Monitor) IsSuspect() bool { return v.IsSilent() || v.stuck && !v.givesTokens() }

// IsStuck reports whether its engine has work and makes no step, by its readings.
func (v *Monitor) IsStuck() bool { return v.stuck }

// HasPending reports whether it has not answered the last question.
func (v *Monitor) HasPending() bool { return !v.asked.IsZero() }

// IsOut reports whether it has been silent for so long that it counts as down.
func (v *Monitor) IsOut() bool { return v.IsSilent() && v.quiet >= outAfter*v.limit }

// MarkServed says that it has begun an answer of ours.
func (v *Monitor) MarkServed(now time.Time) {
	v.served = now
	v.RecordCall(false, now)
}

// IsUnreliable reports whether the readings are not to be believed.
func (v *Monitor) IsUnreliable() bool { return v.lying || v.frozen || v.stuck && v.givesTokens() }

// MarkStarted says that it is there now, with nothing in its cache. Calls that failed before
// say nothing of it: without requests it could not live them down.
func (v *Monitor) MarkStarted(now time.Time) { v.since, v.faults = now, 0 }

// Ramp is the share of its turns that it may take, 0.1 to 1.
func (v *Monitor) Ramp(now time.Time) float64 {
	if v.since.IsZero() {
		return 1
	}
	done := now.Sub(v.since).Seconds() / rampTime.Seconds()
	return max(MinRamp, min(MinRamp+(1-MinRamp)*done, 1))
}

// RecordCall books a call's end.
func (v *Monitor) RecordCall(failed bool, now time.Time) {
	share := v.FaultShare(now)
	if failed {
		share += (1 - share) * faultShare
	} else {
		share -= share * faultShare
	}
	v.faults, v.faultsAt = share, now
}

// FaultShare is the share of the late calls that failed.
func (v *Monitor) FaultShare(now time.Time) float64 {
	if v.faults == 0 {
		return 0
	}
	share := v.faults * math.Exp(-now.Sub(v.faultsAt).Seconds()/faultsFade.Seconds())
	if share < minFaults {
		return 0
	}
	return share
}

// Condition is what is wrong with a backend, as the log and operators are told.
type Condition string

// The conditions; Silent and Hung are those in which a backend is suspect.
const (
	Well   Condition = "well"
	Silent Condition = "answers nothing"
	Hung   Condition = "stands still"
	Frozen Condition = "its metrics stand still, it answers"
	Lying  Condition = "its KV usage never changes"
)

// Condition is the first that holds.
func (v *Monitor) Condition() Condition {
	switch {
	case v.IsSilent():
		return Silent
	case v.IsSuspect():
		return Hung
	case v.stuck, v.frozen:
		return Frozen
	case v.lying:
		return Lying
	}
	return Well
}
