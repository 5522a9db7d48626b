package gateway

// EngineView shows the capabilities of a pool's engines, as the last probe found them.
type EngineView struct {
	Pool    string  `json:"pool"`
	Backend string  `json:"backend,omitempty"` // that was probed
	Age     float64 `json:"age_seconds"`       // since the probe; −1: not probed yet

	Scoring   string `json:"scoring"`   // how it scores a text, "" is not at all
	Continues bool   `json:"continues"` // it continues from token ids
	// ContinuesText is what it answers that is asked to continue the text of a chat's answer: "continues" with the rest,
	// "repeats" the text first, "no", or "" while it is not known.
	ContinuesText string `json:"continues_text"`

	Missing       []UnavailableView `json:"missing"`
	Asked         []string          `json:"asked,omitempty"`          // questions that were answered
	Open          []string          `json:"open,omitempty"`           // those that were not yet, or will be asked again
	NextTry       float64           `json:"next_try_seconds"`         // until one of them is asked
	Shared        bool              `json:"shared,omitempty"`         // another replica asks, this one takes over what it finds out
	Failed        string            `json:"failed,omitempty"`         // why the last question brought nothing
	ScoringClosed string            `json:"scoring_closed,omitempty"` // why scoring is paused there
	SecondsLeft   float64           `json:"seconds_left,omitempty"`   // until scoring is tried again
}

// UnavailableView is a capability that an engine lacks, with the observation that shows it; or a mode that a route's engines
// do not allow, with the reason.
type UnavailableView struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// DraftView shows how a route uses its draft pool.
type DraftView struct {
	Route            string            `json:"route"`
	Mode             string            `json:"mode"`
	UnavailableModes []UnavailableView `json:"unavailable_modes"`               // modes that the engines do not allow
	BreakEven        float64           `json:"break_even_acceptance,omitempty"` // acceptance at which drafts pay, typically; 0: unknown
	Drafts           float64           `json:"drafts"`                          // recent drafts, weighted by age
	Accepted         float64           `json:"accepted"`                        // share of them that was served
}
