package choose

// Policies of choosing. Fit is the one to use; round robin is the baseline that it is
// compared with.
const (
	PolicyFit        = "fit"         // where it is warm and fits, with the least expected wait
	PolicyRoundRobin = "round_robin" // each in turn
)

// Request describes a request that needs a backend.
type Request struct {
	PromptTokens  int  // estimated or counted, of all prompts
	LongestPrompt int  // the same of the longest one; 0: PromptTokens
	OutputTokens  int  // expected of one answer
	HasHome       bool // the prompt has a home: among equals the greatest Home wins, not the turn

	// Limits for backends that are short of memory; see [Candidate.Above].
	MaxUsage   float64 // largest KV usage, 0..1; 0: no limit
	HoldTokens int     // tokens that it will hold at its end: prompts and expected output; 0: only current usage counts
	HoldOne    int     // the same of its longest prompt and one answer to it
	Many       bool    // it asks for many answers, and could ask for fewer: it never gets more than half of a backend
	MaxQueue   int     // requests that may wait there; 0: no limit

	// WaitForCapacity says that the request can wait until the backend where it is warm has
	// room, although another has some; Waited is how long it has done so, in seconds.
	WaitForCapacity bool
	WaitedSeconds   float64
}

// longest returns the tokens that must fit at once: engines take prompts one after the other.
func (r *Request) longest() int {
	if r.LongestPrompt > 0 {
		return r.LongestPrompt
	}
	return max(r.PromptTokens, 0)
}

// Candidate is one backend as Choose sees it: values only. "Own" means this replica's requests that the reading cannot
// include yet.
type Candidate struct {
	Down     bool    // refused a connection, or drains
	Broken   bool    // its breaker is open
	Excluded bool    // it was tried before
	Suspect  bool    // it seems to hang: used only if no other is left
	Ramp     float64 // slow start, 0..1: bounds its share; 0 and 1: no bound

	Usage     float64 // KV usage, aged; the pool's mean where unknown; 0..1
	Capacity  int     // tokens the KV cache holds; 0 is unknown
	BlockSize int     // tokens per KV block; 0 is unknown

	Waiting    float64 // requests queued there, reported
	Running    float64 // requests running there, reported
	MeanPrompt float64 // prompt tokens that a queued request is assumed to bring

	OwnRequests  float64 // own requests
	OwnQueued    float64 // prompt tokens of those whose prefill has not finished
	OwnTokens    float64 // tokens that they hold in the KV cache
	OwnPartly    float64 // tokens of own prompts not computed yet; engines allocate blocks step by step, so a reading may include a part
	OthersTokens float64 // estimated tokens of other replicas' requests that the reading does not include

	UsageUnknown bool    // Usage is unknown: no limit applies
	OwnTotal     float64 // all own requests, also those in the reading
	Growth       float64 // expected further growth of the running requests at the maximum, in tokens
	Margin       float64 // safety margin on Growth
	Shared       int     // prompt tokens of this request that another one already holds

	// OwnPrefill is the prompt tokens of all own requests with unfinished prefill, also those that the reading counts
	// as running: a reading does not tell how much of a prompt is computed.
	OwnPrefill float64

	Cached int     // prompt tokens expected in this backend's prefix cache
	Placed float64 // tokens of all prefixes that are expected in the cache, including Cached
	Main   bool    // of the backends with the prefix cached, the one that all replicas prefer
	Home   uint64  // rendezvous hash of prompt and backend: the greatest is the prompt's home

	FaultShare  float64 // share of own recent calls that failed, 0..1
	PrefillRate float64 // prompt tokens per second
	DecodeRate  float64 // tokens per second of one request
}
