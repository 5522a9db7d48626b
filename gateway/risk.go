package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/risk"
)

// Risk tells what audits have shown. It is safe for concurrent use; errors are those of Redis.
type Risk interface {
	// Summaries are the results of audits, by traffic class.
	Summaries(ctx context.Context) ([]risk.Summary, error)
	// Frontiers are what each bound would give.
	Frontiers(ctx context.Context) (RiskFrontiers, error)
	// Refits are the candidates for the scores of routes. It does not block.
	Refits() []RefitView
}

// errEvidence is the answer if audit results cannot be read.
var errEvidence = refuse("evidence_away", "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.")

// RefitView is the candidate for the score of a route, as GET /admin/risk returns it: a score that was fitted to audits in
// the background, and judges drafts once audits have certified it.
type RefitView struct {
	Route   string `json:"route"`
	Version int    `json:"version"` // of the candidate
	Audits  int    `json:"audits"`  // its evidence
}

// RiskAnswer is what GET /admin/risk returns.
type RiskAnswer struct {
	Risk   []risk.Summary `json:"risk"`
	Refits []RefitView    `json:"refits"`
}

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

// riskRoutes are the routes of audit results.
func (g *Gateway) riskRoutes(r chi.Router) {
	r.Get("/admin/risk", forOperators(g.risk))
	r.Get("/admin/risk/frontier", forOperators(g.riskFrontier))
}

// risk answers GET /admin/risk?route=NAME.
func (g *Gateway) risk(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Risk.Summaries)
	if err != nil {
		return nil, err
	}
	other := func(of string) bool { return route != "" && of != route }
	return RiskAnswer{ // none is [], not null
		Risk:   append([]risk.Summary{}, slices.DeleteFunc(slices.Clone(all), func(s risk.Summary) bool { return other(s.Route) })...),
		Refits: append([]RefitView{}, slices.DeleteFunc(slices.Clone(g.opts.Risk.Refits()), func(v RefitView) bool { return other(v.Route) })...),
	}, nil
}

// riskFrontier answers GET /admin/risk/frontier?route=NAME.
func (g *Gateway) riskFrontier(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Risk.Frontiers)
	if err != nil {
		return nil, err
	}
	return all.of(route), nil
}

// readEvidence returns what read says, and the route that the request names, "" for all.
func readEvidence[T any](g *Gateway, r *http.Request, read func(context.Context) (T, error)) (all T, route string, err error) {
	if route, err = g.routeParam(r); err != nil {
		return all, "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	if all, err = read(ctx); err != nil {
		g.log.Warn().Str("error", clipTo(err.Error(), maxDetail)).Msg("what audits have shown could not be read")
		return all, "", errEvidence
	}
	return all, route, nil
}
