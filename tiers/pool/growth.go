package pool

import (
	"math"
	"math/bits"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
)

const (
	// meanOutputDefault is the length in tokens of answers before any was seen: about the
	// mean of public conversation traces.
	meanOutputDefault = 200.0
	// outputShare is how much one answer moves the mean length and its spread.
	outputShare = 1.0 / 64
	// sure is how many standard deviations of what is there together are kept free for
	// answers that are longer than the mean: with 3, one forecast in 700 is too low.
	sure = 3
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
// many have come, by the time and the backend's pace.
func (l *Lease) remaining(now time.Time, pace float64) (remaining, generated int) {
	if since := l.since(); !since.IsZero() {
		generated = max(int(now.Sub(since).Seconds()/pace), 0)
	}
	remaining = max(l.output-generated, l.output/tail, 1)
	if l.most > 0 {
		generated = min(generated, l.most)
		remaining = min(remaining, l.most-generated)
	}
	return remaining, generated
}

// since is when the answer began, zero where it has not. Of one that comes in one piece
// that is a guess: when its prompt must have been computed.
func (l *Lease) since() time.Time {
	if l.whole && l.first.IsZero() {
		prefill := (l.ahead + float64(l.part.queued)) * l.backend.rates.prefill
		return l.start.Add(time.Duration(prefill * float64(time.Second)))
	}
	return l.first
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
	for _, l := range u.leases {
		left, generated := l.remaining(now, pace)
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
	own := float64(len(b.under.leases))
	all := max(c.Running+c.Waiting+c.OwnRequests, own)
	if own > 0 {
		c.Growth = b.under.forecast(now, m.limit(b.rates).decode) * all / own
	} else {
		c.Growth = all * p.outputs.mean / 2
	}
	c.Growth += sure*p.outputs.deviation()*math.Sqrt(all) + all*float64(c.BlockSize)/2 // the last block of each is half full
	c.OthersHeld = c.OwnHeld * float64(max(p.replicas(), 1)-1)
}

// shared fills in what each candidate need not hold a second time of a prompt: the parts
// that are warm there and in use. The caller holds mu.
func (p *Pool) shared(s *round, d *Demand, prompt int) {
	for i, b := range s.backends {
		for _, part := range d.Parts {
			if part.Key != 0 && b.under.using[part.Key] > 0 {
				s.cands[i].Shared = min(s.cands[i].Cached, int(part.Share*float64(prompt)))
			}
		}
	}
}

// output is how many tokens an answer is expected to have. The caller holds mu.
func (p *Pool) output(d *Demand) int {
	if d.MostOutput > 0 {
		return min(d.MostOutput, int(p.outputs.mean))
	}
	return int(p.outputs.mean)
}

// ended learns from a lease that is over. The caller holds mu.
func (p *Pool) ended(l *Lease, generated int, now time.Time) {
	if generated > 0 {
		p.outputs.learn(float64(generated))
	}
	p.freed.add(float64(l.part.held+generated), now)
}

// lengths are mean and spread of the lengths of answers, by exponential forgetting.
type lengths struct{ mean, variance float64 }

// lengthsDefault are those before any was seen: lengths of answers are about as far
// spread as they are long.
func lengthsDefault() lengths {
	return lengths{mean: meanOutputDefault, variance: meanOutputDefault * meanOutputDefault}
}

func (l *lengths) learn(n float64) {
	off := n - l.mean
	l.mean += off * outputShare
	l.variance += (off*off - l.variance) * outputShare
}

func (l *lengths) deviation() float64 { return math.Sqrt(l.variance) }

// flow is a rate over the last seconds, by exponential forgetting.
type flow struct {
	sum float64
	at  time.Time
}

// flowTime is the time constant of forgetting.
const flowTime = 5 * time.Second

func (f *flow) add(n float64, now time.Time) {
	f.sum = f.left(now) + n
	f.at = now
}

// perSecond is the rate.
func (f *flow) perSecond(now time.Time) float64 { return f.left(now) / flowTime.Seconds() }

func (f *flow) left(now time.Time) float64 {
	age := now.Sub(f.at)
	if f.at.IsZero() || age < 0 {
		return f.sum
	}
	return f.sum * math.Exp(-age.Seconds()/flowTime.Seconds())
}
