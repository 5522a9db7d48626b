// Package choose decides which backend of a pool a request goes to. It is pure: it
// sees values and returns an index, so that the gateway and the lab decide alike.
//
// Start at [Choose]; what the default policy minimises is at [Wait].
package choose

import "math"

// Policies of choosing. Fit is the one to use; the others are baselines that it is
// compared with.
const (
	PolicyFit           = "fit"            // where it is warm and fits, with the least expected wait
	PolicyRoundRobin    = "round_robin"    // each in turn
	PolicyRandom        = "random"         // any
	PolicyLeastRequests = "least_requests" // fewest requests running and waiting
	PolicyP2C           = "p2c"            // the one with fewer requests of two drawn at random
	PolicyWeighted      = "weighted"       // most free KV memory, by the last reading alone
)

// Config is what an operator may tune of choosing, live.
type Config struct {
	Policy string // one of the Policy constants (default "fit"); an unknown one is "fit"

	// Lambda is the price of a full KV cache: seconds per 1,000 prompt tokens at
	// k/(1−k) = 1, which is a half-full cache (default 0.05; 0 is no price). It
	// grows with the prompt, so that large prompts look for room and small ones
	// pack.
	Lambda float64

	// Spill is how busy a backend may be, as a multiple of the pool's mean, while it
	// still gets every request that is warm there (default 1.25; below 1 is 1).
	// Above it the expected wait decides.
	Spill float64
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config { return Config{Policy: PolicyFit, Lambda: 0.05, Spill: 1.25} }

// Need is what a request asks of a backend.
type Need struct {
	PromptTokens int  // estimated or counted
	OutputTokens int  // expected
	Keyed        bool // the prompt has a home: between equals the greatest Home decides, not the turn
}

// Candidate is one backend as Choose sees it: values only. "Own" are this
// replica's requests that the reading cannot include yet.
type Candidate struct {
	Down     bool    // refused a connection, or drains
	Broken   bool    // its breaker is open
	Excluded bool    // tried already
	Suspect  bool    // seems to hang: only where nobody else is left
	Ramp     float64 // share of its turns that it may take after a start; 0 and 1 are all

	Usage     float64 // KV usage, aged; the pool's mean where unknown; 0..1
	Capacity  int     // tokens the KV cache holds; 0 is unknown
	BlockSize int     // tokens per KV block; 0 is unknown

	Waiting    float64 // requests queued there, reported
	Running    float64 // requests running there, reported
	MeanPrompt float64 // prompt tokens that a queued request is assumed to bring

	OwnRequests float64 // own requests
	OwnQueued   float64 // prompt tokens of those whose prefill has not finished
	OwnHeld     float64 // tokens with which they fill the KV cache

	// OwnPrefill is the prompt tokens of all of this replica's requests there whose
	// prefill has not finished, those that the reading calls running among them: of
	// a prompt that is being computed a reading tells nothing but that it runs.
	OwnPrefill float64

	Cached int     // prompt tokens expected in this backend's prefix cache
	Placed float64 // tokens of all prefixes that are expected there, this prompt's among them where Cached
	Main   bool    // of the backends where it is warm, the one that all replicas keep to
	Home   uint64  // how near home the prompt is here: the greatest is its home

	Faults      float64 // share of this replica's late calls there that failed, 0..1
	PrefillRate float64 // prompt tokens per second
	DecodeRate  float64 // tokens per second of one request
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

// Choose returns the index of the candidate to use, −1 when none may be. It is
// pure: the same values and the same turn give the same answer. Turn is counted
// up by the caller and decides between equals.
//
// Fit takes the candidate where most of the prompt is warm, as long as it is not too
// busy (Config.Spill); else the one of least expected wait, [Wait]. Where the
// prompt fits nowhere, a backend that would queue it is better than none.
func Choose(cfg Config, cands []Candidate, need Need, turn uint64) int {
	c := choice{cfg: cfg, cands: cands, need: need, turn: turn}
	switch cfg.Policy {
	case PolicyRoundRobin:
		c.settle(queue)
		return c.nth(turn)
	case PolicyRandom:
		c.settle(queue)
		return c.nth(mix(turn))
	case PolicyLeastRequests:
		c.settle(queue)
		return c.cheapest(crowd, 0, 0)
	case PolicyP2C:
		c.settle(queue)
		return c.ofTwo()
	case PolicyWeighted:
		c.settle(queue)
		return c.cheapest(weighted, 0, 0)
	}
	c.settle(fits)
	return c.fit()
}

const (
	// Waits that differ by less than tieShare of the least plus tieSeconds count
	// as equal. One engine step takes 5–100 ms (vllm-api.md §5.5) and learned rates
	// are noisy, so a smaller difference says nothing, and without the band the
	// luckiest backend would take every request of an idle pool.
	tieShare   = 0.10
	tieSeconds = 0.005
	// worthCached is how many prompt tokens must be warm for a backend to be held on
	// to: 16 blocks, some tens of milliseconds of prefill.
	worthCached = 256
	// asWarm is what part less may be warm on a backend that counts as equally warm.
	asWarm = 8
)

// choice is one decision's input.
type choice struct {
	cfg   Config
	cands []Candidate
	need  Need
	turn  uint64
	least room    // what a candidate must offer
	ramps bool    // a candidate that has just started passes most of its turns on
	most  float64 // requests that a candidate may have before this one; 0 is no bound
}

// settle sets what a candidate must offer: the best that somebody does, wanted at
// most. Whoever has just started is left out of most turns while others are there.
func (c *choice) settle(wanted room) {
	c.ramps = true
	if c.least = c.best(); c.least <= risky {
		c.ramps = false // one that has just started is better than one that hangs
		c.least = c.best()
	}
	c.least = max(min(c.least, wanted), risky)
}

func (c *choice) best() room {
	best := never
	for i := range c.cands {
		if r := c.cands[i].room(c.need); r > best && !c.passes(i) {
			best = r
		}
	}
	return best
}

// passes reports whether a candidate that has just started leaves this turn to
// others.
func (c *choice) passes(i int) bool {
	ramp := c.cands[i].Ramp
	return c.ramps && ramp > 0 && ramp < 1 && unit(mix(c.turn*0x9e37+uint64(i))) >= ramp
}

func (c *choice) may(i int) bool {
	return c.cands[i].room(c.need) >= c.least && !c.passes(i) && (c.most == 0 || crowd(c.cfg, &c.cands[i], c.need) <= c.most)
}

const (
	// few requests at once are no crowd, however idle the others are.
	few = 3
	// packed times Spill is where a backend gets nothing more while there are others,
	// whatever is warm there: with the default, at one and a half times its share.
	packed = 1.2
)

// fit is the default policy.
func (c *choice) fit() int {
	spill := max(c.cfg.Spill, 1) * (c.mean() + few)
	c.most = spill * packed
	best := c.cheapest(wait, tieShare, tieSeconds)
	if best < 0 {
		c.most = 0 // no number at all, or only such as make no sense
		best = c.cheapest(wait, tieShare, tieSeconds)
	}
	warm := c.warmest()
	if warm < 0 || warm == best {
		return best
	}
	// What is computed twice is time that the next ones wait, too; so it counts twice,
	// or three times as long as it is not crowded there.
	k := &c.cands[warm]
	again := max(float64(k.Cached-c.cands[best].Cached), 0) / k.PrefillRate
	if crowd(c.cfg, k, c.need) <= spill {
		again *= 2
	}
	if wait(c.cfg, k, c.need) <= wait(c.cfg, &c.cands[best], c.need)+again {
		return warm
	}
	return best
}

// mean is the mean number of requests of those that may be used.
func (c *choice) mean() float64 {
	sum, n := 0.0, 0.0
	for i := range c.cands {
		if c.may(i) {
			sum += crowd(c.cfg, &c.cands[i], c.need)
			n++
		}
	}
	return sum / max(n, 1)
}

// warmest is the candidate with most of the prompt in its cache, −1 when nobody has
// enough of it to matter. Of those that have about as much, it is the main one, so
// that all replicas come back to the same and the other copies fade.
func (c *choice) warmest() int {
	most := worthCached
	for i := range c.cands {
		if c.may(i) {
			most = max(most, c.cands[i].Cached)
		}
	}
	warm := -1
	for i := range c.cands {
		k := &c.cands[i]
		if k.Cached < most-most/asWarm || k.Cached < worthCached || !c.may(i) {
			continue
		}
		if was := warm; was < 0 || k.Main && !c.cands[was].Main || k.Main == c.cands[was].Main && k.Home > c.cands[was].Home {
			warm = i
		}
	}
	return warm
}

// nth is the turn'th of those that may be used, counting round and round.
func (c *choice) nth(turn uint64) int {
	n := uint64(0)
	for i := range c.cands {
		if c.may(i) {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := turn % n
	for i := range c.cands {
		if !c.may(i) {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// cheapest is the candidate of least cost. Of those within the band of it, the one
// nearest home is taken, or each in turn where the prompt has none.
func (c *choice) cheapest(price cost, share, more float64) int {
	best := math.Inf(1)
	for i := range c.cands {
		if c.may(i) {
			best = min(best, price(c.cfg, &c.cands[i], c.need))
		}
	}
	limit := best + best*share + more
	home := share > 0 && c.need.Keyed
	n, near := uint64(0), -1
	for i := range c.cands {
		if !c.may(i) || price(c.cfg, &c.cands[i], c.need) > limit {
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
		if !c.may(i) || price(c.cfg, &c.cands[i], c.need) > limit {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// ofTwo draws two by a hash of the turn and takes the one with fewer requests.
func (c *choice) ofTwo() int {
	h := mix(c.turn)
	a, b := c.nth(h>>32), c.nth(h&math.MaxUint32)
	if a < 0 || b < 0 {
		return a
	}
	if crowd(c.cfg, &c.cands[b], c.need) < crowd(c.cfg, &c.cands[a], c.need) {
		return b
	}
	return a
}
