package riskview

import (
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/refit"
)

// Refits returns the candidates of routes, in the order of the routes.
func Refits(routes []string, progress map[string]refit.Progress) []gateway.RefitView {
	views := []gateway.RefitView{}
	for _, route := range routes {
		if p := progress[route]; p.Candidate.Version != 0 {
			views = append(views, gateway.RefitView{Route: route, Version: p.Candidate.Version, Audits: p.Status.Audits, Summary: p.String()})
		}
	}
	return views
}
