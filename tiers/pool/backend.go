package pool

import (
	"errors"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pool/capacity"
	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/pool/health"
	"github.com/foregate/foregate/tiers/pressure"
)

// backend is one vLLM server. All but its names and what its vitals allow at any time is
// guarded by Pool.mu.
type backend struct {
	id, url string
	hash    uint64 // of the id
	number  int    // in the table of warm prefixes
	at      int    // its index in the set
	gone    bool   // it is not in the set any more
	metrics backendMetrics

	down         error // why it is down; nil is up
	downAt       time.Time
	drained      drains              // why it gets no new requests
	probed       time.Time           // when it was last asked for a token
	blind        bool                // it was logged that there are no readings
	reachability health.Reachability // when it last answered
	life         uint64              // how often it was seen to have been restarted

	reading pressure.Reading
	health  health.Monitor
	hits    estimate.CacheHits
	speed   estimate.Speed
	pace    float64 // seconds per token of one request between the last two readings, 0 is unknown

	account capacity.Account // of what we have under way there
}

// take stores a reading. restarted says that the backend's cache is empty since.
func (b *backend) take(r pressure.Reading) (restarted bool) {
	b.account.Read(r.At)
	b.pace = estimate.SpeedRatio(b.reading, r)
	b.reading = r
	restarted = b.health.Observe(r, b.load())
	b.hits.See(r, restarted)
	return restarted
}

// load is what we have there that the reading could know.
func (b *backend) load() health.Load {
	all, recent := b.account.All(), b.account.Recent()
	return health.Load{
		Requests: all.Requests - recent.Requests, Waiting: all.Waiting - recent.Waiting,
		Queued: all.Queued, Prefill: b.speed.Prefill,
	}
}

// out reports whether it gets no new requests.
func (b *backend) out(now time.Time) bool {
	return b.down != nil || b.gone || b.drained.reason(now) != ""
}

// drainOrder is one to drain a backend.
type drainOrder struct {
	why   string
	until time.Time // zero is without end
}

// drains are why a backend gets no new requests: what all replicas know, and what only
// this one could be told because the others were out of reach.
type drains struct {
	fleet string
	here  drainOrder
	told  string // what was logged last
}

// reason is "" when it is not drained.
func (d *drains) reason(now time.Time) string {
	switch {
	case d.fleet != "":
		return d.fleet
	case d.here.why != "" && (d.here.until.IsZero() || now.Before(d.here.until)):
		return d.here.why
	}
	return ""
}

// errSilent is why a backend is down that answers nothing. Where the whole pool is so
// silent, its backends are used all the same.
var errSilent = errors.New("answers nothing")

// moment is what holds for all backends in one look at them.
type moment struct {
	now      time.Time
	config   choose.Config
	age      pressure.Config
	replicas int // at least 1
}

// mean is what the pool's backends with a fresh reading have in common; it
// stands in where a reading is old or missing.
type mean struct {
	usage, waiting, running float64
	known                   bool
	own                     float64        // requests of ours, over all backends that are up
	prompt                  float64        // tokens to be computed of the requests that were picked for
	output, variance        float64        // tokens of answers
	speed                   estimate.Speed // of all backends
}

// unknownUsage stands in for the pool's mean where no backend has a reading:
// neither idle nor full.
const unknownUsage = 0.5

// meanOf averages over the backends that are up and freshly and truly read.
func meanOf(set []*backend, now time.Time, c pressure.Config) mean {
	var m mean
	n, up := 0.0, 0.0
	for _, b := range set {
		m.speed.Prefill += b.speed.Prefill
		m.speed.Decode += b.speed.Decode
		if b.down == nil {
			up++
			m.own += float64(b.account.All().Requests)
		}
		if b.down != nil || b.health.IsStuck() || b.health.IsUnreliable() || !b.fresh(now, &c) {
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
	m.usage, m.waiting, m.running, m.known = m.usage/n, m.waiting/n, m.running/n, true
	return m
}

// fresh reports whether the reading is so young that it counts as it is.
func (b *backend) fresh(now time.Time, c *pressure.Config) bool {
	return now.Sub(b.reading.At) <= c.FreshFor
}

// weigh is how much the reading counts: [pressure.Weight], and nothing of one that is
// not to be believed.
func (b *backend) weigh(now time.Time, c *pressure.Config) (weight float64, known bool) {
	switch {
	case b.health.IsUnreliable():
		return 0, false
	case b.fresh(now, c): // the usual case, and this is on every request's way
		return 1, true
	}
	return pressure.Weight(b.reading.At, now, *c)
}

// candidate fills in what Choose is to know of b's state and load.
func (b *backend) candidate(c *choose.Candidate, m *mean, at *moment) {
	c.Down = b.out(at.now)
	c.Suspect = b.health.IsSuspect()
	c.Ramp = b.health.Ramp(at.now)
	c.FaultShare = b.health.FaultShare(at.now)
	c.Capacity, c.BlockSize = b.reading.Capacity(), b.reading.BlockSize
	c.MeanPrompt = m.prompt
	speed := b.speed.Within(m.speed)
	c.PrefillRate, c.DecodeRate = 1/speed.Prefill, 1/speed.Decode

	weight, known := b.weigh(at.now, &at.age)
	all := b.account.All()
	c.UsageUnknown, c.OwnTotal = !known, float64(all.Requests)
	if known {
		b.seen(c, m, weight)
		c.OwnPrefill = b.account.Uncomputed(at.now, c.PrefillRate)
	} else {
		// Our own requests are all we know. The mean stands in for what others may have
		// sent, and as far as ours differ from our own mean, so will theirs.
		c.Usage, c.Waiting, c.Running = m.usage, m.waiting, m.running
		more := (c.OwnTotal - m.own) * max((m.waiting+m.running)/max(m.own, 1), 1)
		c.Running = max(c.Running+more, 0)
		c.OwnQueued = max(float64(all.Queued)-m.waiting*m.prompt, 0)
	}
	o := b.account.Forecast(at.now, &capacity.Inputs{
		ReadAt: b.reading.At, Running: c.Running, Waiting: c.Waiting,
		Capacity: c.Capacity, BlockSize: c.BlockSize, Engines: b.reading.Engines, Replicas: at.replicas,
		Speed: b.speed, Pooled: speed, Pace: b.pace, Prompt: m.prompt, Output: m.output, Variance: m.variance,
	})
	c.Growth, c.Margin, c.OwnPartly, c.OthersHeld = o.Growth, o.Margin, o.OwnPartly, o.OthersHeld
}

// seen fills in what b's reading tells, as far as it counts, and what it cannot include.
func (b *backend) seen(c *choose.Candidate, m *mean, weight float64) {
	if !m.known {
		weight = 1 // nothing to move toward
	}
	c.Usage = b.reading.KVUsage*weight + m.usage*(1-weight)
	c.Waiting = float64(b.reading.Waiting)*weight + m.waiting*(1-weight)
	c.Running = float64(b.reading.Running)*weight + m.running*(1-weight)
	own := b.account.Recent()
	// A request that the reading could know and does not show has not got so far.
	unseen := b.account.All().Requests - b.reading.Running - b.reading.Waiting
	c.OwnRequests, c.OwnQueued = float64(max(own.Requests, unseen)), float64(own.Queued)
	c.OwnHeld = float64(own.Held) / float64(max(b.reading.Engines, 1)) // the capacity is one engine's
}
