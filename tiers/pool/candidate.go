package pool

import "time"

// need is what a request asks of a backend.
type need struct {
	Admission

	prompt  int  // tokens of all prompts, estimated or counted
	longest int  // tokens of the longest one; they must fit at once, because engines take prompts one after the other
	output  int  // tokens expected of one answer
	hasHome bool // the prompt has a home: among equals the greatest candidate.home wins, not the turn

	hold    int  // tokens that it will hold at its end: prompts and expected output; 0: only current usage counts
	holdOne int  // the same of its longest prompt and one answer to it
	many    bool // it asks for many answers, and could ask for fewer: it never gets more than half of a backend
}

// candidate is one backend as choose sees it: values only. "Own" means this replica's requests that the reading cannot
// include yet.
type candidate struct {
	down     bool    // refused a connection, or drains
	broken   bool    // its breaker is open
	excluded bool    // it was tried before
	suspect  bool    // it seems to hang: used only if no other is left
	ramp     float64 // slow start, 0..1: bounds its share; 0 and 1: no bound

	usage     float64 // KV usage, aged; the pool's mean where unknown; 0..1
	capacity  int     // tokens the KV cache holds; 0 is unknown
	blockSize int     // tokens per KV block; 0 is unknown

	waiting    float64 // requests queued there, reported
	running    float64 // requests running there, reported
	meanPrompt float64 // prompt tokens that a queued request is assumed to bring

	ownRequests  float64 // own requests
	ownQueued    float64 // prompt tokens of those whose prefill has not finished
	ownTokens    float64 // tokens that they hold in the KV cache
	ownPartly    float64 // tokens of own prompts not computed yet; engines allocate blocks step by step, so a reading may include a part
	othersTokens float64 // estimated tokens of other replicas' requests that the reading does not include

	paused time.Duration // a hosted backend wants no request for so long, by its limits of rates

	usageUnknown bool    // usage is unknown: no limit applies
	ownTotal     float64 // all own requests, also those in the reading
	growth       float64 // expected further growth of the running requests at the maximum, in tokens
	margin       float64 // safety margin on growth
	shared       int     // prompt tokens of this request that another one already holds

	// ownPrefill is the prompt tokens of all own requests with unfinished prefill, also those that the reading counts
	// as running: a reading does not tell how much of a prompt is computed.
	ownPrefill float64

	expected int     // prompt tokens expected in this backend's prefix cache
	cached   int     // the same, corrected by the observed hit rate
	placed   float64 // tokens of all prefixes that are expected in the cache, including cached
	main     bool    // of the backends with the prefix cached, the one that all replicas prefer
	home     uint64  // rendezvous hash of prompt and backend: the greatest is the prompt's home

	faultShare  float64 // share of own recent calls that failed, 0..1
	prefillRate float64 // prompt tokens per second
	decodeRate  float64 // tokens per second of one request

	fit  fit     // set by choose
	cost float64 // its wait, likewise; 0 until it is needed
}

// fit is how well a backend fits a request.
type fit int

const (
	never fit = iota // not up, tried, or the prompt is longer than the whole cache
	risky            // it seems to hang
	full             // above the request's limit
	queue            // the prompt must wait for blocks: vLLM queues without bound
	fits             // the prompt fits in the free blocks
)

// fitFor returns how well c fits a request.
func (c *candidate) fitFor(n *need) fit {
	switch {
	case !c.mayTake(n):
		return never
	case c.suspect:
		return risky
	case c.above(n):
		return full
	case !c.frees(n):
		return queue
	}
	return fits
}

// mayTake reports whether c may be used at all, and the request can ever fit.
func (c *candidate) mayTake(n *need) bool {
	return !c.down && !c.broken && !c.excluded && !c.tooSmall(n)
}

// tooSmall reports whether the request can never fit: its longest prompt in the cache, many answers together in half of it.
func (c *candidate) tooSmall(n *need) bool {
	return c.capacity > 0 && (n.longest > c.capacity || n.many && n.hold > c.capacity/2)
}

// frees reports whether the prompt fits in the free blocks; true if the size is unknown. vLLM allocates blocks for the
// whole prompt and none for the output.
func (c *candidate) frees(n *need) bool {
	if c.capacity == 0 {
		return true
	}
	block := max(c.blockSize, 1)
	blocks := (n.longest + block - 1) / block
	return float64(blocks*block) <= c.free()
}

// free returns how many tokens fit in the free blocks.
func (c *candidate) free() float64 { return float64(c.capacity)*(1-c.usage) - c.ownTokens }

// maxUnknownRequests is how many of our requests a backend may have of whose memory nothing is known, and still get a
// request with a limit: low priority must not pile up there.
const maxUnknownRequests = 32

