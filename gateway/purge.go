package gateway

import (
	"errors"
	"net/http"

	"github.com/foregate/foregate/cache"
)

// PurgeResult is the answer to POST /admin/cache/purge.
type PurgeResult struct {
	Purged     string `json:"purged"`                      // what was asked for: "tenant NAME", "route NAME" or "all"
	Everything bool   `json:"everything,omitempty"`        // more was purged than the given scope
	Alone      bool   `json:"this_replica_only,omitempty"` // until Redis answers
	Message    string `json:"message"`
}

// purge executes a purge, even if the client disconnects. The body is ignored. It writes one log line.
func (g *Gateway) purge(_ http.ResponseWriter, r *http.Request) (any, error) {
	scope, err := g.purgeScope(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := untilDone(r, actionTimeout)
	defer cancel()
	everything, err := g.opts.Cache.Purge(ctx, scope)
	alone := errors.Is(err, cache.ErrNotShared)
	g.logAction(r, "purge", err).Str("tenant", scope.Tenant).Str("route", scope.Route).
		Bool("done", err == nil || alone).Bool("shared", err == nil).Bool("everything", everything).Msg("operator action")
	if err != nil && !alone {
		return nil, err
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

// purgeScope reads tenant and route. An empty name is refused: an unset shell variable must not purge
// everything.
func (g *Gateway) purgeScope(r *http.Request) (s cache.Scope, err error) {
	q, err := query(r, "tenant", "route")
	if err != nil {
		return s, err
	}
	for _, name := range []string{"tenant", "route"} {
		if q.Has(name) && q.Get(name) == "" {
			return s, badParam(name, "is empty; leave it out to purge everything")
		}
	}
	s = cache.Scope{Tenant: q.Get("tenant"), Route: q.Get("route")}
	if s.Tenant != "" && s.Route != "" {
		return s, badParam("", "tenant and route exclude each other: a tenant's answers on one route alone cannot be purged; purge the tenant or the route, or both by two requests")
	}
	if err := s.Check(); err != nil {
		return s, badParam("", err.Error())
	}
	if s.Route != "" {
		return s, g.hasRoute(s.Route)
	}
	return s, nil
}
