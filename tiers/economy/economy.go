// Package economy says whether a draft is expected to pay. It is arithmetic over
// prices and over what was learned of requests of the same kind; it knows neither
// clock nor network. Start at [Decide] for one request, [EstimateCost] for its sums, and [Statistics]
// for what is learned. A request is kept
// from the draft only where the guard is sure: by the upper bound of what was learned,
// and never by a price that is unknown.
package economy

import "time"

// Prices are what a token costs a busy pool, in USD. A zero is unknown.
type Prices struct {
	DraftPrefill, DraftDecode   float64
	TargetPrefill, TargetDecode float64
}

// Known reports whether all four prices are.
func (p Prices) Known() bool {
	return p.DraftPrefill > 0 && p.DraftDecode > 0 && p.TargetPrefill > 0 && p.TargetDecode > 0
}

// Shape is what is known of a request before it is drafted.
type Shape struct {
	Prompt    int  // tokens, counted or estimated
	MaxOutput int  // tokens that the answer may have; 0 is unbounded
	Held      int  // tokens held back before the decision
	Whole     bool // nothing is released before the whole draft was judged
	Scored    bool // every draft is scored by the target
}

// Expectation is what was learned of a bucket: requests of one kind on one route.
type Expectation struct {
	Samples    float64       // drafts that it rests on, old ones counting less
	Acceptance float64       // share of drafts that were served, 0..1
	UpperBound float64       // upper 90 % bound of it
	Prompt     float64       // tokens of a prompt
	Output     float64       // tokens of an answer
	Held       float64       // draft tokens that were made until the decision, of drafts that were not served
	Salvaged   float64       // share of a rejected draft's tokens that went into the answer
	ExtraTTFT  time.Duration // by how much later the first byte came than it would have from the target
}

// Estimate is the arithmetic of one decision, as receipts show it.
type Estimate struct {
	Prompt, Output, Held float64 // tokens
	Acceptance           float64 // the one that was reckoned with: the upper bound
	Samples              float64
	TargetUSD            float64 // of asking the target alone
	DraftUSD             float64 // expected of asking the draft first
	BreakEven            float64 // acceptance from which on drafts pay; above 1 they never do
	ExtraTTFT            time.Duration
	Explored             bool // drafted though it is not expected to pay, to learn
}

// SavingUSD is what a draft is expected to save, negative where it costs more.
func (s Estimate) SavingUSD() float64 { return s.TargetUSD - s.DraftUSD }
