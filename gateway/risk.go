package gateway

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
)

// errEvidence answers where what audits have shown cannot be read.
var errEvidence = &problem{status: http.StatusServiceUnavailable, hope: true, body: openai.ErrorBody{
	Message: "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.", Type: "server_error", Code: "evidence_away",
}}

// RiskState is a word for how the promise of one kind of request stands.
type RiskState string

// The states.
const (
	RiskCertified   RiskState = "certified"   // drafts are served by a threshold of its own
	RiskInherits    RiskState = "inherits"    // it has none, and goes by that of the whole route
	RiskUncertified RiskState = "uncertified" // audits do not suffice yet: the target answers
	RiskLearning    RiskState = "learning"    // scores are collected to place the thresholds by: the target answers
	RiskInfeasible  RiskState = "infeasible"  // audits say that no threshold keeps the promise: the target answers
)

// RiskView is what is known of one kind of request and lot of it, as GET /admin/risk tells it: what is
// promised, whether it is kept, and on how many audits that rests. Shares are 0 … 1. What is null
// is not known, or there is none.
type RiskView struct {
	Route  string    `json:"route"`
	Bucket string    `json:"bucket"` // kind of request: length class, _t0 at temperature 0, and fingerprint of models and rules
	Lot    string    `json:"lot"`    // conf: accepted on the draft's own score; head: because the target stood by its first tokens
	State  RiskState `json:"state"`

	Eps   float64 `json:"eps"`   // promised: of the drafts served, the share that the target would have refused is at most that …
	Delta float64 `json:"delta"` // … except with this probability

	Op         int      `json:"operating_index"` // how many thresholds are certified, the strictest first; 0: nothing is served
	Threshold  *float64 `json:"threshold_nats"`  // null while nothing is served
	Acceptance float64  `json:"expected_acceptance"`

	// Of the operating index, or of the strictest where there is none, in the living epoch that
	// certified it.
	Audits   int     `json:"audits"` // that have an outcome
	Bad      int     `json:"bad"`
	Pending  int     `json:"pending"` // audits that have none yet; they count as bad
	Estimate float64 `json:"risk_estimate"`
	Low      float64 `json:"risk_lower"` // interval that holds the risk at every moment, with probability 1 − delta
	High     float64 `json:"risk_upper"`
	Bound    float64 `json:"risk_bound"` // the risk is proven to be below this, with probability 1 − delta/2

	ToCertify *float64 `json:"audits_to_certify"`  // that are needed for the next threshold, about; null: it seems out of reach
	PerMinute *float64 `json:"audits_per_minute"`  // of those that count for it, of late, at all replicas
	Seconds   *float64 `json:"seconds_to_certify"` // at that pace, until the first threshold; null once there is one

	Drift    float64 `json:"drift_level"` // 1 is the alarm, which takes all certificates back
	Warned   bool    `json:"drift_warned"`
	Alarms   int64   `json:"drift_alarms"`
	Learned  int     `json:"scores_learned"` // while learning, of those wanted
	Learning int     `json:"scores_wanted"`  // 0 once the thresholds are placed
}

// PromiseView is how a route's promise stands, in one line of GET /admin/status.
type PromiseView struct {
	Route      string  `json:"route"`
	Eps        float64 `json:"eps"`
	Delta      float64 `json:"delta"`
	Kinds      int     `json:"kinds"`      // of request, each lot by itself
	Certified  int     `json:"certified"`  // of these, with a threshold of their own
	Inherited  int     `json:"inherited"`  // that go by the one of the whole route
	Infeasible int     `json:"infeasible"` // of which audits say that no threshold keeps the promise
	Warned     int     `json:"warned"`     // of which a drift is suspected
}

// Promises are the views of each route in one line, by route in the order of the views.
func Promises(views []RiskView) []PromiseView {
	var lines []PromiseView
	for i := range views {
		v := &views[i]
		if len(lines) == 0 || lines[len(lines)-1].Route != v.Route {
			lines = append(lines, PromiseView{Route: v.Route, Eps: v.Eps, Delta: v.Delta})
		}
		l := &lines[len(lines)-1]
		l.Kinds++
		switch v.State {
		case RiskCertified:
			l.Certified++
		case RiskInherits:
			l.Inherited++
		case RiskInfeasible:
			l.Infeasible++
		}
		if v.Warned {
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
	route, err := g.routeAsked(r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTime)
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
