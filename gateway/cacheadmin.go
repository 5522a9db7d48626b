package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

// errNoSharedCache refuses a purge when no Redis stores answers.
var errNoSharedCache = &problem{status: http.StatusConflict, body: openai.ErrorBody{
	Message: "Answers are not cached in Redis here, so there is nothing to purge.", Type: "invalid_request_error", Code: "no_cache",
}}

// CacheTotals summarizes the cache over all routes since the replica's start, for GET /admin/status.
type CacheTotals struct {
	Requests    uint64  `json:"requests"` // that the cache could have answered
	HitRatio    float64 `json:"hit_ratio"`
	SavedTokens uint64  `json:"saved_tokens"`
	SavedUSD    float64 `json:"saved_usd"`
}

// PurgeResult is the answer to POST /admin/cache/purge.
type PurgeResult struct {
	Purged     string `json:"purged"`                      // what was asked for: "tenant NAME", "route NAME" or "all"
	Everything bool   `json:"everything,omitempty"`        // more was purged than the given scope
	Alone      bool   `json:"this_replica_only,omitempty"` // until Redis answers
	Message    string `json:"message"`
}

// cacheRoutes are the routes of the cache. A gateway without a cache has none.
func (g *Gateway) cacheRoutes(r chi.Router) {
	if g.opts.Cache == nil {
		return
	}
	r.Post("/admin/cache/purge", func(w http.ResponseWriter, r *http.Request) {
		answer, err := g.purge(r)
		if err != nil {
			writeProblem(w, g.actionProblem(err))
			return
		}
		writeJSON(w, answer)
	})
}

// purge executes a purge, even if the client disconnects. The body is ignored. It writes one log line.
func (g *Gateway) purge(r *http.Request) (PurgeResult, error) {
	q, err := query(r.URL.RawQuery, []string{"tenant", "route"})
	if err != nil {
		return PurgeResult{}, err
	}
	scope, err := g.scopeOf(q)
	if err != nil {
		return PurgeResult{}, err
	}
	if g.opts.Purge == nil {
		return PurgeResult{}, errNoSharedCache
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	everything, err := g.opts.Purge(ctx, scope)
	alone := errors.Is(err, cache.ErrNotShared)
	g.logAction(r, "purge", err).Str("tenant", scope.Tenant).Str("route", scope.Route).
		Bool("done", err == nil || alone).Bool("shared", err == nil).Bool("everything", everything).Msg("operator action")
	if err != nil && !alone {
		return PurgeResult{}, err
	}
	answer := PurgeResult{Purged: scope.String(), Everything: everything, Alone: alone, Message: "After one second no replica serves these answers. They are deleted when cache.ttl expires."}
	switch {
	case alone:
		answer.Message = thisReplicaOnly
	case everything:
		answer.Message = "Too many purges were pending to keep them apart, so everything was purged. " + answer.Message
	}
	return answer, nil
}

// scopeOf reads tenant and route. An empty name is refused: an unset shell variable must not purge
// everything.
func (g *Gateway) scopeOf(q url.Values) (cache.Scope, error) {
	s := cache.Scope{Tenant: q.Get("tenant"), Route: q.Get("route")}
	for _, name := range []string{"tenant", "route"} {
		if q.Has(name) && q.Get(name) == "" {
			return s, badParam(name, "is empty; leave it out to purge everything")
		}
	}
	if s.Tenant != "" && s.Route != "" {
		return s, badParam("", "tenant and route exclude each other: a tenant's answers on one route alone cannot be purged; purge the tenant or the route, or both by two requests")
	}
	if err := s.Check(); err != nil {
		return s, badParam("", err.Error())
	}
	if s.Route != "" {
		if _, err := g.opts.Cascade.Route(s.Route); err != nil {
			return s, &modelError{s.Route}
		}
	}
	return s, nil
}

// cacheTotals are the totals as operators see them.
func cacheTotals(t cache.Totals) *CacheTotals {
	v := CacheTotals{Requests: t.Requests, SavedTokens: t.SavedTokens, SavedUSD: t.SavedUSD}
	if t.Requests > 0 {
		v.HitRatio = float64(t.Served) / float64(t.Requests)
	}
	return &v
}
