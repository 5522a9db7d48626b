package choose

import "math"

// choice holds the inputs of one decision.
type choice struct {
	cands       []Candidate
	request     Request
	turn        uint64
	requiredFit fit     // what a candidate must offer
	none        bool    // no candidate may be filled so far: whoever asks must wait
	ramps       bool    // a candidate that has just started passes most of its turns on
	maxRequests float64 // requests that a candidate may have before this one; 0 is no bound
}

// setRequired sets the fit that a candidate needs: the best available, wanted at most. A backend that has just started
// is left out of most turns if others are available.
func (c *choice) setRequired(maxFit fit) {
	c.ramps = true
	if c.requiredFit = c.best(); c.requiredFit <= full {
		c.ramps = false // one that has just started is better than one that hangs or is full
		c.requiredFit = c.best()
	}
	c.requiredFit = max(min(c.requiredFit, maxFit), risky)
	c.none = c.requiredFit == full
}

func (c *choice) best() fit {
	best := never
	for i := range c.cands {
		if r := c.cands[i].fitFor(c.request); r > best && !c.skipsStarting(i) {
			best = r
		}
	}
	return best
}

// starting is how many times its fair share a candidate may take at the end of its
// ramp: it is idle, and would take everything it is offered.
const starting = 2

// skipsStarting reports whether a starting candidate leaves this turn to others.
func (c *choice) skipsStarting(i int) bool {
	ramp := c.cands[i].Ramp
	if !c.ramps || ramp <= 0 || ramp >= 1 {
		return false
	}
	return unit(mix(c.turn*0x9e37+uint64(i))) >= ramp*min(starting/float64(len(c.cands)), 1)
}

func (c *choice) isUsable(i int) bool {
	return !c.none && c.cands[i].fitFor(c.request) >= c.requiredFit && !c.skipsStarting(i) && !c.isCrowded(i)
}

// isCrowded reports whether candidate i has as many requests as it may have.
func (c *choice) isCrowded(i int) bool {
	return c.maxRequests > 0 && c.cands[i].requests() > c.maxRequests
}

// cheapest returns the candidate of least expected wait. Among those within a band above it, the one nearest to the
// prompt's home wins, or they take turns if the prompt has none.
func (c *choice) cheapest() int {
	best := math.Inf(1)
	for i := range c.cands {
		if c.isUsable(i) {
			best = min(best, wait(&c.cands[i], c.request))
		}
	}
	limit := best + best*tieShare + tieSeconds
	home := c.request.HasHome
	n, near := uint64(0), -1
	for i := range c.cands {
		if !c.isUsable(i) || wait(&c.cands[i], c.request) > limit {
			continue
		}
		n++
		if near < 0 || home && c.cands[i].Home > c.cands[near].Home {
			near = i
		}
	}
	if n < 2 || home {
		return near
	}
	skip := c.turn % n
	for i := range c.cands {
		if !c.isUsable(i) || wait(&c.cands[i], c.request) > limit {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// nth is the turn'th of those that may be used, counting round and round.
func (c *choice) nth(turn uint64) int {
	n := uint64(0)
	for i := range c.cands {
		if c.isUsable(i) {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := turn % n
	for i := range c.cands {
		if !c.isUsable(i) {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// mix spreads the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit maps 64 random bits to [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