// certain is the share of the memory that may be filled even if everything is longer than expected: what is above is for
// requests of a higher limit, and for what nobody foresees.
const certain = 0.92

// above reports whether c exceeds the request's limits: it is paused, its KV usage is at the limit, too many requests wait or for too
// long, or usage would exceed the limit when all its requests and this one have grown. The last rule keeps an engine from running out
// of memory, because vLLM admits any prompt that fits, and admitted requests keep growing. An idle backend takes
// whatever fits its cache.
func (c *candidate) above(n *need) bool {
	switch {
	case n.MaxUsage <= 0:
		return false
	case c.paused > 0:
		return true
	case c.usageUnknown:
		return n.MaxUsage < certain && c.ownTotal >= maxUnknownRequests
	case n.MaxQueue > 0 && c.waiting > float64(n.MaxQueue), c.filled() >= n.MaxUsage:
		return true
	case c.late(n) > 0:
		return true
	case n.hold == 0 || c.capacity == 0 || c.requests() == 0:
		return false
	}
	return c.over(n) > 0
}

// late returns by how much the prompt is expected to wait longer at c than the request allows. An engine whose seats are all
// taken has memory left and queues without bound; its prefill rate, as it is learned, tells how fast that queue moves.
func (c *candidate) late(n *need) time.Duration {
	if n.MaxDelay == 0 {
		return 0
	}
	return max(time.Duration(c.ahead()/c.prefillRate*float64(time.Second))-n.MaxDelay, 0)
}

// over returns by how many tokens c is expected to exceed the limit with the request, or to violate the reserve with the
// margin, whichever is more.
func (c *candidate) over(n *need) float64 {
	peak, limit := c.peak(n)
	return (peak - limit) * float64(c.capacity)
}

// excess returns by how many tokens c exceeds the request's limit; 0 if it does not or that is unknown.
func (c *candidate) excess(n *need) float64 {
	if c.capacity == 0 || !c.above(n) {
		return 0
	}
	return max(c.over(n), 0)
}

// peak returns the forecast usage of c with the request and its bound: the expected usage and the limit, or the usage
// with the margin and the reserve, whichever is closer. If the size is unknown it is the current usage.
func (c *candidate) peak(n *need) (peak, limit float64) {
	if c.capacity == 0 {
		return min(c.filled(), 1), n.MaxUsage
	}
	capacity := float64(c.capacity)
	expected := (c.committed() + float64(max(n.hold-c.shared, 0))) / capacity
	maximum, free := expected+c.margin/capacity, max(n.MaxUsage, certain)
	if maximum-free > expected-n.MaxUsage {
		return maximum, free
	}
	return expected, n.MaxUsage
}

// filled returns the KV usage with our own tokens; it may be above 1.
func (c *candidate) filled() float64 {
	if c.capacity == 0 {
		return c.usage
	}
	return c.usage + c.ownTokens/float64(c.capacity)
}

// committed returns the tokens that the current requests are expected to hold at the maximum.
func (c *candidate) committed() float64 {
	return c.usage*float64(c.capacity) + max(c.ownTokens, c.ownPartly) + c.othersTokens + c.growth
}

// requests returns the number of requests there, running and waiting.
func (c *candidate) requests() float64 { return c.waiting + c.running + c.ownRequests }

// uncached returns how many of the prompt's tokens must be computed.
func (c *candidate) uncached(n *need) float64 { return max(float64(n.prompt-c.cached), 0) }

// maxDisplaced bounds what a prompt pushes out, in its own lengths. Where prefixes take turns in a cache that is too small
// for them, each pushes the next out, and all of them pay: so one more is dearer where there are more than where there
// are fewer.
const maxDisplaced = 4

// displaced returns how many tokens of cached prefixes the prompt evicts.
func (c *candidate) displaced(n *need) float64 {
	if c.capacity == 0 {
		return 0
	}
	more := c.uncached(n)
	return min(max(c.placed+more-float64(c.capacity), 0), maxDisplaced*more)
}

// evicts returns how many tokens the request evicts from c's KV memory: of running requests, now or when all have grown
// as expected, or of cached prefixes. It is 0 if c may not be used or its size is unknown. The request's limit does not
// matter.
func (c *candidate) evicts(n *need) float64 {
	if !c.mayTake(n) || c.capacity == 0 {
		return 0
	}
	out := c.displaced(n)
	if !c.frees(n) {
		out = max(out, float64(n.longest)-c.free())
	}
	if n.hold > 0 {
		out = max(out, c.committed()+float64(max(n.hold-c.shared, 0))-float64(c.capacity))
	}
	return out
}
