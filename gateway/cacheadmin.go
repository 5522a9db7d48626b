package gateway

import (
	"context"
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

// CacheView is the state of the cache on this replica since its start, for GET /admin/cache.
type CacheView struct {
	Routes       []CacheRoute      `json:"routes"` // by name
	LocalEntries int               `json:"local_entries"`
	LocalBytes   int64             `json:"local_bytes"`
	Away         bool              `json:"away"`              // Redis is not asked for now, after failures
	Queued       int               `json:"queued"`            // entries that wait to be written
	Refused      map[string]uint64 `json:"refused,omitempty"` // values that could not be opened, by reason
	Dropped      map[string]uint64 `json:"dropped,omitempty"` // answers that should have been stored and were not, by reason
}

// CacheRoute is one route's part of a CacheView.
type CacheRoute struct {
	Route       string            `json:"route"`
	Requests    map[string]uint64 `json:"requests"`  // by result
	HitRatio    float64           `json:"hit_ratio"` // of the last five minutes
	SavedTokens uint64            `json:"saved_tokens"`
	SavedUSD    float64           `json:"saved_usd"`
}

// CacheTotals summarizes the cache over all routes since the replica's start, for GET /admin/status.
type CacheTotals struct {
	Requests    uint64  `json:"requests"` // that the cache could have answered
	HitRatio    float64 `json:"hit_ratio"`
	SavedTokens uint64  `json:"saved_tokens"`
	SavedUSD    float64 `json:"saved_usd"`
}

// PurgeResult is the answer to POST /admin/cache/purge.
type PurgeResult struct {
	Purged     string `json:"purged"`               // what was asked for: "tenant NAME", "route NAME" or "all"
	Everything bool   `json:"everything,omitempty"` // more was purged than the given scope
	Message    string `json:"message"`
}

// cacheRoutes are the routes of the cache. A gateway without a cache has none.
func (g *Gateway) cacheRoutes(r chi.Router) {
	if g.opts.Cache == nil {
		return
	}
	r.Get("/admin/cache", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, cacheView(g.opts.Cache.Stats())) })
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
	g.logAction(r, "purge", err).Str("tenant", scope.Tenant).Str("route", scope.Route).
		Bool("done", err == nil).Bool("everything", everything).Msg("operator action")
	if err != nil {
		return PurgeResult{}, err
	}
	answer := PurgeResult{Purged: scope.String(), Everything: everything, Message: "After one second no replica serves these answers. They are deleted when cache.ttl expires."}
	if everything {
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

func cacheView(s cache.Stats) CacheView {
	v := CacheView{
		Routes: []CacheRoute{}, LocalEntries: s.LocalEntries, LocalBytes: s.LocalBytes,
		Away: s.Away, Queued: s.Queued, Refused: s.Refused, Dropped: s.Dropped,
	}
	for _, r := range s.Routes {
		line := CacheRoute{Route: r.Route, Requests: map[string]uint64{}, HitRatio: r.HitRatio, SavedTokens: r.SavedTokens, SavedUSD: r.SavedUSD}
		for result, n := range r.Requests {
			line.Requests[string(result)] = n
		}
		v.Routes = append(v.Routes, line)
	}
	return v
}

// cacheTotals sums over the routes.
func cacheTotals(s cache.Stats) *CacheTotals {
	var sum CacheTotals
	var hits uint64
	for _, r := range s.Routes {
		for result, n := range r.Requests {
			switch result {
			case cache.ResultBypass:
				continue
			case cache.ResultHit, cache.ResultLocal, cache.ResultCoalesced:
				hits += n
			}
			sum.Requests += n
		}
		sum.SavedTokens += r.SavedTokens
		sum.SavedUSD += r.SavedUSD
	}
	if sum.Requests > 0 {
		sum.HitRatio = float64(hits) / float64(sum.Requests)
	}
	return &sum
}
