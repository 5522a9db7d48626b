package pool

import (
	"math"
	"math/bits"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
)

const (
	// marginSigmas is how many standard deviations of what is there together are kept free for
	// answers that are longer than the mean: with 3, one forecast in 700 is too low.
	marginSigmas = 3
	// unmodelled is the share of the KV cache kept free for what no forecast sees: what
	// other replicas send between two readings, prompts longer than estimated.
	unmodelled = 0.05
	// tail is the share of its expected length that an answer which has passed it is
	// expected to go on for. Lengths of answers have long tails.
	tail = 4
	// growthFor is how long a forecast is good for while nothing begins or ends.
	growthFor = 50 * time.Millisecond
)

// under are the leases under way on one backend: what they will still add to its KV
// cache, and which prefixes they share. Pool.mu guards it.
type under struct {
	leases []*Lease
	using  map[prefix.Key]int // of their parts

	growth float64 // of the leases, as forecast
	spread float64 // variance of what they will have at the end
	partly float64 // prompt tokens of those that have not begun to answer, and their number
	begin  int
	at     time.Time
	stale  bool
}

func (u *under) start(l *Lease) {
	l.at = len(u.leases)
	u.leases = append(u.leases, l)
	if u.using == nil {
		u.using = map[prefix.Key]int{}
	}
	for _, part := range l.parts {
		if part.Key != 0 {
			u.using[part.Key]++
		}
	}
	u.stale = true
}

func (u *under) end(l *Lease) {
	last := len(u.leases) - 1
	u.leases[l.at] = u.leases[last]
	u.leases[l.at].at = l.at
	u.leases[last] = nil
	u.leases = u.leases[:last]
	for _, part := range l.parts {
		if u.using[part.Key]--; u.using[part.Key] <= 0 {
			delete(u.using, part.Key)
		}
	}
	u.stale = true
}

// remaining is how many tokens l is expected to have still to come, and generated how
// many have come. Of an answer that comes in one piece that is a guess by time.
func (l *Lease) remaining(now time.Time, pace float64) (remaining, generated int) {
	generated = int(l.came.Load())
	if l.whole && now.After(l.begins()) {
		generated = int(now.Sub(l.begins()).Seconds() / pace)
	}
	remaining = max(l.output-generated, l.output/tail, 1)
	if l.most > 0 {
		generated = min(generated, l.most)
		remaining = min(remaining, l.most-generated)
	}
	return remaining, generated
}

// begins is when the prompt of an answer that comes in one piece must have been
// computed.
func (l *Lease) begins() time.Time {
	prefill := (l.ahead + float64(l.part.queued)) * l.backend.rates.prefill
	return l.start.Add(time.Duration(prefill * float64(time.Second)))
}

// begun reports whether the prompt has been computed.
func (l *Lease) begun(now time.Time) bool {
	return !l.first.IsZero() || l.whole && now.After(l.begins())
}

// half-octaves of what is left of an answer, up to a million tokens.
const spans = 42

// span is the half-octave of n, and spanEnd its upper end.
func span(n int) int {
	if n < 2 {
		return 0
	}
	o := bits.Len(uint(n)) - 1
	return min(2*o+(n>>(o-1))&1, spans-1)
}

func spanEnd(s int) int { return 1<<(s/2) + (s%2+1)<<(s/2)/2 }

// forecast is by how many tokens the leases will fill the cache further at the worst
// moment. All grow at one pace, and each frees what it holds when it ends: when the k
// longest are still there, they have grown by what the shortest of them had left. So
// the worst moment holds max over k of (what the k longest hold + k × what the k-th has
// left). It is the rule of the past-future scheduler (Gong et al. 2025), with what is
// left rounded up to half-octaves, so that nothing is sorted.
func (u *under) forecast(now time.Time, pace float64) float64 {
	if age := now.Sub(u.at); !u.stale && age >= 0 && age < growthFor {
		return u.growth
	}
	var count, held [spans]int
	all := 0
	u.partly, u.begin, u.spread = 0, 0, 0
	for _, l := range u.leases {
		if !l.begun(now) {
			u.partly += float64(l.part.held)
			u.begin++
		}
		left, generated := l.remaining(now, pace)
		u.spread += l.spread
		s := span(left)
		count[s]++
		held[s] += l.part.held + generated
		all += l.part.held + generated
	}
	most, k, holds := 0, 0, 0
	for s := spans - 1; s >= 0; s-- {
		if count[s] == 0 {
			continue
		}
		k += count[s]
		holds += held[s]
		most = max(most, holds+k*spanEnd(s))
	}
	u.growth, u.at, u.stale = float64(max(most-all, 0)), now, false
	return u.growth
}

