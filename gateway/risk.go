package gateway

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
)

// errEvidence answers where what audits have shown cannot be read.
var errEvidence = &problem{status: http.StatusServiceUnavailable, retryable: true, body: openai.ErrorBody{
	Message: "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.", Type: "server_error", Code: "evidence_away",
}}

// RiskState is a word for how the promise of one kind of request stands.
type RiskState string

// The states.
const (
	RiskWarmup      RiskState = "warmup"      // its first time: nothing is certified, and drafts above a cautious threshold are served where settings say so
	RiskStopped     RiskState = "stopped"     // too many of the drafts that its warm-up served were wrong: the target answers, and audits go on
	RiskCertified   RiskState = "certified"   // drafts are served by a threshold of its own
	RiskInherits    RiskState = "inherits"    // it has none, and goes by that of the whole route
	RiskUncertified RiskState = "uncertified" // audits do not suffice yet: the target answers
	RiskLearning    RiskState = "learning"    // scores are collected to place the thresholds by: the target answers
	RiskInfeasible  RiskState = "infeasible"  // audits say that no threshold keeps the promise: the target answers
)

// WarmupView is the first time of a kind of request, in which drafts may be served before anything is certified.
type WarmupView struct {
	Serves bool   `json:"serves"` // it goes on, and drafts above a cautious threshold are answers
	Ended  string `json:"ended"`  // why it is over: certified, infeasible, wrong (too many of the drafts served) or time (risk.warmup_duration); "" while it goes on

	Drafts      int     `json:"drafts"`       // that were made for requests in it
	Served      int     `json:"served"`       // of these, that were the answer, unverified
	Audits      int     `json:"audits"`       // of those served, that have an outcome; also of some that would have been served
	Bad         int     `json:"bad"`          // of the audits
	WrongRate   float64 `json:"wrong_rate"`   // bad ÷ audits; 0 of no audits
	Low         float64 `json:"wrong_lower"`  // interval that holds the share at every moment, with probability 1 − delta
	High        float64 `json:"wrong_upper"`  //
	SecondsLeft float64 `json:"seconds_left"` // of risk.warmup_duration; 0 when it is over

	DraftsPerMinute *float64 `json:"drafts_per_minute"` // at all replicas, since it began; null while that is not known, and when it is over
}

// RiskAdvice is what audits say of a kind of request that is infeasible.
type RiskAdvice struct {
	Audits   int     `json:"audits"` // of the strictest threshold
	Bad      int     `json:"bad"`
	Estimate float64 `json:"risk_estimate"`
	Low      float64 `json:"risk_lower"` // interval that holds the risk at every moment, with probability 1 − delta
	High     float64 `json:"risk_upper"`

	// The smallest eps, in steps of 0.01, at which the strictest threshold looks feasible, if the risk is the estimate, and the
	// same for both ends of the interval. Null where none up to 0.5 does.
	FeasibleMaxWrongRate *float64 `json:"feasible_max_wrong_rate"`
	FeasibleLower        *float64 `json:"feasible_max_wrong_rate_lower"`
	FeasibleUpper        *float64 `json:"feasible_max_wrong_rate_upper"`
}

