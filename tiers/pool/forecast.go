package pool

import (
	"math"
	"math/bits"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
)

const (
	// marginSigmas is the margin for answers longer than the mean, in standard deviations of their sum: with 3, one
	// forecast in 700 is too low.
	marginSigmas = 3
	// unmodelled is the share of the KV cache kept free for what the forecast cannot include: requests that other
	// replicas send between two readings, and prompts longer than estimated.
	unmodelled = 0.05
	// tail is the expected remaining length of an answer that has passed its expected length, as a share of that.
	// Answer lengths have long tails.
	tail = 4
	// growthFor is how long a growth is valid while no request begins or ends.
	growthFor = 50 * time.Millisecond
)

// forecast sets c's growth, margin and tokens of prompts that are not computed yet: the KV memory that the requests on b will
// need beyond what its reading says, in tokens of one engine. Requests of other replicas are assumed to be like ours, or like
// the mean if we have none. pooled is b's speed within the bounds of its pool.
func (b *backend) forecast(c *candidate, m *mean, r *round, pooled estimate.Speed) {
	a := &b.account
	own := float64(a.all.requests)
	// An engine updates its metrics after each step, so a reading misses the requests sent during the step, ours and
	// those of other replicas.
	unseen := max(own-c.running-c.waiting, float64(a.recent.requests), 0)
	others := max(unseen-1, 0) * float64(r.replicas-1) // a single request of ours says nothing about others
	all := max(c.running+c.waiting+unseen+others, own)

	// The slower of two estimates: fewer tokens have been generated.
	g := a.growth.of(a.leases, r.now, estimate.Speed{Prefill: b.speed.Prefill, Decode: max(pooled.Decode, b.pace)})
	growth, variance := all*m.output/2, all*m.variance
	if own > 0 {
		growth, variance = g.tokens*all/own, g.variance*all/own
	}
	growth += all * float64(c.blockSize) / 2 // the last block of each is half full

	partly, each := g.partly, m.prompt // tokens of a prompt that is not computed yet
	if g.beginning > 0 {
		each = g.partly / float64(g.beginning)
		computed := b.reading.At.Sub(a.prefillSince).Seconds() / pooled.Prefill // computed part of the current prompt at the reading's time
		partly = max(partly-max(computed, 0), 0)
	}
	waits := max(c.waiting-float64(max(g.beginning-a.recent.waiting, 0)), 0) // waiting requests of other replicas

	engines := b.engines() // the capacity is one engine's
	c.growth = growth / engines
	c.margin = marginSigmas*math.Sqrt(variance/engines) + unmodelled*float64(c.capacity)
	c.ownPartly = partly / engines
	c.othersTokens = (waits + others) * each / engines
}

// remaining returns the expected rest of l's answers in tokens, and the tokens generated so far. For an answer in one
// piece both are estimated by time, and so is whether its prompt has been computed.
func (l *Lease) remaining(now time.Time, s estimate.Speed) (remaining, generated int, prefilled bool) {
	generated, prefilled = int(l.came.Load()), !l.first.IsZero()
	if l.whole {
		prefill := time.Duration((l.ahead + float64(l.totals.queued)) * s.Prefill * float64(time.Second))
		if since := now.Sub(l.start) - prefill; since > 0 {
			generated, prefilled = int(since.Seconds()/s.Decode)*l.answers, true
		}
	}
	remaining = max(l.output-generated, l.output/tail, 1)
	if l.maxOutput > 0 {
		generated = min(generated, l.maxOutput)
		remaining = min(remaining, l.maxOutput-generated)
	}
	return remaining, generated, prefilled
}

// growth is what the requests of an account will still add to the KV cache.
type growth struct {
	tokens    float64 // at the worst moment
	variance  float64 // of what they will have at the end
	partly    float64 // prompt tokens of those that have not begun to answer
	beginning int     // answers to these
	at        time.Time
	stale     bool // something has begun or ended since
}

// of computes the growth, or returns the last one while it is valid. All answers are assumed to grow at the same speed,
// and each frees its memory at its end: when the k longest remain, each has grown by the rest of the shortest of them. So
// the maximum is max over k of (tokens that the k longest hold + k × the rest of the k-th). This is the rule of the
// past-future scheduler (Gong et al. 2025), with rests rounded up to half-octaves, so that nothing is sorted.
func (g *growth) of(leases []*Lease, now time.Time, s estimate.Speed) *growth {
	if age := now.Sub(g.at); !g.stale && age >= 0 && age < growthFor {
		return g
	}
	var count, held [spans]int
	all := 0
	*g = growth{at: now}
	for _, l := range leases {
		left, generated, prefilled := l.remaining(now, s)
		if !prefilled {
			g.partly += float64(l.totals.prompt)
			g.beginning += l.answers
		}
		g.variance += l.variance
		i := span(left / l.answers)
		count[i] += l.answers
		held[i] += l.totals.prompt + generated
		all += l.totals.prompt + generated
	}
	maximum, k, holds := 0, 0, 0
	for i := spans - 1; i >= 0; i-- {
		if count[i] == 0 {
			continue
		}
		k += count[i]
		holds += held[i]
		maximum = max(maximum, holds+k*spanEnd(i))
	}
	g.tokens = float64(max(maximum-all, 0))
	return g
}

// spans are the half-octaves of what is left of an answer, up to a million tokens.
const spans = 42

// span returns the half-octave of n, spanEnd the upper end of one.
func span(n int) int {
	if n < 2 {
		return 0
	}
	o := bits.Len(uint(n)) - 1
	return min(2*o+(n>>(o-1))&1, spans-1)
}

func spanEnd(s int) int { return 1<<(s/2) + (s%2+1)<<(s/2)/2 }
