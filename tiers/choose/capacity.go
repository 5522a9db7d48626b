package choose

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
func (c *Candidate) fitFor(request Request) fit {
	switch {
	case c.Down || c.Broken || c.Excluded || c.TooSmall(request):
		return never
	case c.Suspect:
		return risky
	case c.Above(request):
		return full
	case !c.frees(request):
		return queue
	}
	return fits
}

// frees reports whether the prompt fits in the free blocks; true if the size is unknown. vLLM allocates blocks for the
// whole prompt and none for the output.
func (c *Candidate) frees(request Request) bool {
	if c.Capacity == 0 {
		return true
	}
	block := max(c.BlockSize, 1)
	blocks := (request.longest() + block - 1) / block
	return !(float64(blocks*block) > c.free()) // so does one of which nothing is known
}

// free returns how many tokens fit in the free blocks.
func (c *Candidate) free() float64 { return float64(c.Capacity)*(1-c.Usage) - c.OwnTokens }

// Above reports whether c exceeds the request's limits: its KV usage is at the limit, too many requests wait, or usage
// would exceed the limit when all its requests and this one have grown. The last rule keeps an engine from running out
// of memory, because vLLM admits any prompt that fits, and admitted requests keep growing. An idle backend takes
// whatever fits its cache.
func (c *Candidate) Above(request Request) bool {
	switch {
	case request.MaxUsage <= 0:
		return false
	case c.UsageUnknown:
		return request.MaxUsage < certain && c.OwnTotal >= maxUnknownRequests
	case request.MaxQueue > 0 && c.Waiting > float64(request.MaxQueue), c.filled() >= request.MaxUsage:
		return true
	case request.HoldTokens == 0 || c.Capacity == 0 || c.Running+c.Waiting+c.OwnRequests == 0:
		return false
	}
	return c.over(request) > 0
}

// maxUnknownRequests is how many of our requests a backend may have of whose memory nothing is
// known, and still get a request with a limit: low priority must not pile up there.
const maxUnknownRequests = 32

// certain is the share of the memory that may be filled even if everything is longer than
// expected: what is above is for requests of a higher limit, and for what nobody foresees.
const certain = 0.92

// over returns by how many tokens c is expected to exceed the limit with the request, or to violate the reserve with the
// margin, whichever is more.
func (c *Candidate) over(request Request) float64 {
	peak, limit := c.Peak(request)
	return (peak - limit) * float64(c.Capacity)
}

// Peak returns the forecast usage of c with the request and its bound: the expected usage and the limit, or the usage
// with the margin and the reserve, whichever is closer. If the size is unknown it is the current usage.
func (c *Candidate) Peak(request Request) (peak, limit float64) {
	if c.Capacity == 0 {
		return c.Filled(), request.MaxUsage
	}
	capacity := float64(c.Capacity)
	expected := (c.committed() + float64(max(request.HoldTokens-c.Shared, 0))) / capacity
	maximum, free := expected+c.Margin/capacity, max(request.MaxUsage, certain)
	if maximum-free > expected-request.MaxUsage {
		return maximum, free
	}
	return expected, request.MaxUsage
}

// Filled returns the KV usage with our own tokens, 0..1.
func (c *Candidate) Filled() float64 { return clamp(c.filled()) }

// filled returns the KV usage with our own tokens, unbounded.
func (c *Candidate) filled() float64 {
	if c.Capacity == 0 {
		return c.Usage
	}
	return c.Usage + c.OwnTokens/float64(c.Capacity)
}

func clamp(v float64) float64 {
	if v >= 0 {
		return min(v, 1)
	}
	return 0 // negative, or not a number
}

// committed returns the tokens that the current requests are expected to hold at the maximum.
func (c *Candidate) committed() float64 {
	return c.Usage*float64(c.Capacity) + max(c.OwnTokens, c.OwnPartly) + c.OthersTokens + c.Growth
}

// uncached returns how many of the prompt's tokens must be computed.
func (c *Candidate) uncached(request Request) float64 {
	return max(float64(request.PromptTokens-c.Cached), 0)
}

// maxDisplaced bounds what a prompt pushes out, in its own lengths. Where prefixes
// take turns in a cache that is too small for them, each pushes the next out, and all
// of them pay: so one more is dearer where there are more than where there are fewer.
const maxDisplaced = 4

// displaced returns how many tokens of cached prefixes the prompt evicts.
func (c *Candidate) displaced(request Request) float64 {
	if c.Capacity == 0 {
		return 0
	}
	more := c.uncached(request)
	return min(max(c.Placed+more-float64(c.Capacity), 0), maxDisplaced*more)
}

// Over returns by how many tokens c exceeds the request's limit; 0 if it does not or that is unknown.
func (c *Candidate) Over(request Request) float64 {
	if !c.Above(request) || c.Capacity == 0 {
		return 0
	}
	return max(c.over(request), 0)
}

// TooSmall reports whether the request can never fit: its longest prompt in the cache, many answers together in half of it.
func (c *Candidate) TooSmall(request Request) bool {
	return c.Capacity > 0 && (request.longest() > c.Capacity ||
		request.Many && request.HoldTokens > c.Capacity/2)
}

// Evicts returns how many tokens the request evicts from c's KV memory: of running requests, now or when all have grown
// as expected, or of cached prefixes. It is 0 if c may not be used or its size is unknown. The request's limit does not
// matter.
func (c *Candidate) Evicts(request Request) float64 {
	if c.Down || c.Broken || c.Excluded || c.TooSmall(request) || c.Capacity == 0 {
		return 0
	}
	out := c.displaced(request)
	if !c.frees(request) {
		out = max(out, float64(request.longest())-c.free())
	}
	if request.HoldTokens > 0 {
		out = max(out, c.committed()+float64(max(request.HoldTokens-c.Shared, 0))-float64(c.Capacity))
	}
	return out
}
