package pool

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// hungAfter: an engine with work that makes no step for this long is suspect, and so out within 2 s of the last
	// step with readings every 500 ms. A step takes 5–100 ms, a few seconds with a long prompt on a slow GPU, and ten
	// times that on a CPU. So the limit is at least fewSteps usual steps, and slowSteps times the longest pause that
	// ended well, or that our own prompts explain.
	hungAfter = time.Second
	slowSteps = 1.5
	fewSteps  = 2
	// outAfter is the silence of a backend that is down, as a multiple of a suspect's.
	outAfter = 2
	// lostAfter is the same for stuck engines, after which running requests move: a long step would have ended.
	lostAfter = 2
	// frozenMargin bounds the time between a step and the arrival of an answer's first byte.
	frozenMargin = 250 * time.Millisecond
	// Learned pauses are at most maxPause, or longSteps usual steps of a slow engine: longer ones were hangs. The step of
	// a long prompt has hundreds of times the tokens of a usual one.
	maxPause  = 5 * time.Second
	longSteps = 64
	// learnSteps is the weight of one reading in the usual step, to which it counts for at most twice what is known.
	learnSteps = 1.0 / 16
	// answersFor is how long one token shows that an engine with frozen metrics works. Probes come more often.
	answersFor = 3 * time.Second
	// longStep is the prompt tokens of one step: vLLM's default on slow GPUs.
	longStep = 2048
	// lyingAfter is how long the KV usage may stay exactly the same while the engine makes steps for lyingRequests
	// requests, or lyingSteps steps for any. A request needs a new block every 16 tokens.
	lyingAfter    = 10 * time.Second
	lyingRequests = 8
	lyingSteps    = 64
	// A step counter that has fallen and is back within returnWithin is that of several engines which answer in turn: no
	// engine starts and makes as many steps in that time. They are believed to be there for sharedFor.
	returnWithin = 10 * time.Second
	sharedFor    = time.Minute
	// rampTime is the slow start of a new backend, linear from minRamp (as in Traefik's breaker: 10 s).
	rampTime = 10 * time.Second
	// minRamp is the first share of a slow start.
	minRamp = 0.1
	// faultsFade is the time constant in which the share of failed calls decays (to 1/e).
	faultsFade = 5 * time.Second
	// minFaults is the share of failed calls that counts as 0: one failed call counts for 5 s, three in a row for 10 s.
	minFaults = 0.1
	// faultShare is the weight of one call.
	faultShare = 0.3
)

// monitor judges a backend by its readings, by the outcome of our own calls, and by whether it answers: whether it hangs,
// whether its readings can be true, and which share of traffic it may take. Pool.mu guards it, except markTokens and
// listening, which may be used at any time.
type monitor struct {
	base time.Time        // before all other times; lastToken counts from it
	last pressure.Reading // the last one

	moved    time.Time     // last step, or last time without work
	usual    time.Duration // what a step takes
	still    time.Duration // time with work but no step
	pause    time.Duration // longest one that ended well
	patience time.Duration // limit of still
	stuck    bool          // still is above the limit
	served   time.Time     // first byte of our latest answer
	frozen   bool          // an answer began although no reading changed

	fellFrom    float64   // the step counter before it last fell
	fellAt      time.Time // when it did
	sharedUntil time.Time // several engines answer at the address

	usage   float64
	changed time.Time // last change of the usage, or time with too little work
	steps   float64   // the step counter then
	lying   bool      // the usage cannot be true: it never changes

	since time.Time // start or return of the backend; zero: long ago

	faults   float64 // share of failed calls at faultsAt
	faultsAt time.Time

	unansweredSince time.Time     // first question without an answer since; zero: none
	quiet           time.Duration // silence at the last question
	limit           time.Duration // limit of quiet

	listening atomic.Bool  // markTokens is needed
	lastToken atomic.Int64 // last token, nanoseconds after base
}

// load is our load on a backend as far as a reading could include it.
type load struct {
	requests, waiting int     // waiting: those without a first token
	queued            int     // prompt tokens not computed yet
	prefill           float64 // seconds per prompt token
}

// step returns the longest step that the load explains.
func (l load) step() time.Duration {
	return time.Duration(min(float64(l.queued), longStep) * l.prefill * float64(time.Second))
}

