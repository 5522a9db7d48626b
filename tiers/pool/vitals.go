package pool

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// An engine that has work and makes no step for this long is suspect, and so out
	// within 2 s of the last step with readings every 500 ms. A step takes 5–100 ms, with
	// a chunk of a long prompt up to a few seconds on a slow card: slowSteps times the
	// longest pause that ended well, or that our own prompts explain, is waited for.
	hungAfter = time.Second
	slowSteps = 1.5
	// lostAfter is how many times longer it stands still before requests under way there
	// move: a step that is only long would end meanwhile.
	lostAfter = 2
	// frozenMargin is what may lie between a step and the answer's first byte here.
	frozenMargin = 250 * time.Millisecond
	// longestPause is the longest that may be learned: longer ones are hangs that ended.
	longestPause = 5 * time.Second
	// answersFor is how long a token speaks for an engine whose numbers stand still; it is
	// probed more often than that.
	answersFor = 3 * time.Second
	// longStep is the prompt tokens of one step: vLLM's default on cards that are slow
	// enough for it to matter (vllm-api.md §7).
	longStep = 2048
	// lyingAfter is how long a KV usage may stay the same to the last bit while the
	// engine works: it makes steps for lyingRequests requests, or so many as lyingSteps
	// for any. A request needs a block more every 16 tokens (reliability.md M6).
	lyingAfter    = 10 * time.Second
	lyingRequests = 8
	lyingSteps    = 64
	// rampTime is how long a backend that has just come takes less than its share,
	// from rampLeast of it on (Traefik's breaker: 10 s, linear).
	rampTime  = 10 * time.Second
	rampLeast = 0.1
	// faultsFade is the time in which the memory of failed calls fades to a third.
	faultsFade = 5 * time.Second
	// leastFaults is the share of failed calls below which they are forgotten: one failed
	// call counts for 5 s, three in a row for 10.
	leastFaults = 0.1
	// faultShare is how much one call moves the share of failed ones.
	faultShare = 0.3
)

