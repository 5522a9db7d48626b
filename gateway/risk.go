package gateway

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/risk"
)

// errEvidence is the answer if audit results cannot be read.
var errEvidence = &problem{status: http.StatusServiceUnavailable, retryable: true, body: openai.ErrorBody{
	Message: "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.", Type: "server_error", Code: "evidence_away",
}}

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
	answer := RiskAnswer{Risk: []risk.Summary{}, Refits: []RefitView{}}
	for i := range all {
		if route == "" || all[i].Route == route {
			answer.Risk = append(answer.Risk, all[i])
		}
	}
	if g.opts.Refits != nil {
		for _, v := range g.opts.Refits() {
			if route == "" || v.Route == route {
				answer.Refits = append(answer.Refits, v)
			}
		}
	}
	writeJSON(w, answer)
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