// observe takes a reading. restarted says that its counters restarted, so the cache is empty.
func (m *monitor) observe(r pressure.Reading, own load) (restarted bool) {
	if restarted = m.restarts(r); restarted {
		m.markStarted(r.At)
	}
	m.step(r, r.Running > 0 || r.Waiting > 0 || own.waiting > 0, restarted)
	m.patience = max(hungAfter, fewSteps*m.usual, time.Duration(slowSteps*float64(max(m.pause, own.step()))))
	m.stuck = m.still >= m.patience
	m.listening.Store(m.still > 0 || !m.unansweredSince.IsZero())
	if r.Answers && m.stuck {
		m.lastToken.Store(int64(r.At.Sub(m.base)))
	}
	m.last = r
	// Without requests nothing is in use, so a usage above 0 is a false one, too. The verdict stands until the usage
	// changes, even if no request goes there.
	running := max(r.Running, own.requests)
	few := running < lyingRequests && !m.lying && (r.KVUsage == 0 || r.Running+r.Waiting > 0)
	worked := running > 0 && r.KVUsage > 0 && r.Iterations-m.steps >= lyingSteps // with an unchanged usage
	if r.KVUsage != m.usage || few && running == 0 || m.changed.IsZero() || restarted {
		m.usage, m.changed, m.steps = r.KVUsage, r.At, r.Iterations
	}
	m.lying = !r.NoUsage && !m.stuck && r.At.Sub(m.changed) >= lyingAfter && (!few || worked)
	return restarted
}

// restarts reports whether a reading shows that the engine has restarted: its step counter falls. If fewer engines tell
// theirs, their sum falls, too, and if several engines answer in turn, it falls all the time.
func (m *monitor) restarts(r pressure.Reading) bool {
	switch {
	case r.Iterations < m.last.Iterations && r.Engines >= m.last.Engines:
		m.fellFrom, m.fellAt = m.last.Iterations, r.At
		return !m.isShared(r.At)
	case m.fellFrom > 0 && r.Iterations >= m.fellFrom && r.At.Sub(m.fellAt) <= returnWithin:
		m.sharedUntil, m.fellFrom, m.since = r.At.Add(sharedFor), 0, time.Time{}
	}
	return false
}

// isShared reports whether several engines answer in turn at the address, so that a reading is not comparable with the
// one before.
func (m *monitor) isShared(at time.Time) bool { return at.Before(m.sharedUntil) }

// step measures how long the engine has made no step although it had work.
func (m *monitor) step(r pressure.Reading, busy, restarted bool) {
	// An answer that began between two readings implies a step between them. The engine may tell of it a little later.
	seen := m.served.After(m.moved.Add(frozenMargin)) && r.At.After(m.served.Add(frozenMargin))
	m.frozen = m.frozen || seen && !m.moved.IsZero() && r.Iterations > 0
	steps := r.Iterations - m.last.Iterations
	switch {
	case m.moves(r) || r.Iterations == 0 || m.moved.IsZero():
		if !restarted && m.still <= max(maxPause, longSteps*m.usual) {
			m.learn(r.At.Sub(m.moved), steps)
		}
		if m.stuck {
			m.faults = 0 // calls failed because the engine was stuck, which is over
		}
		m.moved, m.still = r.At, 0
		m.frozen = false
	case busy || m.stuck: // a stuck engine is well after a step, not when its work is gone
		m.still = r.At.Sub(m.moved)
	default:
		m.moved, m.still = r.At, 0
	}
}

// shows returns the time whose state a reading shows. Engines update their metrics at the end of a step, and a step of many
// prompts takes longer than the time between two readings. The zero time says that a reading shows nothing new, because the
// engine has made no step since the reading before it. Call it after observe.
func (m *monitor) shows(was, is pressure.Reading) time.Time {
	steps := is.Iterations - was.Iterations
	switch {
	case m.still > 0:
		return time.Time{}
	case steps < 1 || was.At.IsZero():
		return is.At // it had no work, has restarted, or does not count its steps
	}
	return is.At.Add(-time.Duration(float64(is.At.Sub(was.At)) / steps))
}

// moves reports whether a reading differs from the last one by work that the engine did. That there is less of it is not
// enough, because clients leave, unless the engine gives tokens meanwhile.
func (m *monitor) moves(r pressure.Reading) bool {
	was := &m.last
	work := r.Iterations != was.Iterations || r.PromptTokens != was.PromptTokens || r.GenerationTokens != was.GenerationTokens ||
		r.PrefixQueries != was.PrefixQueries || r.KVUsage > was.KVUsage
	gone := r.Running != was.Running || r.Waiting != was.Waiting || r.KVUsage != was.KVUsage
	return work || gone && (m.frozen || m.givesTokens())
}

// learn takes so many steps that took so long, all told.
func (m *monitor) learn(took time.Duration, steps float64) {
	if m.still > 0 {
		m.pause = max(m.still, m.pause-m.pause/512)
	}
	if steps < 1 || m.moved.IsZero() {
		return
	}
	if took = time.Duration(float64(took) / steps); m.usual == 0 {
		m.usual = min(took, hungAfter/4)
	}
	m.usual += time.Duration(learnSteps * float64(min(took, 2*m.usual)-m.usual))
}

