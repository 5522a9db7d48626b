package app

import (
	"context"
	"errors"
	"strconv"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/refit"
)

// scoreVersion is the setting that a refit changes.
const scoreVersion = "risk.score_version"

// makeRefits makes the refits of the routes' scores.
func (a *App) makeRefits() {
	a.refits = refit.New(refit.Options{
		Book: a.evidence, Routes: a.routes, Route: a.refitRoute, Promote: a.promoteScore,
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	})
}

// refitRoute returns the live settings of a route's refits.
func (a *App) refitRoute(route string) refit.Route {
	s := a.Settings.Snapshot()
	cfg, set := &s.Route(route).Tiers, s.Set()
	_, own := set[scoreVersion+"@"+route]
	_, all := set[scoreVersion]
	return refit.Route{Auto: cfg.Risk.Refit && cfg.Mode.Audited(), Live: cfg.Risk.ScoreVersion, Set: own || all, Rule: cfg.Risk.Rule}
}

// promoteScore puts a score in force, if nobody has changed the setting since.
func (a *App) promoteScore(ctx context.Context, p refit.Promotion) error {
	if a.Options.Stores.Settings == nil {
		return refit.ErrReadOnly
	}
	to := strconv.Itoa(p.To)
	c := settings.Change{Name: scoreVersion + "@" + p.Route, New: &to}
	if p.From != 0 {
		from := strconv.Itoa(p.From)
		c.Old = &from
	}
	_, err := settings.NewStore(a.Options.Stores.Settings, a.routes()).Swap(ctx, settings.Edit{Who: "refit", Why: p.Why}, c)
	if errors.Is(editorError(err), gateway.ErrSettingsReadOnly) {
		return refit.ErrReadOnly
	}
	return err
}

// refitViews returns the candidates of all routes (gateway.Options.Refits).
func (a *App) refitViews() []gateway.RefitView {
	progress := map[string]refit.Progress{}
	for _, route := range a.routes() {
		progress[route] = a.refits.Progress(route)
	}
	return riskview.Refits(a.routes(), progress)
}
