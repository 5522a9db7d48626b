package gateway

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
)

// errEvidence is the answer if audit results cannot be read.
var errEvidence = &problem{status: http.StatusServiceUnavailable, retryable: true, body: openai.ErrorBody{
	Message: "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.", Type: "server_error", Code: "evidence_away",
}}

// RiskState is the state of the guarantee for one kind of request.
type RiskState string

// The states.
const (
	RiskWarmup      RiskState = "warmup"      // the first period: nothing is certified; cautious drafts may be served
	RiskStopped     RiskState = "stopped"     // too many drafts served in the warm-up were wrong: the target answers, and audits continue
	RiskCertified   RiskState = "certified"   // drafts are served by its own threshold
	RiskUncertified RiskState = "uncertified" // not enough audits yet: the target answers
	RiskLearning    RiskState = "learning"    // scores are collected to choose the thresholds: the target answers
	RiskInfeasible  RiskState = "infeasible"  // audits show that no threshold keeps the guarantee: the target answers
)

// WarmupView is the first period of a kind of request, in which drafts may be served before anything is
// certified.
type WarmupView struct {
	Serves bool   `json:"serves"` // the warm-up runs, and drafts above a cautious threshold are served
	Ended  string `json:"ended"`  // why it is over: certified, infeasible, wrong (too many of the drafts served) or time (one hour); "" while it goes on

	Drafts      int     `json:"drafts"`       // made during the warm-up
	Served      int     `json:"served"`       // of these, served unverified
	Audits      int     `json:"audits"`       // completed audits of drafts that were served, or would have been
	Bad         int     `json:"bad"`          // of the audits
	WrongRate   float64 `json:"wrong_rate"`   // bad ÷ audits; 0 without audits
	Low         float64 `json:"wrong_lower"`  // interval that contains the rate at all times, with probability 1 − delta
	High        float64 `json:"wrong_upper"`  //
	SecondsLeft float64 `json:"seconds_left"` // of the hour that a warm-up lasts at most; 0 when it is over

	DraftsPerMinute *float64 `json:"drafts_per_minute"` // at all replicas, since its start; null if not known, and when it is over
}

// RiskView is the evidence about one kind of request, as GET /admin/risk returns it: the guarantee,
// whether it is kept, and the number of audits behind it. Shares are 0 … 1. Null means not known or not
// applicable.
type RiskView struct {
	Route        string    `json:"route"`
	TrafficClass string    `json:"traffic_class"`
	State        RiskState `json:"state"`

	MaxWrongRate     float64 `json:"max_wrong_rate"`    // guarantee: the target would have refused at most this share of the served drafts …
	ErrorProbability float64 `json:"error_probability"` // … except with this probability

	OperatingIndex int      `json:"operating_index"` // number of certified thresholds, from the strictest; 0: nothing is served
	Threshold      *float64 `json:"threshold_nats"`  // null while nothing is served
	Acceptance     float64  `json:"expected_acceptance"`

	// At the operating index (or the strictest threshold if there is none), in the current epoch.
	Audits   int     `json:"audits"` // completed
	Bad      int     `json:"bad"`
	Pending  int     `json:"pending"` // not completed; they count as bad
	Estimate float64 `json:"risk_estimate"`
	Lower    float64 `json:"risk_lower"` // interval that contains the risk at all times, with probability 1 − delta
	Upper    float64 `json:"risk_upper"`
	Bound    float64 `json:"risk_bound"` // the risk is proven to be below this, with probability 1 − delta/2

	AuditsToCertify  *float64 `json:"audits_to_certify"`  // estimated number for the next threshold; null: out of reach
	AuditsPerMinute  *float64 `json:"audits_per_minute"`  // recent rate of those that count for it, at all replicas
	SecondsToCertify *float64 `json:"seconds_to_certify"` // until the first threshold, at the present rate; null once there is one

	DriftLevel    float64 `json:"drift_level"` // 1 is the alarm, which revokes all certificates
	DriftWarned   bool    `json:"drift_warned"`
	DriftAlarms   int64   `json:"drift_alarms"`
	ScoresLearned int     `json:"scores_learned"` // of ScoresWanted
	ScoresWanted  int     `json:"scores_wanted"`  // 0 once the thresholds are chosen

	Warmup *WarmupView `json:"warmup"` // null if there was none: before the first draft
}

