package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/pressure"
)

// backend is one vLLM server. All but its names and vitals' atomics is guarded by
// Pool.mu.
type backend struct {
	id, url string
	hash    uint64 // of the id
	number  int    // in the table of warm prefixes
	at      int    // its index in the set
	gone    bool   // it is not in the set any more
	metrics backendMetrics

	down    error // why it is down; nil is up
	downAt  time.Time
	drained drains    // why it gets no new requests
	probed  time.Time // when it was last asked for a token
	blind   bool      // it was logged that there are no readings
	contact contact   // when it last answered
	life    uint64    // how often it was seen to have been restarted

	reading pressure.Reading
	vitals  vitals
	hits    hits
	rates   rates
	pace    float64 // seconds per token of one request between the last two readings, 0 is unknown

	all    tally  // what we have under way there
	recent recent // of these, what the reading cannot include
	under  under  // one by one

	prefillSince time.Time // when the prefill that is under way among them began, as far as we know
}

// start counts a lease in.
func (b *backend) start(t tally, now time.Time) {
	if b.all.queued == 0 {
		b.prefillSince = now
	}
	b.all.add(t)
	b.recent.start(t, now)
}

// end counts a part of a lease out that began at the given time.
func (b *backend) end(t tally, began time.Time) {
	b.all.sub(t)
	b.recent.end(t, began)
}

// take stores a reading. restarted says that the backend's cache is empty since.
func (b *backend) take(r pressure.Reading) (restarted bool) {
	b.recent.read(r.At)
	b.pace = paceOf(b.reading, r)
	b.reading = r
	restarted = b.vitals.see(r, b.load())
	b.hits.see(r, restarted)
	return restarted
}

// paceOf is how many seconds a token of one request took between two readings; 0 where
// they do not tell.
func paceOf(was, is pressure.Reading) float64 {
	tokens, took := is.GenerationTokens-was.GenerationTokens, is.At.Sub(was.At).Seconds()
	running := float64(was.Running+is.Running) / 2
	if tokens <= 0 || took <= 0 || running < 1 {
		return 0
	}
	return clamp(running*took/tokens, 1/decodeMost, 1/decodeLeast)
}

// load is what we have there that the reading could know.
func (b *backend) load() load {
	step := min(float64(b.all.queued), longStep) * b.rates.prefill
	return load{
		requests: b.all.requests - b.recent.sum.requests, waiting: b.all.waiting - b.recent.sum.waiting,
		step: time.Duration(step * float64(time.Second)),
	}
}

// out reports whether it gets no new requests.
func (b *backend) out(now time.Time) bool { return b.down != nil || b.drained.why(now) != "" }

// mean is what the pool's backends with a fresh reading have in common; it
// stands in where a reading is old or missing.
type mean struct {
	usage, waiting, running float64
	known                   bool
	own                     float64 // requests of ours, over all backends that are up
	prompt                  float64 // of the requests that were picked for
	rates                   rates   // of all backends
}

// fastest is how much of the pool's mean time per token a backend may be believed to
// need at least, and slowest at most. A pool is one model on one kind of hardware:
// who seems faster found the prompt in its prefix cache, and would draw every other
// prompt too; who seems slower was measured behind a queue that nobody saw, and would
// never be asked again.
const fastest, slowest = 0.8, 1.5

// limit bounds what a backend has learned by what all have.
func (m *mean) limit(r rates) rates {
	return rates{
		prefill: clamp(r.prefill, fastest*m.rates.prefill, slowest*m.rates.prefill),
		decode:  clamp(r.decode, fastest*m.rates.decode, slowest*m.rates.decode),
	}
}

// unknownUsage stands in for the pool's mean where no backend has a reading:
// neither idle nor full.
const unknownUsage = 0.5

// meanOf averages over the backends that are up and freshly and truly read.
func meanOf(set []*backend, now time.Time, c pressure.Config) mean {
	var m mean
	n, up := 0.0, 0.0
	for _, b := range set {
		m.rates.prefill += b.rates.prefill
		m.rates.decode += b.rates.decode
		if b.down == nil {
			up++
			m.own += float64(b.all.requests)
		}
		if b.down != nil || b.vitals.standing || b.vitals.untrue() || now.Sub(b.reading.At) > c.Fresh {
			continue
		}
		n++
		m.usage += b.reading.KVUsage
		m.waiting += float64(b.reading.Waiting)
		m.running += float64(b.reading.Running)
	}
	m.own /= max(up, 1)
	all := float64(max(len(set), 1))
	m.rates.prefill, m.rates.decode = m.rates.prefill/all, m.rates.decode/all
	if n == 0 {
		m.usage = unknownUsage
		return m
	}
	m.usage, m.waiting, m.running, m.known = m.usage/n, m.waiting/n, m.running/n, true
	return m
}

// weigh is how much the reading counts: [pressure.Weight], and nothing of one that is
// not to be believed.
func (b *backend) weigh(now time.Time, c pressure.Config) (weight float64, known bool) {
	if b.vitals.untrue() {
		return 0, false
	}
	return pressure.Weight(b.reading.At, now, c)
}

// candidate fills in what Choose is to know of b.
func (b *backend) candidate(c *choose.Candidate, m *mean, now time.Time, cfg pressure.Config) {
	c.Down = b.out(now)
	c.Suspect = b.vitals.suspect()
	c.Ramp = b.vitals.ramp(now)
	c.Faults = b.vitals.failing(now)
	c.Capacity, c.BlockSize = b.reading.Capacity(), b.reading.BlockSize
	c.MeanPrompt = m.prompt
	r := m.limit(b.rates)
	c.PrefillRate, c.DecodeRate = 1/r.prefill, 1/r.decode

	weight, known := b.weigh(now, cfg)
	c.Blind, c.Own = !known, float64(b.all.requests)
	if !known {
		// Our own requests are all we know. The mean stands in for what others may have
		// sent, and as far as ours differ from our own mean, so will theirs.
		c.Usage, c.Waiting, c.Running = m.usage, m.waiting, m.running
		more := (float64(b.all.requests) - m.own) * max((m.waiting+m.running)/max(m.own, 1), 1)
		c.Running = max(c.Running+more, 0)
		c.OwnQueued = max(float64(b.all.queued)-m.waiting*m.prompt, 0)
		return
	}
	if !m.known {
		weight = 1 // nothing to move toward
	}
	c.Usage = b.reading.KVUsage*weight + m.usage*(1-weight)
	c.Waiting = float64(b.reading.Waiting)*weight + m.waiting*(1-weight)
	c.Running = float64(b.reading.Running)*weight + m.running*(1-weight)
	own := &b.recent.sum
	// A request that the reading could know and does not show has not got so far.
	unseen := b.all.requests - b.reading.Running - b.reading.Waiting
	c.OwnRequests, c.OwnQueued = float64(max(own.requests, unseen)), float64(own.queued)
	c.OwnHeld = float64(own.held) / float64(max(b.reading.Engines, 1)) // the capacity is one engine's
	done := now.Sub(b.prefillSince).Seconds() * c.PrefillRate
	c.OwnPrefill = max(float64(b.all.queued)-done, 0)
}
