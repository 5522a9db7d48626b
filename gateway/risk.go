package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/risk"
)

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

// risk answers GET /admin/risk?route=NAME.
func (g *Gateway) risk(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Evidence.Summaries)
	if err != nil {
		return nil, err
	}
	other := func(of string) bool { return route != "" && of != route }
	a := RiskAnswer{Risk: slices.DeleteFunc(all, func(s risk.Summary) bool { return other(s.Route) }), Refits: []RefitView{}} // none is [], not null
	for _, served := range g.opts.Replica.Health().Routes {
		if p := g.opts.Refits.Progress(served.Route); p.Candidate.Version != 0 && !other(served.Route) {
			a.Refits = append(a.Refits, RefitView{Route: served.Route, Version: p.Candidate.Version, Audits: p.Audits})
		}
	}
	return a, nil
}

// riskFrontier answers GET /admin/risk/frontier?route=NAME.
func (g *Gateway) riskFrontier(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Evidence.Frontiers)
	if err != nil {
		return nil, err
	}
	if route != "" {
		all.Frontiers = slices.DeleteFunc(slices.Clone(all.Frontiers), func(f risk.Frontier) bool { return f.Route != route })
	}
	all.Frontiers = append([]risk.Frontier{}, all.Frontiers...) // none is [], not null
	return all, nil
}

// ApplicationsAnswer is what GET /admin/risk/applications returns.
type ApplicationsAnswer struct {
	Applications []risk.Application `json:"applications"`
}

// riskApplications answers GET /admin/risk/applications?route=NAME.
func (g *Gateway) riskApplications(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Evidence.Applications)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a risk.Application) bool { return route != "" && a.Route != route })
	return ApplicationsAnswer{append([]risk.Application{}, all...)}, nil // none is [], not null
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
