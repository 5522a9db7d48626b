package pool

import "math"

// Policies of choosing. Fit is the one to use; the others are baselines that it
// is compared with.
const (
	PolicyFit           = "fit"            // least expected wait, see Wait
	PolicyRoundRobin    = "round_robin"    // each in turn
	PolicyLeastRequests = "least_requests" // fewest requests running and waiting
	PolicyP2C           = "p2c"            // the one with fewer requests of two drawn at random
)

// Config is what an operator may tune of choosing, live.
type Config struct {
	Policy string // one of the Policy constants (default "fit"); an unknown one is "fit"

	// Lambda is the price of a full KV cache: seconds per 1,000 prompt tokens at
	// k/(1−k) = 1, which is a half-full cache (default 0.05; 0 is no price). It
	// grows with the prompt, so that large prompts look for room and small ones
	// pack.
	Lambda float64
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config { return Config{Policy: PolicyFit, Lambda: 0.05} }

const (
	// maxUsage bounds k in k/(1−k): a full cache is very dear, not infinitely so.
	maxUsage = 0.99
	// doubleBatch is the number of running requests at which a decode step takes
	// twice as long as alone. Our estimate: vllm-api.md §7 says that the time
	// per token grows with the batch but gives no slope; a batch of 64 is where
	// an 8B model's step on one GPU has roughly doubled.
	doubleBatch = 64
	// Waits that differ by less than tieShare of the least plus tieSeconds count
	// as equal and are taken in turn. One engine step takes 5–100 ms
	// (vllm-api.md §5.5) and learned rates are noisy, so a smaller difference
	// says nothing, and without the band the luckiest backend would take every
	// request of an idle pool.
	tieShare   = 0.10
	tieSeconds = 0.005
)

// Candidate is one backend as Choose sees it: values only. "Own" are this
// replica's requests that the reading cannot include yet.
type Candidate struct {
	Down     bool // refused a connection
	Broken   bool // its breaker is open
	Excluded bool // tried already

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

	Cached      int     // prompt tokens expected in this backend's prefix cache
	PrefillRate float64 // prompt tokens per second
	DecodeRate  float64 // tokens per second of one request
}

// Wait is the number of seconds that a request is expected to lose on c:
//
//	  uncached prompt tokens / prefill rate                         its own prefill
//	+ the greater of (waiting × mean prompt + own queued tokens)
//	  and own unfinished prefill / prefill rate                     the queue before it
//	+ output tokens / decode rate × n/(n+64)                        its share of a crowded batch
//	+ λ × prompt tokens/1000 × k/(1−k)                              the price of a full cache
//
// n is the number of running requests and k the KV usage, both with our own
// added. The third term is the part of the decode time that the others cause:
// if a step takes 1 + n/64 times as long as alone, that is the share n/(n+64)
// of the time per token as observed. The fourth is a price, not a measurement:
// what preemption and queueing for blocks will cost, growing without a step.
func Wait(cfg Config, c Candidate, need Demand) float64 { return wait(cfg, &c, need) }

// wait takes a pointer because it runs three times per backend and pick.
func wait(cfg Config, c *Candidate, need Demand) float64 {
	prompt := float64(max(need.PromptTokens, 0))
	ahead := c.ahead()
	seconds := (max(prompt-float64(c.Cached), 0) + ahead) / c.PrefillRate
	n := c.Running + c.OwnRequests
	seconds += float64(max(need.OutputTokens, 0)) / c.DecodeRate * n / (n + doubleBatch)
	k := c.usage()
	seconds += max(cfg.Lambda, 0) * prompt / 1000 * k / (1 - k)
	return sane(seconds)
}

// ahead is how many prompt tokens are computed before a new one's.
func (c *Candidate) ahead() float64 { return max(c.Waiting*c.MeanPrompt+c.OwnQueued, c.OwnPrefill) }

// sane makes what is no cost the highest one, so that it neither wins nor
// poisons the comparison.
func sane(v float64) float64 {
	if v >= 0 && v < math.MaxFloat64 {
		return v
	}
	return math.MaxFloat64
}

// Score maps a wait to 0..1; 1 is no wait.
func Score(wait float64) float64 { return 1 / (1 + wait) }

// usage is the KV usage corrected by our own tokens.
func (c *Candidate) usage() float64 {
	k := c.Usage
	if c.Capacity > 0 {
		k += c.OwnHeld / float64(c.Capacity)
	}
	if k >= 0 {
		return min(k, maxUsage)
	}
	return 0 // negative, or not a number
}

// room is how well a request can be placed.
type room int

const (
	never room = iota // not up, tried, or the prompt is longer than the whole cache
	queue             // it must wait for blocks: vLLM queues without bound
	fits              // its prompt fits in the free blocks
)

// room judges c for a request.
func (c *Candidate) room(need Demand) room {
	if c.Down || c.Broken || c.Excluded || c.tooSmall(need) {
		return never
	}
	if c.Capacity == 0 {
		return fits // nothing is known against it
	}
	// vLLM reserves blocks for the whole prompt and none for the output.
	block := max(c.BlockSize, 1)
	blocks := (max(need.PromptTokens, 0) + block - 1) / block
	free := float64(c.Capacity)*(1-c.Usage) - c.OwnHeld
	if float64(blocks*block) > free {
		return queue
	}
	return fits
}

// tooSmall tells whether the prompt could never fit.
func (c *Candidate) tooSmall(need Demand) bool {
	return c.Capacity > 0 && need.PromptTokens > c.Capacity
}

// Choose returns the index of the candidate to use, −1 when none may be. It is
// pure: the same values and the same turn give the same answer. Turn is counted
// up by the caller and decides between equals.
//
// Where the prompt fits nowhere, a backend that would queue it is better than
// none; "fit" then chooses among these.
func Choose(cfg Config, cands []Candidate, need Demand, turn uint64) int {
	c := choice{cfg: cfg, cands: cands, need: need, least: queue}
	switch cfg.Policy {
	case PolicyRoundRobin:
		return c.nth(turn)
	case PolicyLeastRequests:
		return c.cheapest(turn, requests, 0)
	case PolicyP2C:
		return c.ofTwo(turn)
	}
	for i := range cands {
		if cands[i].room(need) == fits {
			c.least = fits
			break
		}
	}
	return c.cheapest(turn, wait, tieShare)
}

// choice is one decision's input.
type choice struct {
	cfg   Config
	cands []Candidate
	need  Demand
	least room // what a candidate must offer
}

// cost is what a policy minimises.
type cost func(Config, *Candidate, Demand) float64

// requests is the cost of the baselines.
func requests(_ Config, c *Candidate, _ Demand) float64 {
	return sane(c.Waiting + c.Running + c.OwnRequests)
}

func (c *choice) may(i int) bool { return c.cands[i].room(c.need) >= c.least }

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
	for i := range c.cands {
		if !c.may(i) {
			continue
		}
		if turn%n == 0 {
			return i
		}
		turn--
	}
	return -1
}

// cheapest is the candidate of least cost; those within the band of it are
// taken in turn.
func (c *choice) cheapest(turn uint64, price cost, band float64) int {
	best := math.Inf(1)
	for i := range c.cands {
		if c.may(i) {
			best = min(best, price(c.cfg, &c.cands[i], c.need))
		}
	}
	limit := best
	if band > 0 {
		limit += best*band + tieSeconds
	}
	n := uint64(0)
	for i := range c.cands {
		if c.may(i) && price(c.cfg, &c.cands[i], c.need) <= limit {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := turn % n
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
func (c *choice) ofTwo(turn uint64) int {
	h := mix(turn)
	a, b := c.nth(h>>32), c.nth(h&math.MaxUint32)
	if a < 0 || b < 0 {
		return a
	}
	if requests(c.cfg, &c.cands[b], c.need) < requests(c.cfg, &c.cands[a], c.need) {
		return b
	}
	return a
}

// mix spreads the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
