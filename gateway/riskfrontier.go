package gateway

import (
	"net/http"
	"slices"
	"time"
)

// FrontierRange is an estimate with the interval around it.
type FrontierRange struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
}

// FrontierPoint is what one maximum wrong rate would give. Null means not known.
type FrontierPoint struct {
	MaxWrongRate float64       `json:"max_wrong_rate"`
	InForce      bool          `json:"in_force"`
	Certified    bool          `json:"certified"`   // the audits so far certify a threshold for it
	Share        FrontierRange `json:"share"`       // of the drafts that would be served
	Wrong        FrontierRange `json:"wrong"`       // share of these that would be wrong, at the estimated threshold
	Audits       *float64      `json:"more_audits"` // about how many more certify the estimated threshold; null: no threshold is expected to be certified
	Requests     *float64      `json:"more_requests"`
	Seconds      *float64      `json:"more_seconds"` // at the present rate of audits

	// Saved a day against the target alone, audits included; negative if drafts cost more. Null without prices or requests.
	USD *FrontierRange `json:"usd_saved_per_day"`
	// Answer tokens a day that drafts write in the place of the target; null without requests.
	Tokens *FrontierRange `json:"tokens_saved_per_day"`
}

// RiskFrontier is what each maximum wrong rate would give for one kind of request, by one label. All ranges of a kind, for
// all its labels, hold at once with probability 1 − error_probability, whichever max_wrong_rate is chosen.
type RiskFrontier struct {
	Route        string `json:"route"`
	TrafficClass string `json:"traffic_class"`
	Label        string `json:"label"`          // what makes a draft wrong
	Meaning      string `json:"label_meaning"`  // of the label, in words: a draft is good if …
	InForce      bool   `json:"label_in_force"` // it is what audits count for the guarantee
	// Settings put the label in force; none if it is.
	Settings []string `json:"label_settings"`

	MaxWrongRate     float64 `json:"max_wrong_rate"` // in force
	ErrorProbability float64 `json:"error_probability"`

	Known     bool    `json:"known"`   // false: too few audits; all ranges are 0 … 1
	Summary   string  `json:"summary"` // in one line, for people
	Audits    int     `json:"audits"`
	Lost      int     `json:"lost"` // of the audits, without an outcome; they count as bad and as good, whichever is worse
	Bad       int     `json:"bad"`
	FullRange int     `json:"full_range"`    // of the audits, of drafts with any score
	Needed    float64 `json:"audits_needed"` // about how many certify a first threshold for max_wrong_rate, if none is bad

	RequestsPerDay *float64        `json:"requests_per_day"` // at all replicas; null: none were seen
	Priced         bool            `json:"priced"`           // the prices of the route's tokens are known
	Points         []FrontierPoint `json:"points"`           // by max_wrong_rate, ascending
}

// LabelExample is one draft that two labels call differently.
type LabelExample struct {
	Request      string    `json:"request"` // id, for GET /admin/receipts
	When         time.Time `json:"when"`
	TrafficClass string    `json:"traffic_class"`
	Score        float64   `json:"score"`
	Tokens       int       `json:"tokens"`
	Served       bool      `json:"served"`
}

// LabelDisagreement counts the drafts of a route that one label calls bad and another good. One of them is in force.
type LabelDisagreement struct {
	Route    string         `json:"route"`
	Bad      string         `json:"bad"`
	Good     string         `json:"good"`
	Both     int            `json:"both"`     // drafts of which both labels are known
	Disagree int            `json:"disagree"` // of these, called bad by the one and good by the other
	Examples []LabelExample `json:"examples"` // the newest
}

// RiskFrontiers is what GET /admin/risk/frontier returns.
type RiskFrontiers struct {
	Frontiers     []RiskFrontier      `json:"frontiers"`
	Omitted       int                 `json:"omitted"` // kinds of request that are left out, because there are too many
	Disagreements []LabelDisagreement `json:"disagreements"`
}

// of returns those of a route; of all if it is "".
func (f RiskFrontiers) of(route string) RiskFrontiers {
	if route != "" {
		f.Frontiers = slices.DeleteFunc(slices.Clone(f.Frontiers), func(r RiskFrontier) bool { return r.Route != route })
		f.Disagreements = slices.DeleteFunc(slices.Clone(f.Disagreements), func(d LabelDisagreement) bool { return d.Route != route })
	}
	if f.Frontiers == nil {
		f.Frontiers = []RiskFrontier{}
	}
	if f.Disagreements == nil {
		f.Disagreements = []LabelDisagreement{}
	}
	return f
}

// riskFrontier answers GET /admin/risk/frontier?route=NAME.
func (g *Gateway) riskFrontier(w http.ResponseWriter, r *http.Request) {
	if all, route, ok := readEvidence(g, w, r, g.opts.RiskFrontiers); ok {
		writeJSON(w, all.of(route))
	}
}
