package pool

// Policies of choosing.
const (
	PolicyFit           = "fit"
	PolicyRoundRobin    = "round_robin"
	PolicyLeastRequests = "least_requests"
	PolicyP2C           = "p2c"
)

// Config is what an operator may tune of choosing, live.
type Config struct {
	Policy string  // one of the Policy constants (default "fit"); an unknown one is "fit"
	Lambda float64 // seconds per 1,000 prompt tokens at half-full KV cache (default 0.05)
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config { return Config{Policy: PolicyFit, Lambda: 0.05} }

// Candidate is one backend as Choose sees it: values only.
type Candidate struct{}

// Choose returns the index of the candidate to use, −1 when none may be.
func Choose(cfg Config, cands []Candidate, need Demand, turn uint64) int { return -1 }