// RefitView is the candidate for the score of a route, as GET /admin/risk returns it: a score that was fitted to audits in
// the background, and judges drafts once audits have certified it.
type RefitView struct {
	Route   string `json:"route"`
	Version int    `json:"version"` // of the candidate
	Audits  int    `json:"audits"`  // its evidence
	Summary string `json:"summary"` // the state in one line, for people
}

// RiskSummary is the state of a route's guarantee in one line of GET /admin/status.
type RiskSummary struct {
	Route            string  `json:"route"`
	MaxWrongRate     float64 `json:"max_wrong_rate"`
	ErrorProbability float64 `json:"error_probability"`
	Classes          int     `json:"classes"`    // kinds of request, each with its own evidence
	Certified        int     `json:"certified"`  // of these, with a threshold of their own
	Infeasible       int     `json:"infeasible"` // for which audits show that no threshold keeps the guarantee
	Warned           int     `json:"warned"`     // with a suspected drift

	Main *RiskView `json:"main"` // the kind with the most drafts and audits, of those in use; null if there is none
}

// RiskSummaries summarizes the views by route, in the order of the views. [RiskSummary.Main] is nil.
func RiskSummaries(views []RiskView) []RiskSummary {
	var lines []RiskSummary
	for i := range views {
		v := &views[i]
		if len(lines) == 0 || lines[len(lines)-1].Route != v.Route {
			lines = append(lines, RiskSummary{Route: v.Route, MaxWrongRate: v.MaxWrongRate, ErrorProbability: v.ErrorProbability})
		}
		l := &lines[len(lines)-1]
		l.Classes++
		switch v.State {
		case RiskCertified:
			l.Certified++
		case RiskInfeasible:
			l.Infeasible++
		}
		if v.DriftWarned {
			l.Warned++
		}
	}
	return lines
}

// riskRoutes are the routes of audit results. A gateway without Options.Risk has none.
func (g *Gateway) riskRoutes(r chi.Router) {
	if g.opts.Risk != nil {
		r.Get("/admin/risk", g.risk)
	}
	if g.opts.RiskFrontiers != nil {
		r.Get("/admin/risk/frontier", g.riskFrontier)
	}
}

// risk answers GET /admin/risk?route=NAME.
func (g *Gateway) risk(w http.ResponseWriter, r *http.Request) {
	all, route, ok := readEvidence(g, w, r, g.opts.Risk)
	if !ok {
		return
	}
	views := []RiskView{}
	for i := range all {
		if route == "" || all[i].Route == route {
			views = append(views, all[i])
		}
	}
	writeJSON(w, map[string]any{"risk": views, "refits": g.refits(route)})
}

// readEvidence returns what read says, and the route that the request names, "" for all. If it cannot, it has answered the
// request and ok is false.
func readEvidence[T any](g *Gateway, w http.ResponseWriter, r *http.Request, read func(context.Context) (T, error)) (all T, route string, ok bool) {
	route, err := g.routeParam(r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return all, "", false
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	if all, err = read(ctx); err != nil {
		g.log.Warn().Str("error", clipTo(err.Error(), maxDetail)).Msg("what audits have shown could not be read")
		writeProblem(w, errEvidence)
		return all, "", false
	}
	return all, route, true
}

// refits are the candidates of a route, or of all where it is "".
func (g *Gateway) refits(route string) []RefitView {
	views := []RefitView{}
	if g.opts.Refits == nil {
		return views
	}
	for _, v := range g.opts.Refits() {
		if route == "" || v.Route == route {
			views = append(views, v)
		}
	}
	return views
}
