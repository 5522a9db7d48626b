package pool

import (
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// backend is one engine of the pool. Pool.mu guards its fields, except its names and what monitor allows
// at any time.
type backend struct {
	id, url string
	cache   *prefix.Cache // its Index is that of the backend in the set
	removed bool          // removed from the set
	counts  counts

	down      error // why it is down; nil: up
	downAt    time.Time
	lastDrain string    // why it was drained when that was last looked at; "": it was not
	probed    time.Time // when it was last asked for a token
	blind     bool      // the lack of readings was logged
	answered  time.Time // its last answer over HTTP; zero: none
	unreached error     // why it has not answered since
	life      uint64    // number of observed restarts

	pausedUntil time.Time // a hosted one wants no requests before, by its limits of rates

	refusals [len(useNames)]mismatch // by use
	refuses  atomic.Bool             // there is one of the refusals, perhaps of credentials that are out of force

	wrong atomic.Pointer[wrongModel] // it does not serve the pool's model; nil: as far as known it does

	identity identity
	reading  pressure.Reading
	health   monitor
	told     condition // what the log said of its condition last; "" is well
	toldAt   time.Time // when it did
	hits     estimate.CacheHits
	speed    estimate.Speed
	pace     float64 // seconds per token of one request between the last two readings; 0: unknown

	joined  time.Time // before all requests
	account account   // our requests there
}

// take stores a reading, from which units learn. restarted says that the server has restarted, so that its cache is empty.
func (b *backend) take(r pressure.Reading, units *estimate.UnitCosts) (restarted bool) {
	restarted = b.health.observe(r, b.load(r.At))
	if at := b.health.shows(b.reading, r); !at.IsZero() {
		b.account.noteRead(at, b.joined)
	}
	was, incomparable := b.reading, restarted || b.health.isShared(r.At)
	if incomparable {
		was = r
	}
	units.Readings(was, r)
	b.pace = estimate.Pace(b.pace, was, r)
	b.reading = r
	b.hits.See(r, incomparable)
	return restarted
}

// load returns our load there that a reading taken at the given time could include.
func (b *backend) load(at time.Time) load {
	l := load{queued: b.account.all.queued, prefill: b.speed.Prefill}
	since := sliceOf(at, b.joined)
	for _, lease := range b.account.leases {
		if lease.start.Before(since) {
			l.requests += lease.totals.requests
			l.waiting += lease.totals.waiting
		}
	}
	return l
}

// engines returns the number of engines behind the URL.
func (b *backend) engines() float64 { return float64(max(b.reading.Engines, 1)) }

// markAnswered records an answer over HTTP.
func (b *backend) markAnswered(now time.Time) { b.answered, b.unreached = now, nil }

// markEnded records the end of a question. An HTTP answer with an error status is an answer.
func (b *backend) markEnded(err error, now time.Time) {
	if _, none := errors.AsType[*url.Error](err); none {
		b.unreached = err
		return
	}
	b.markAnswered(now)
}

// isReachable reports whether the last answer is recent enough.
func (b *backend) isReachable(now time.Time) bool {
	return !b.answered.IsZero() && (b.unreached == nil || now.Sub(b.answered) < pressure.UnknownAfter)
}

// problem returns why the backend is not reachable; "" if it has answered last.
func (b *backend) problem() string {
	switch {
	case b.unreached != nil:
		return "does not answer: " + b.unreached.Error()
	case b.answered.IsZero():
		return "has not answered yet"
	}
	return ""
}

// errSilent is the reason of a backend that answers nothing, and gives no token.
var errSilent = errors.New("answers nothing")

// mean holds averages over the pool's backends with a fresh reading. They replace readings that are old or missing.
type mean struct {
	usage, waiting, running float64
	hasReadings             bool
	own                     float64        // our requests per backend that is up
	prompt                  float64        // prompt tokens to compute per request
	output, variance        float64        // length of answers in tokens
	speed                   estimate.Speed // of all backends
}

// unknownUsage replaces the pool's mean if no backend has a reading: neither idle nor full.
const unknownUsage = 0.5

// meanOf averages over the backends that are up and have a fresh, reliable reading.
func meanOf(set []*backend, now time.Time) mean {
	var m mean
	n, up := 0.0, 0.0
	for _, b := range set {
		m.speed.Prefill += b.speed.Prefill
		m.speed.Decode += b.speed.Decode
		if b.down == nil {
			up++
			m.own += float64(b.account.all.requests)
		}
		if b.down != nil || b.health.stuck || b.health.isUnreliable() || !b.fresh(now) {
			continue
		}
		n++
		m.usage += b.reading.KVUsage
		m.waiting += float64(b.reading.Waiting)
		m.running += float64(b.reading.Running)
	}
	m.own /= max(up, 1)
	all := float64(max(len(set), 1))
	m.speed.Prefill, m.speed.Decode = m.speed.Prefill/all, m.speed.Decode/all
	if n == 0 {
		m.usage = unknownUsage
		return m
	}
	m.usage, m.waiting, m.running, m.hasReadings = m.usage/n, m.waiting/n, m.running/n, true
	return m
}

// fresh reports whether the reading is young enough to count as it is.
func (b *backend) fresh(now time.Time) bool { return now.Sub(b.reading.At) <= pressure.FreshFor }

// weigh returns the weight of the reading ([pressure.Weight]); 0 for an unreliable one.
func (b *backend) weigh(now time.Time) (weight float64, known bool) {
	switch {
	case b.health.isUnreliable():
		return 0, false
	case b.fresh(now): // the usual case; this runs for every request
		return 1, true
	}
	return pressure.Weight(b.reading.At, now)
}

// candidate sets b's load for choose.
func (b *backend) candidate(c *candidate, m *mean, r *round) {
	c.suspect = b.health.isSuspect()
	c.ramp = min(b.health.ramp(r.now), c.ramp)
	c.faultShare = b.health.currentFaults(r.now)
	c.capacity, c.blockSize = b.reading.Capacity(), b.reading.BlockSize
	c.meanPrompt = m.prompt
	speed := b.speed.Within(m.speed)
	c.prefillRate, c.decodeRate = 1/speed.Prefill, 1/speed.Decode

	weight, known := b.weigh(r.now)
	all := &b.account.all
	c.usageUnknown, c.ownTotal = !known, float64(all.requests)
	if known {
		b.seen(c, m, weight)
		c.ownPrefill = b.account.uncomputed(r.now, c.prefillRate)
	} else {
		// Only our own requests are known. The mean replaces those of other replicas, and theirs
		// are assumed to differ from it as ours do.
		c.usage, c.waiting, c.running = m.usage, m.waiting, m.running
		more := (c.ownTotal - m.own) * max((m.waiting+m.running)/max(m.own, 1), 1)
		c.running = max(c.running+more, 0)
		c.ownQueued = max(float64(all.queued)-m.waiting*m.prompt, 0)
	}
	b.forecast(c, m, r, speed)
}

// seen sets what b's reading says, by its weight, and what it cannot include yet.
func (b *backend) seen(c *candidate, m *mean, weight float64) {
	if !m.hasReadings {
		weight = 1 // no mean to mix with
	}
	c.usage = b.reading.KVUsage*weight + m.usage*(1-weight)
	c.waiting = float64(b.reading.Waiting)*weight + m.waiting*(1-weight)
	c.running = float64(b.reading.Running)*weight + m.running*(1-weight)
	own := &b.account.recent
	// A request that the reading could include but does not show has not started yet.
	unseen := b.account.all.requests - b.reading.Running - b.reading.Waiting
	c.ownRequests, c.ownQueued = float64(max(own.requests, unseen)), float64(own.queued)
	c.ownTokens = float64(own.prompt) / b.engines() // the capacity is one engine's
}
