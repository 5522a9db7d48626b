package gateway

import (
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/risk"
)

// FrontierThreshold is what audits show of one threshold, of mode risk or confidence.
type FrontierThreshold struct {
	Threshold    float64    `json:"threshold_nats"`
	Share        risk.Range `json:"share"`        // of the drafts that it would serve
	Disagreement risk.Range `json:"disagreement"` // share of these that the target would disagree with
}

// FrontierPoint is what one maximum disagreement would give. Null means not known.
type FrontierPoint struct {
	MaxDisagreement float64    `json:"max_disagreement"`
	InForce         bool       `json:"in_force"`
	Certified       bool       `json:"certified"`    // the audits so far certify a threshold for it
	Share           risk.Range `json:"share"`        // of the drafts that would be served
	Disagreement    risk.Range `json:"disagreement"` // share of these that the target would disagree with, at the estimated threshold
	Audits          *float64   `json:"more_audits"`  // about how many more certify the estimated threshold; null: no threshold is expected to be certified
	Seconds         *float64   `json:"more_seconds"` // at the present rate of audits

	// Saved a day against the target alone, audits included; negative if drafts cost more. Null without prices or requests.
	USD *risk.Range `json:"usd_saved_per_day"`
	// Answer tokens a day that drafts write in the place of the target; null without requests.
	Tokens *risk.Range `json:"tokens_saved_per_day"`
}

// RiskFrontier is what each maximum of disagreement would give for one kind of request, by the label in force. All its ranges
// hold at once with probability 1 − error_probability, whichever max_disagreement is chosen.
type RiskFrontier struct {
	Route        string `json:"route"`
	TrafficClass string `json:"traffic_class"`
	Label        string `json:"label"` // what counts as disagreement (risk.label)

	MaxDisagreement  float64 `json:"max_disagreement"` // in force
	ErrorProbability float64 `json:"error_probability"`

	Known     bool    `json:"known"` // false: too few audits; all ranges are 0 … 1
	Audits    int     `json:"audits"`
	Lost      int     `json:"lost"` // of the audits, without an outcome; they count as bad and as good, whichever is worse
	Bad       int     `json:"bad"`
	FullRange int     `json:"full_range"`    // of the audits, of drafts with any score
	Needed    float64 `json:"audits_needed"` // about how many certify a first threshold for max_disagreement, if none is bad

	RequestsPerDay *float64            `json:"requests_per_day"` // at all replicas; null: none were seen
	Priced         bool                `json:"priced"`           // the prices of the route's tokens are known
	Points         []FrontierPoint     `json:"points"`           // by max_disagreement, ascending
	Thresholds     []FrontierThreshold `json:"thresholds"`       // from the strictest
}

// RiskFrontiers is what GET /admin/risk/frontier returns.
type RiskFrontiers struct {
	Frontiers []RiskFrontier `json:"frontiers"`
	Omitted   int            `json:"omitted"` // kinds of request that are left out, because there are too many
}

// of returns those of a route; of all if it is "".
func (f RiskFrontiers) of(route string) RiskFrontiers {
	if route != "" {
		f.Frontiers = slices.DeleteFunc(slices.Clone(f.Frontiers), func(r RiskFrontier) bool { return r.Route != route })
	}
	if f.Frontiers == nil {
		f.Frontiers = []RiskFrontier{}
	}
	return f
}

// riskFrontier answers GET /admin/risk/frontier?route=NAME.
func (g *Gateway) riskFrontier(w http.ResponseWriter, r *http.Request) {
	if all, route, ok := readEvidence(g, w, r, g.opts.RiskFrontiers); ok {
		writeJSON(w, all.of(route))
	}
}