// vitals are what a series of readings, and what becomes of our own calls, tell of a
// backend beside its load.
type vitals struct {
	base time.Time // before everything: heard counts from it
	at   time.Time // when the last reading was taken

	iterations float64
	moved      time.Time     // when a step was last seen, or no work
	still      time.Duration // how long there has been work and no step
	pause      time.Duration // the longest of these that ended well
	patience   time.Duration // how long still may be
	standing   bool          // it is too long
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

// load is what we have there that a reading could know.
type load struct {
	requests, waiting int           // waiting are those whose first token has not come
	step              time.Duration // how long the longest step may take that they explain
}

// see takes a reading in. restarted says that its counters began anew: its cache is
// empty.
func (v *vitals) see(r pressure.Reading, own load) (restarted bool) {
	restarted = r.Iterations < v.iterations
	if restarted {
		v.came(r.At)
	}
	v.step(r, r.Running > 0 || r.Waiting > 0 || own.waiting > 0, restarted)
	v.patience = max(hungAfter, time.Duration(slowSteps*float64(max(v.pause, own.step))))
	v.standing = v.still >= v.patience
	v.listening.Store(v.still > 0 || !v.asked.IsZero())
	if r.Answers && v.standing {
		v.heard.Store(int64(r.At.Sub(v.base)))
	}
	v.at = r.At
	// Without requests nothing is in use, so a usage that is shown all the same is as
	// telling; and a lie stands until it changes, though it may keep everybody away.
	running := max(r.Running, own.requests)
	few := running < lyingRequests && !v.lying && (r.KVUsage == 0 || r.Running+r.Waiting > 0)
	worked := running > 0 && r.KVUsage > 0 && r.Iterations-v.steps >= lyingSteps // and it still is the same
	if r.KVUsage != v.usage || few && running == 0 || v.changed.IsZero() || restarted {
		v.usage, v.changed, v.steps = r.KVUsage, r.At, r.Iterations
	}
	v.lying = !v.standing && r.At.Sub(v.changed) >= lyingAfter && (!few || worked)
	return restarted
}

// step follows how long the engine has made no step though it had work.
func (v *vitals) step(r pressure.Reading, busy, restarted bool) {
	// An answer that began between two readings took a step between them.
	seen := v.served.After(v.moved.Add(frozenMargin)) && r.At.After(v.served)
	v.frozen = v.frozen || seen && !v.moved.IsZero() && r.Iterations > 0
	switch moves := r.Iterations != v.iterations; {
	case moves || r.Iterations == 0 || v.moved.IsZero():
		if v.still > 0 && v.still <= longestPause && !restarted {
			v.pause = max(v.still, v.pause-v.pause/512)
		}
		if v.standing {
			v.faults = 0 // calls failed because it stood still, and will not for that
		}
		v.iterations, v.moved, v.still = r.Iterations, r.At, 0
		v.frozen = false
	case busy || v.standing: // who stood still is well when it makes a step, not when its work is gone
		v.still = r.At.Sub(v.moved)
	default:
		v.moved, v.still = r.At, 0
	}
}

// unanswered notes that a question asked at the given time was not answered in time:
// the whole process may hang.
func (v *vitals) unanswered(asked, now time.Time, own load) {
	if v.asked.IsZero() || v.answersSince(v.asked) {
		v.asked = asked
	}
	v.quiet = now.Sub(v.asked)
	v.limit = max(hungAfter, time.Duration(slowSteps*float64(own.step)))
	v.listening.Store(true)
}

// speaks notes that it answered a question, or that the questions since were late by
// this replica's own fault.
func (v *vitals) speaks() { v.asked, v.quiet = time.Time{}, 0 }

// silent reports whether it has answered nothing for too long, tokens included.
func (v *vitals) silent() bool {
	return !v.asked.IsZero() && v.quiet >= v.limit && !v.answersSince(v.asked)
}

// lost reports whether it has been silent, or has stood still, for so long that what is
// under way there is to be done elsewhere.
func (v *vitals) lost() bool {
	return v.silent() || v.suspect() && v.still >= lostAfter*v.patience
}

// answered notes that the backend gives tokens, where somebody wants to know.
func (v *vitals) answered(now func() time.Time) {
	if v.listening.Load() {
		v.heard.Store(int64(now().Sub(v.base)))
	}
}

// answers reports whether it gives tokens though its readings stand still: then it is
// the readings that are frozen, not the engine.
func (v *vitals) answers() bool {
	heard := time.Duration(v.heard.Load())
	return heard > v.moved.Sub(v.base)+hungAfter/2 && heard > v.at.Sub(v.base)-answersFor
}

// answersSince reports whether it gave tokens since a time, as far as somebody
// listened.
func (v *vitals) answersSince(t time.Time) bool {
	heard := time.Duration(v.heard.Load())
	return heard > 0 && heard > t.Sub(v.base)
}

// suspect reports whether it seems to hang.
func (v *vitals) suspect() bool { return v.silent() || v.standing && !v.answers() }

// untrue reports whether the readings are not to be believed.
func (v *vitals) untrue() bool { return v.lying || v.frozen || v.standing && v.answers() }

// came says that it is there now, with nothing in its cache. Calls that failed before
// say nothing of it: without requests it could not live them down.
func (v *vitals) came(now time.Time) { v.since, v.faults = now, 0 }

// ramp is the share of its turns that it may take, 0.1 to 1.
func (v *vitals) ramp(now time.Time) float64 {
	if v.since.IsZero() {
		return 1
	}
	done := now.Sub(v.since).Seconds() / rampTime.Seconds()
	return clamp(rampLeast+(1-rampLeast)*done, rampLeast, 1)
}

// fault books a call's end.
func (v *vitals) fault(failed bool, now time.Time) {
	share := v.failing(now)
	if failed {
		share += (1 - share) * faultShare
	} else {
		share -= share * faultShare
	}
	v.faults, v.faultsAt = share, now
}

// failing is the share of the late calls that failed.
func (v *vitals) failing(now time.Time) float64 {
	if v.faults == 0 {
		return 0
	}
	share := v.faults * math.Exp(-now.Sub(v.faultsAt).Seconds()/faultsFade.Seconds())
	if share < leastFaults {
		return 0
	}
	return share
}

// The conditions in which a backend is suspect.
const (
	conditionSilent = "answers nothing"
	conditionHung   = "stands still"
)

// condition names what is wrong, for the log and for operators; "well" is nothing.
func (v *vitals) condition() string {
	switch {
	case v.silent():
		return conditionSilent
	case v.suspect():
		return conditionHung
	case v.standing, v.frozen:
		return "its metrics stand still, it answers"
	case v.lying:
		return "its KV usage never changes"
	}
	return "well"
}

// hits compares what was expected to be in a prefix cache with what its engine found
// there, both as shares of prompt tokens that follow the last few requests.
type hits struct {
	expected, found   float64
	queries, counted  float64 // the engine's counters by the last reading
	expects, measures float64 // tokens behind expected and found, bounded
}

// hitWindow is how many prompt tokens are followed: of the order of ten long prompts.
const hitWindow = 32_000

// expect notes how much of a prompt is expected to be found.
func (h *hits) expect(cached, prompt float64) {
	follow(&h.expected, &h.expects, cached, prompt)
}

// see takes the engine's own counters in; restarted says that they began anew.
func (h *hits) see(r pressure.Reading, restarted bool) {
	queries, found := r.PrefixQueries-h.queries, r.PrefixHits-h.counted
	if !restarted && queries > 0 && found >= 0 && h.queries > 0 {
		follow(&h.found, &h.measures, found, queries)
	}
	h.queries, h.counted = r.PrefixQueries, r.PrefixHits
}

// follow moves a share by a sample of so many tokens of all.
func follow(share, weight *float64, part, all float64) {
	if all <= 0 {
		return
	}
	*weight = min(*weight+all, hitWindow)
	*share += (min(part/all, 1) - *share) * min(all / *weight, 1)
}

// leastTrust is the share of an expectation below which it is wrong: a few prompts
// more or less in the window move the share by less than that.
const leastTrust = 0.6

// trust is how much of an expectation comes true: 1, unless it is clearly wrong.
func (h *hits) trust() float64 {
	if h.expects < hitWindow || h.measures < hitWindow || h.found >= leastTrust*h.expected {
		return 1
	}
	return h.found / h.expected
}

// forgive begins anew to compare.
func (h *hits) forgive() { h.expects, h.measures = 0, 0 }
