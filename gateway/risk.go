package gateway

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// errEvidence is the answer if audit results cannot be read.
var errEvidence = refuse("evidence_away", "Redis does not answer, or refuses, so what audits have shown could not be read; the gateway's log says why.")

// RefitView is what the gateway itself does with the score of a route, as GET /admin/risk returns it: which fitted score it
// has put in force, and the candidate, which judges drafts once audits have certified it.
type RefitView struct {
	Route   string    `json:"route"`
	Version int       `json:"version"`        // of the candidate; 0: there is none
	Audits  int       `json:"audits"`         // its evidence
	Live    int       `json:"live"`           // version of the fitted score in force; 0: the plain score
	Since   time.Time `json:"since,omitzero"` // when it was put in force
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
		if p := g.opts.Refits.Progress(served.Route); p.Candidate.Version+p.Live.Version != 0 && !other(served.Route) {
			a.Refits = append(a.Refits, RefitView{Route: served.Route, Version: p.Candidate.Version, Audits: p.Audits, Live: p.Live.Version, Since: p.Promoted})
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

// ApplicationView is what audits show of an application, with what operators have set for it.
type ApplicationView struct {
	risk.Application
	Label   string    `json:"name"`     // that operators gave it; "": none
	Mode    plan.Mode `json:"mode"`     // by which its requests are answered
	OwnMode bool      `json:"own_mode"` // the mode is its own, and not its route's
}

// ApplicationsAnswer is what GET /admin/risk/applications returns.
type ApplicationsAnswer struct {
	Applications []ApplicationView `json:"applications"`
}

// riskApplications answers GET /admin/risk/applications?route=NAME.
func (g *Gateway) riskApplications(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, route, err := readEvidence(g, r, g.opts.Evidence.Applications)
	if err != nil {
		return nil, err
	}
	views := applicationViews(all, g.opts.Replica.Health().Routes, g.opts.Settings.Snapshot())
	return ApplicationsAnswer{slices.DeleteFunc(views, func(a ApplicationView) bool { return route != "" && a.Route != route })}, nil
}

// applicationViews returns what audits show of applications, with what is set for them; those for which something is set, and of
// which there are no audits, too. Rows of a route follow each other.
func applicationViews(all []risk.Application, routes []RouteState, set *settings.Snapshot) []ApplicationView {
	views, known := []ApplicationView{}, map[[2]string]bool{} // none is [], not null
	add := func(a risk.Application) {
		own := set.Applications(a.Route)[a.Name]
		v := ApplicationView{Application: a, Label: own.Name, Mode: cmp.Or(own.Mode, set.Route(a.Route).Tiers.Mode), OwnMode: own.Mode != ""}
		if v.Mode == plan.ModeOff {
			v.Phase, v.ToCertify = risk.PhaseOff, nil
		}
		if v.Mode != plan.ModeRisk { // nothing is served on its score alone
			v.SavedUSD, v.SavedTokens = nil, nil
		}
		views, known[[2]string{a.Route, a.Name}] = append(views, v), true
	}
	for _, a := range all {
		add(a)
	}
	for _, r := range routes {
		for _, name := range slices.Sorted(maps.Keys(set.Applications(r.Route))) {
			if !known[[2]string{r.Route, name}] {
				add(risk.Application{Route: r.Route, Name: name, Agreement: risk.Range{High: 1}, ApplicationState: risk.ApplicationState{Phase: risk.PhaseLearning, Bound: 1}})
			}
		}
	}
	slices.SortStableFunc(views, func(a, b ApplicationView) int { return cmp.Compare(a.Route, b.Route) })
	return views
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