// markUnanswered records that a question asked at the given time was not answered in time: the process may hang.
func (m *monitor) markUnanswered(asked, now time.Time, own load) {
	if m.unansweredSince.IsZero() || m.gaveTokensSince(m.unansweredSince) {
		m.unansweredSince = asked
	}
	m.quiet = now.Sub(m.unansweredSince)
	m.limit = max(hungAfter, time.Duration(slowSteps*float64(own.step())))
	m.listening.Store(true)
}

// markAnswered records an answer, or that answers were late by this replica's own fault.
func (m *monitor) markAnswered() { m.unansweredSince, m.quiet = time.Time{}, 0 }

// isSilent reports whether the backend has given no answer and no token for too long.
func (m *monitor) isSilent() bool {
	return !m.unansweredSince.IsZero() && m.quiet >= m.limit && !m.gaveTokensSince(m.unansweredSince)
}

// isLost reports whether it was silent or stuck for so long that its requests must move.
func (m *monitor) isLost() bool {
	return m.isSilent() || m.isSuspect() && m.still >= lostAfter*m.patience
}

// markTokens records that the backend gives tokens. It is safe for concurrent use.
func (m *monitor) markTokens(now time.Time) { m.lastToken.Store(int64(now.Sub(m.base))) }

// givesTokens reports whether it gives tokens although its readings stand still: then the metrics are frozen, not the
// engine.
func (m *monitor) givesTokens() bool {
	lastToken := time.Duration(m.lastToken.Load())
	return lastToken > m.moved.Sub(m.base)+hungAfter/2 && lastToken > m.last.At.Sub(m.base)-answersFor
}

// gaveTokensSince reports whether MarkTokens was called since t.
func (m *monitor) gaveTokensSince(t time.Time) bool {
	lastToken := time.Duration(m.lastToken.Load())
	return lastToken > 0 && lastToken > t.Sub(m.base)
}

// isSuspect reports whether the backend seems to hang.
func (m *monitor) isSuspect() bool { return m.isSilent() || m.stuck && !m.givesTokens() }

// hasPending reports whether the last question has no answer yet.
func (m *monitor) hasPending() bool { return !m.unansweredSince.IsZero() }

// isOut reports whether it was silent for so long that it counts as down.
func (m *monitor) isOut() bool { return m.isSilent() && m.quiet >= outAfter*m.limit }

// markServed records the first byte of an answer of ours.
func (m *monitor) markServed(now time.Time) {
	m.served = now
	m.recordCall(false, now)
}

// isUnreliable reports whether the readings cannot be true.
func (m *monitor) isUnreliable() bool { return m.lying || m.frozen || m.stuck && m.givesTokens() }

// markStarted records that the backend is up now with an empty cache. It forgets earlier failures: without requests they
// would never decay.
func (m *monitor) markStarted(now time.Time) { m.since, m.faults = now, 0 }

// ramp returns the share of its traffic that it may take after a start, 0.1 to 1.
func (m *monitor) ramp(now time.Time) float64 {
	if m.since.IsZero() {
		return 1
	}
	done := now.Sub(m.since).Seconds() / rampTime.Seconds()
	return max(minRamp, min(minRamp+(1-minRamp)*done, 1))
}

// recordCall records the end of a call.
func (m *monitor) recordCall(failed bool, now time.Time) {
	share := m.currentFaults(now)
	if failed {
		share += (1 - share) * faultShare
	} else {
		share -= share * faultShare
	}
	m.faults, m.faultsAt = share, now
}

// currentFaults returns the share of recent calls that failed.
func (m *monitor) currentFaults(now time.Time) float64 {
	if m.faults == 0 {
		return 0
	}
	share := m.faults * math.Exp(-now.Sub(m.faultsAt).Seconds()/faultsFade.Seconds())
	if share < minFaults {
		return 0
	}
	return share
}

// condition is what is wrong with a backend, in logs and status.
type condition string

// The conditions. A silent or hung backend is suspect.
const (
	conditionWell   condition = "well"
	conditionSilent condition = "answers nothing"
	conditionHung   condition = "stands still"
	conditionFrozen condition = "its metrics stand still, it answers"
	conditionLying  condition = "its KV usage never changes"
	conditionShared condition = "several engines answer at its address; give each an address of its own"
)

// condition returns the first condition that holds.
func (m *monitor) condition() condition {
	switch {
	case m.isSilent():
		return conditionSilent
	case m.isSuspect():
		return conditionHung
	case m.stuck, m.frozen:
		return conditionFrozen
	case m.lying:
		return conditionLying
	case m.isShared(m.last.At):
		return conditionShared
	}
	return conditionWell
}