// RiskView is what is known of one kind of request and cohort of it, as GET /admin/risk tells it: what is
// promised, whether it is kept, and on how many audits that rests. Shares are 0 … 1. What is null
// is not known, or there is none.
type RiskView struct {
	Route        string    `json:"route"`
	TrafficClass string    `json:"traffic_class"` // kind of request: length class, _t0 at temperature 0, and fingerprint of models and rules
	Cohort       string    `json:"cohort"`        // conf: accepted on the draft's own score; head: because the target stood by its first tokens
	State        RiskState `json:"state"`
	Summary      string    `json:"summary"` // the state in one line, for people: what was served, what audits say of it, what to do, and how long the rest takes

	MaxWrongRate     float64 `json:"max_wrong_rate"`    // promised: of the drafts served, the share that the target would have refused is at most that …
	ErrorProbability float64 `json:"error_probability"` // … except with this probability

	OperatingIndex int      `json:"operating_index"` // how many thresholds are certified, the strictest first; 0: nothing is served
	Threshold      *float64 `json:"threshold_nats"`  // null while nothing is served
	Acceptance     float64  `json:"expected_acceptance"`

	// Of the operating index, or of the strictest where there is none, in the living epoch that
	// certified it.
	Audits   int     `json:"audits"` // that have an outcome
	Bad      int     `json:"bad"`
	Pending  int     `json:"pending"` // audits that have none yet; they count as bad
	Estimate float64 `json:"risk_estimate"`
	Lower    float64 `json:"risk_lower"` // interval that holds the risk at every moment, with probability 1 − delta
	Upper    float64 `json:"risk_upper"`
	Bound    float64 `json:"risk_bound"` // the risk is proven to be below this, with probability 1 − delta/2

	AuditsToCertify  *float64 `json:"audits_to_certify"`  // that are needed for the next threshold, about; null: it seems out of reach
	AuditsPerMinute  *float64 `json:"audits_per_minute"`  // of those that count for it, of late, at all replicas
	SecondsToCertify *float64 `json:"seconds_to_certify"` // until the first threshold, at that pace or that of the drafts of the warm-up; null once there is one

	DriftLevel    float64 `json:"drift_level"` // 1 is the alarm, which takes all certificates back
	DriftWarned   bool    `json:"drift_warned"`
	DriftAlarms   int64   `json:"drift_alarms"`
	ScoresLearned int     `json:"scores_learned"` // of those wanted
	ScoresWanted  int     `json:"scores_wanted"`  // 0 once the thresholds are placed

	Warmup *WarmupView `json:"warmup"` // null where there was none: of the kinds that are heads or whole routes, and before the first draft
	Advice *RiskAdvice `json:"advice"` // null unless it is infeasible
}

// RiskSummary is how a route's promise stands, in one line of GET /admin/status.
type RiskSummary struct {
	Route            string  `json:"route"`
	MaxWrongRate     float64 `json:"max_wrong_rate"`
	ErrorProbability float64 `json:"error_probability"`
	Classes          int     `json:"classes"`    // of request, each lot by itself
	Certified        int     `json:"certified"`  // of these, with a threshold of their own
	Inherited        int     `json:"inherited"`  // that go by the one of the whole route
	Infeasible       int     `json:"infeasible"` // of which audits say that no threshold keeps the promise
	Warned           int     `json:"warned"`     // of which a drift is suspected

	Main *RiskView `json:"main"` // the kind with most drafts and audits, of those that are in use; null where there is none
}

// RiskSummaries are the views of each route in one line, by route in the order of the views. [RiskSummary.Main] is left out.
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
		case RiskInherits:
			l.Inherited++
		case RiskInfeasible:
			l.Infeasible++
		}
		if v.DriftWarned {
			l.Warned++
		}
	}
	return lines
}

// riskRoutes tell what audits have shown. A gateway without Options.Risk has none.
func (g *Gateway) riskRoutes(r chi.Router) {
	if g.opts.Risk != nil {
		r.Get("/admin/risk", g.risk)
	}
}

// risk answers GET /admin/risk?route=NAME.
func (g *Gateway) risk(w http.ResponseWriter, r *http.Request) {
	route, err := g.routeParam(r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	all, err := g.opts.Risk(ctx)
	if err != nil {
		g.log.Warn().Str("error", clipTo(err.Error(), maxDetail)).Msg("what audits have shown could not be read")
		writeProblem(w, errEvidence)
		return
	}
	views := []RiskView{}
	for i := range all {
		if route == "" || all[i].Route == route {
			views = append(views, all[i])
		}
	}
	writeJSON(w, map[string]any{"risk": views})
}
