package app

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// routing is what the configuration says about pools and routes, and the pools that were made of it. It is never changed: a
// reload replaces it.
type routing struct {
	file   *config.File
	routes map[string]config.Route // by model
	pools  map[string]*servedPool  // by name

	warnings []string // about gaps in the file, or settings that have no effect
	restart  []string // fields whose new values wait for a restart
}

// file returns the configuration in force.
func (a *App) file() *config.File { return a.routing.Load().file }

// routes returns the names of the routes, in the order of the file.
func (a *App) routes() []string {
	defs := a.file().Routes
	names := make([]string, 0, len(defs))
	for _, def := range defs {
		names = append(names, def.Model)
	}
	return names
}

// Pool returns the pool with a name, or nil.
func (a *App) Pool(name string) *pool.Pool { return a.routing.Load().pool(name) }

// pool returns the pool with a name, or nil.
func (r *routing) pool(name string) *pool.Pool {
	if p := r.pools[name]; p != nil {
		return p.Pool
	}
	return nil
}

// poolNames returns the names of the pools, sorted.
func (r *routing) poolNames() []string { return slices.Sorted(maps.Keys(r.pools)) }

// newRouting makes the routing of a file. Pools that the file does not make different are those of was; nothing of was is
// changed. With an error it returns what it has made.
func (a *App) newRouting(f *config.File, was *routing) (*routing, error) {
	r := &routing{
		file: f, routes: make(map[string]config.Route, len(f.Routes)), pools: make(map[string]*servedPool, len(f.Pools)),
	}
	for name, def := range f.Pools {
		if old := was.pools[name]; old != nil && samePool(was.file.Pools[name], def) {
			r.pools[name] = old
			continue
		}
		p, err := a.newPool(name, def)
		if err != nil {
			return r, err
		}
		r.pools[name] = p
	}
	for _, def := range f.Routes {
		r.routes[def.Model] = def
	}
	return r, nil
}

// samePool reports whether a running pool can take over a new definition: the engines are of the same kind, and are found
// and reached in the same way.
func samePool(a, b config.Pool) bool {
	return a.Model == b.Model && a.Discover == b.Discover && a.Engine == b.Engine && a.Scheduler == b.Scheduler && a.Auth == b.Auth && a.TLS == b.TLS && a.PaidByToken() == b.PaidByToken()
}

// replaces reports whether a new pool takes the place of one of was that has backends: of its name, or of one that has
// lost its role on a route.
func (r *routing) replaces(was *routing, name string) bool {
	for model, rt := range r.routes {
		before := rolesOf(was.routes[model]) // of a new route no pool has backends
		for i, names := range rolesOf(rt) {
			gone := func(old string) bool { return !slices.Contains(names, old) && hasBackends(was.pool(old)) }
			if slices.Contains(names, name) && slices.ContainsFunc(before[i], gone) {
				return true
			}
		}
	}
	return hasBackends(was.pool(name))
}

// update gives a running pool what is new in its definition.
func (p *servedPool) update(def config.Pool) error {
	p.SetPrice(priceOf(def))
	if def.Discover != "" {
		return nil
	}
	return p.SetBackends(def.Backends)
}

// newPool makes a pool. It watches its backends when it runs.
func (a *App) newPool(name string, def config.Pool) (*servedPool, error) {
	own, unwatch, err := poolCredentials(name, def, a.files, a.listeners.expiry)
	if err != nil {
		return nil, err
	}
	served := &servedPool{unwatch: unwatch}
	o := pool.Options{
		Credentials: own, HTTPS: def.TLS.On,
		Name: name, Model: def.Model, Backends: def.Backends, Discover: def.Discover, Price: priceOf(def),
		External: def.PaidByToken(), Priorities: def.Scheduler == config.SchedulerPriority, Engine: dialect.Kind(def.Engine),
		Policy:         func() string { return a.global().RoutePolicy },
		ScrapeInterval: func() time.Duration { return a.global().ScrapeInterval },

		Open:       func(backend string) bool { return a.Breakers.Open(name, backend) },
		Shut:       func(backend string) bool { return a.Breakers.Shut(name, backend) },
		Ramp:       func(backend string) float64 { return a.Breakers.Ramp(name, backend) },
		Fleet:      a.Fleet,
		OnCapacity: func() { a.queues.Wake(name) },
		Logger:     a.Logger, Registerer: a.Registerer,
	}
	if served.Pool, err = pool.New(o); err != nil {
		unwatch()
		return nil, fmt.Errorf("pools: %w", err)
	}
	return served, nil
}

// tierRoutes returns the routes for the cascade.
func (a *App) tierRoutes(r *routing) []tiers.Route {
	var out []tiers.Route
	for _, def := range r.file.Routes {
		rt := a.tierRoute(r, def)
		if len(def.Targets) > 0 {
			rt.Weight = def.Targets[0].Weight
			for i, v := range def.Variants()[1:] {
				other := a.tierRoute(r, v)
				rt.Variants = append(rt.Variants, tiers.Variant{Weight: def.Targets[i+1].Weight, Route: &other})
			}
		}
		out = append(out, rt)
	}
	return out
}

// tierRoute returns a route with the first of its targets.
func (a *App) tierRoute(r *routing, def config.Route) tiers.Route {
	return tiers.Route{
		Model: def.Model, Draft: r.pool(def.Draft), Target: r.pool(def.Target), SameTokenizer: def.SameTokenizer,
		Config:       func() plan.Config { return a.tiersConfig(def.Model) },
		Applications: func() map[string]plan.Application { return a.Settings.Snapshot().Applications(def.Model) },
		Prices:       r.prices(def), Serves: served(r.file, def), Fallbacks: r.fallbacks(def),
	}
}

// fleetPools returns the pools for the fleet.
func (r *routing) fleetPools() []fleet.Pool {
	var out []fleet.Pool
	for _, name := range r.poolNames() {
		out = append(out, r.pools[name].Pool)
	}
	return out
}

// served returns the model and revision of a route's pools.
func served(f *config.File, rt config.Route) tiers.Served {
	name := func(pool string) string {
		def, ok := f.Pools[pool]
		if !ok || def.Revision == "" {
			return def.Model
		}
		return def.Model + " " + def.Revision // neither holds a space
	}
	return tiers.Served{Draft: name(rt.Draft), Target: name(rt.Target)}
}

// rolesOf returns the pools of a route by their role, which is the index.
func rolesOf(rt config.Route) [][]string {
	return [][]string{{rt.Draft}, {rt.Target}, rt.TargetPools()[1:]}
}

// hasBackends reports whether a pool has backends; nil has none.
func hasBackends(p *pool.Pool) bool { return p != nil && len(p.Snapshot()) > 0 }