// foresee fills in what c's memory will be asked for by what is there. Requests of other
// replicas are taken to be like ours; without any of ours, like the mean. The caller
// holds mu.
func (p *Pool) foresee(c *choose.Candidate, b *backend, m *mean, now time.Time) {
	pace := m.limit(b.rates)
	replicas := float64(max(p.replicas(), 1))
	own := float64(len(b.under.leases))
	// An engine tells of a step when it is over: what we sent it in that time it does not
	// show, and so not what others have sent either.
	unseen := max(own-c.Running-c.Waiting, float64(b.recent.sum.requests), 0)
	others := max(unseen-1, 0) * (replicas - 1) // one request of ours is no sign of theirs
	all := max(c.Running+c.Waiting+unseen+others, own)
	c.Growth = b.under.forecast(now, max(pace.decode, b.pace)) // the slower one: less has been generated
	spread := b.under.spread
	if own > 0 {
		c.Growth, spread = c.Growth*all/own, spread*all/own
	} else {
		c.Growth, spread = all*p.outputs.all.mean/2, all*p.outputs.all.variance
	}
	c.Growth += all * float64(c.BlockSize) / 2 // the last block of each is half full

	seen := b.reading.At.Sub(b.prefillSince).Seconds() / pace.prefill // of the prompt under way, by the reading
	c.OwnPartly = max(b.under.partly-max(seen, 0), 0)
	each := p.meanPrompt // held by a request whose prompt is not computed yet
	if b.under.begin > 0 {
		each = b.under.partly / float64(b.under.begin)
	}
	waits := max(c.Waiting-float64(max(b.under.begin-b.recent.sum.waiting, 0)), 0) // those of others that the reading shows
	c.OthersHeld = (waits + others) * each

	engines := float64(max(b.reading.Engines, 1)) // the capacity is one engine's
	c.Growth, c.OwnPartly, c.OthersHeld = c.Growth/engines, c.OwnPartly/engines, c.OthersHeld/engines
	c.Margin = marginSigmas*math.Sqrt(spread/engines) + unmodelled*float64(c.Capacity)
}

// shared fills in what each candidate need not hold a second time of a prompt: the parts
// that are warm there and in use by other requests. Of ours that is known; that another
// replica's request uses a part is as likely for each of them as it has been of ours.
// The caller holds mu.
func (p *Pool) shared(s *round, d *Demand, prompt int) {
	others := 1 - math.Pow(1-p.inUse, float64(max(p.replicas(), 1)-1))
	for i, b := range s.backends {
		if c := &s.cands[i]; c.Cached > 0 {
			c.Shared = max(b.under.shared(c, d, prompt), int(others*float64(c.Cached)))
		}
	}
}

// shared is how many of the prompt's warm tokens our own requests there are using.
func (u *under) shared(c *choose.Candidate, d *Demand, prompt int) int {
	n := 0
	for _, part := range d.Parts {
		if part.Key != 0 && u.using[part.Key] > 0 {
			n = max(n, int(part.Share*float64(prompt)))
		}
	}
	return min(n, c.Cached)
}

// met learns how much of what is warm is in use. The caller holds mu.
func (p *Pool) met(b *backend, c *choose.Candidate, d *Demand, prompt int) {
	if c.Cached > 0 {
		p.inUse += (float64(b.under.shared(c, d, prompt))/float64(c.Cached) - p.inUse) * lengthShare
	}
}

// ended learns from a lease that is over. The caller holds mu.
func (p *Pool) ended(l *Lease, generated int, now time.Time) {
	if generated > 0 {
		p.outputs.learn(l.kind, l.most/l.answers, generated/l.answers)
	}
	p.freed.add(float64(l.part.held+generated), now)
}

// flow is a rate over the last seconds, by exponential forgetting.
type flow struct {
	sum   float64
	at    time.Time
	since time.Time // when it began, after a time without
}

// flowTime is the time constant of forgetting.
const flowTime = 5 * time.Second

func (f *flow) add(n float64, now time.Time) {
	if f.since.IsZero() || now.Sub(f.at) > 2*flowTime {
		*f = flow{since: now}
	}
	f.sum = f.left(now) + n
	f.at = now
}

// perSecond is the rate; 0 is unknown: in the first second, and where nothing has come for
// so long that what is left is the memory of other times.
func (f *flow) perSecond(now time.Time) float64 {
	age := now.Sub(f.since)
	if age < time.Second || now.Sub(f.at) > 2*flowTime {
		return 0
	}
	return f.left(now) / flowTime.Seconds() / (1 - math.Exp(-age.Seconds()/flowTime.Seconds())) // a young sum is not full yet
}

func (f *flow) left(now time.Time) float64 {
	age := now.Sub(f.at)
	if f.at.IsZero() || age < 0 {
		return f.sum
	}
	return f.sum * math.Exp(-age.Seconds()/flowTime.Seconds())
}
