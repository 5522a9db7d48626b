package gateway

// EngineView is what a pool's engines can do, as a probe found out.
type EngineView struct {
	Pool    string  `json:"pool"`
	Backend string  `json:"backend,omitempty"` // that was asked
	Age     float64 `json:"age_seconds"`       // since; −1 where it was not probed yet

	Scoring       string  `json:"scoring"`        // how it scores a text, "" is not at all
	PrefixReuse   bool    `json:"prefix_reuse"`   // and does not compute the prompt anew each time
	Continues     bool    `json:"continues"`      // it goes on from token ids
	SelfAgreement float64 `json:"self_agreement"` // of its own greedy answer, to which it agrees when it scores it

	Missing       []UnavailableView `json:"missing"`
	Failed        string            `json:"failed,omitempty"`         // why the last probe brought nothing
	ScoringClosed string            `json:"scoring_closed,omitempty"` // why nothing is scored there now
	SecondsLeft   float64           `json:"seconds_left,omitempty"`   // until it is tried again
}

// UnavailableView is something that an engine lacks, and how one knows; or a mode that a route's
// engines do not allow, and why.
type UnavailableView struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// DraftView is how a route uses its draft pool.
type DraftView struct {
	Route            string            `json:"route"`
	Mode             string            `json:"mode"`
	UnavailableModes []UnavailableView `json:"unavailable_modes"` // modes that the engines do not allow
	Note             string            `json:"note,omitempty"`
	BreakEven        float64           `json:"break_even_acceptance,omitempty"` // for a usual request; 0 is unknown
	Drafts           float64           `json:"drafts"`                          // late ones, old ones counting less
	Accepted         float64           `json:"accepted"`                        // share of them that was served
}
