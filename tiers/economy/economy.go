// Package economy decides whether a draft is expected to save cost. It is arithmetic over prices and cost statistics of
// similar requests, without clock or network. Start at [Decide] for one request, [EstimateCost] for its terms, and
// [Statistics] for what is learned. A draft is dropped only if the statistics are sure (upper confidence bound), and
// never because of an unknown price. The formulas are in docs/science.md, "Cost model".
package economy

// Prices are the costs of a token on a busy pool in USD. Zero is unknown. Receipts show them, and estimates, as they are.
type Prices struct {
	DraftPrefill  float64 `json:"draft_prefill"`
	DraftDecode   float64 `json:"draft_decode"`
	TargetPrefill float64 `json:"target_prefill"`
	TargetDecode  float64 `json:"target_decode"`
}

// Complete reports whether all four prices are known.
func (p Prices) Complete() bool {
	return p.DraftPrefill > 0 && p.DraftDecode > 0 && p.TargetPrefill > 0 && p.TargetDecode > 0
}

// Target returns the price of the target's tokens.
func (p Prices) Target() TokenPrice {
	return TokenPrice{Input: p.TargetPrefill, Output: p.TargetDecode}
}

// Draft returns the price of the draft's tokens.
func (p Prices) Draft() TokenPrice { return TokenPrice{Input: p.DraftPrefill, Output: p.DraftDecode} }

// Shape is what is known of a request before it is drafted.
type Shape struct {
	Prompt    int // tokens, counted or estimated
	Cached    Cached
	MaxOutput int  // tokens that the answer may have; 0 is unbounded
	Holdback  int  // tokens held back before the decision
	Whole     bool // nothing is released before the whole draft was judged
	Scored    bool // the target scores every draft as a whole
}

// Cached is how much of a prompt the pools have computed before, in tokens: that costs nothing again.
type Cached struct{ Draft, Target int }

// Expectation is what was learned of a traffic class.
type Expectation struct {
	Samples    float64 // number of drafts, with exponential decay
	Acceptance float64 // share of drafts that were served, 0..1
	UpperBound float64 // upper 90 % confidence bound of Acceptance
	Prompt     float64 // tokens of a prompt
	Output     float64 // tokens of an answer
	Holdback   float64 // draft tokens until the decision, for drafts that were not served
	Salvaged   float64 // share of a rejected draft's tokens that went into the answer
}

// Estimate is the cost estimate of one decision, as receipts show it.
type Estimate struct {
	Prompt     float64 `json:"prompt_tokens"` // tokens
	Output     float64 `json:"output_tokens"`
	Holdback   float64 `json:"holdback_tokens"`
	Acceptance float64 `json:"acceptance"` // the acceptance used: the upper bound
	Samples    float64 `json:"samples"`
	TargetUSD  float64 `json:"target_usd"` // of asking the target alone
	DraftUSD   float64 `json:"draft_usd"`  // expected of asking the draft first
	BreakEven  float64 `json:"break_even"` // least acceptance at which drafts save cost; above 1: never
	Explored   bool    `json:"explored"`   // drafted to learn, although no saving is expected
}

// SavingUSD returns the expected saving by a draft, negative if it costs more.
func (e Estimate) SavingUSD() float64 { return e.TargetUSD - e.DraftUSD }
