package choose

// Policies of choosing. Fit is the one to use; the others are baselines that it is
// compared with. The lab has more of them, each a [Policy].
const (
	PolicyFit           = "fit"            // where it is warm and fits, with the least expected wait
	PolicyRoundRobin    = "round_robin"    // each in turn
	PolicyLeastRequests = "least_requests" // fewest requests running and waiting
)

// Config is what an operator may tune of choosing, live.
type Config struct {
	Policy string // one of the Policy constants (default "fit"); an unknown one is "fit"

	// KVUsageWeight is the price of a full KV cache: seconds per 1,000 prompt tokens at
	// k/(1−k) = 1, which is a half-full cache (default 0.05; 0 is no price). It
	// grows with the prompt, so that large prompts look for room and small ones
	// pack.
	KVUsageWeight float64

	// MaxLoadRatio is how busy a backend may be, as a multiple of the pool's mean, while it
	// still gets every request that is warm there (default 1.25; below 1 is 1).
	// Above it the expected wait decides.
	MaxLoadRatio float64
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{Policy: PolicyFit, KVUsageWeight: 0.05, MaxLoadRatio: 1.25}
}

// Request is what a request asks of a backend.
type Request struct {
	PromptTokens int  // estimated or counted
	OutputTokens int  // expected
	HasHome      bool // the prompt has a home: between equals the greatest Home decides, not the turn

	// What the request may ask of a backend that is short of memory; see
	// [Candidate.Above].
	MaxUsage   float64 // share of the KV cache that it may fill, 0..1; 0 is no limit
	HoldTokens int     // tokens that it will fill the cache with in the end: prompt and expected output; 0: only what is in use now counts
	MaxQueue   int     // requests that may wait there; 0 is any number

	// WaitForCapacity says that the request can wait until the backend where it is warm has
	// room, although another has some; Waited is how long it has done so, in seconds.
	WaitForCapacity bool
	WaitedSeconds   float64
}

// Candidate is one backend as Choose sees it: values only. "Own" are this
// replica's requests that the reading cannot include yet.
type Candidate struct {
	Down     bool    // refused a connection, or drains
	Broken   bool    // its breaker is open
	Excluded bool    // tried already
	Suspect  bool    // seems to hang: only where nobody else is left
	Ramp     float64 // how far it is after a start, 0..1: bounds its share; 0 and 1 are no bound

	Usage     float64 // KV usage, aged; the pool's mean where unknown; 0..1
	Capacity  int     // tokens the KV cache holds; 0 is unknown
	BlockSize int     // tokens per KV block; 0 is unknown

	Waiting    float64 // requests queued there, reported
	Running    float64 // requests running there, reported
	MeanPrompt float64 // prompt tokens that a queued request is assumed to bring

	OwnRequests float64 // own requests
	OwnQueued   float64 // prompt tokens of those whose prefill has not finished
	OwnHeld     float64 // tokens with which they fill the KV cache
	OwnPartly   float64 // tokens of own prompts that are not computed yet: an engine takes blocks as it goes, so that a reading may include a part of them
	OthersHeld  float64 // what other replicas' requests hold or are about to, beyond the reading, as far as one can guess

	UsageUnknown bool    // Usage says nothing: no limit holds here
	OwnTotal     float64 // all of our requests there
	Growth       float64 // tokens by which the requests there are expected to fill the cache further, at the worst moment
	Margin       float64 // by how much more than expected that may be
	Shared       int     // prompt tokens of this request that another one there holds already

	// OwnPrefill is the prompt tokens of all of this replica's requests there whose
	// prefill has not finished, those that the reading calls running among them: of
	// a prompt that is being computed a reading tells nothing but that it runs.
	OwnPrefill float64

	Cached int     // prompt tokens expected in this backend's prefix cache
	Placed float64 // tokens of all prefixes that are expected there, this prompt's among them where Cached
	Main   bool    // of the backends where it is warm, the one that all replicas keep to
	Home   uint64  // how near home the prompt is here: the greatest is its home

	FaultShare  float64 // share of this replica's late calls there that failed, 0..1
	PrefillRate float64 // prompt tokens per second
	DecodeRate  float64 // tokens per second of one request
}
