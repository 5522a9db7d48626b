package gateway

import (
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminRoute is a route of the admin listener, and the scope that a token for it needs.
type adminRoute struct {
	method string // "" is any
	path   string
	scope  Scope
	serve  http.HandlerFunc
}

// adminTable has all routes of the admin listener.
func (g *Gateway) adminTable() []adminRoute {
	const get, post = http.MethodGet, http.MethodPost
	all := []adminRoute{
		{get, "/livez", noScope, g.livez}, // load balancers call these two
		{get, "/readyz", noScope, g.readyz(true)},
		{get, "/admin/session", noScope, forOperators(g.session)}, // tells whose token was sent

		{get, "/admin/usage", ScopeMetrics, forOperators(g.usage)}, // counts and costs, as in the metrics; for a tool that charges back
		{get, "/admin/usage/hours", ScopeMetrics, forOperators(g.usageHours)},

		{get, "/admin/backends", ScopeDrain, forOperators(g.backends)},
		{post, "/admin/drain", ScopeDrain, forOperators(g.backendAction(backendAction{name: "drain", drained: true, params: []string{"backend", "pool", "for", "why"}, read: readDrain}))},
		{post, "/admin/undrain", ScopeDrain, forOperators(g.backendAction(backendAction{name: "undrain", params: []string{"backend", "pool"}, read: readUndrain}))},
		{post, "/admin/spot", ScopeDrain, forOperators(g.backendAction(backendAction{name: "spot", drained: true, params: []string{"backend", "pool", "for"}, read: readSpotNotice}))},

		{get, "/admin/status", ScopeOperate, forOperators(g.status)},
		{post, "/admin/reload", ScopeOperate, forOperators(g.reload)},
		{get, "/admin/tenants", ScopeOperate, forOperators(g.tenants)},
		{get, "/admin/receipts", ScopeOperate, forOperators(g.listReceipts)},
		{get, "/admin/receipts/{id}", ScopeOperate, forOperators(g.oneReceipt)},
		{get, "/admin/risk", ScopeOperate, forOperators(g.risk)},
		{get, "/admin/risk/frontier", ScopeOperate, forOperators(g.riskFrontier)},
		{get, "/admin/risk/applications", ScopeOperate, forOperators(g.riskApplications)},
		{get, "/admin/settings", ScopeOperate, forOperators(g.settings)},
		{get, "/admin/settings/log", ScopeOperate, forOperators(g.settingsLog)},

		{"", "/debug/pprof/*", ScopeOperate, pprof.Index},
		{"", "/debug/pprof/cmdline", ScopeOperate, pprof.Cmdline},
		{"", "/debug/pprof/profile", ScopeOperate, pprof.Profile},
		{"", "/debug/pprof/symbol", ScopeOperate, pprof.Symbol},
		{"", "/debug/pprof/trace", ScopeOperate, pprof.Trace},
	}
	if g.opts.Console != nil {
		all = append(all,
			adminRoute{get, "/", noScope, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/console/", http.StatusFound) }},
			adminRoute{get, "/console/*", noScope, g.opts.Console.ServeHTTP}, // static pages without data
			adminRoute{get, "/console/live", ScopeOperate, g.opts.Console.ServeHTTP})
	}
	if g.opts.Cache != nil {
		all = append(all, adminRoute{post, "/admin/cache/purge", ScopeOperate, forOperators(g.purge)})
	}
	if g.opts.Replica.SettingsStore() != nil {
		all = append(all, adminRoute{post, "/admin/settings", ScopeOperate, forOperators(g.settingsEdit(g.setSettings))},
			adminRoute{post, "/admin/settings/rollback", ScopeOperate, forOperators(g.settingsEdit(g.rollbackSettings))})
	}
	if g.opts.Gatherer != nil {
		all = append(all, adminRoute{get, "/metrics", ScopeMetrics, promhttp.HandlerFor(g.opts.Gatherer, promhttp.HandlerOpts{ErrorLog: newServerLog(g.log)}).ServeHTTP})
	}
	return all
}

// adminRoutes is the operators' surface, on a separate listener. What is not in the table, by its path or method, wants all
// scopes.
func (g *Gateway) adminRoutes() chi.Router {
	r := chi.NewRouter()
	r.Use(decoded, middleware.GetHead)
	r.NotFound(g.guarded(ScopeOperate, func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, errNoPath) }))
	r.MethodNotAllowed(g.guarded(ScopeOperate, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methodsOf(r, r.URL.Path))
		writeProblem(w, errMethod)
	}))
	for _, a := range g.adminTable() {
		if serve := g.guarded(a.scope, a.serve); a.method == "" {
			r.HandleFunc(a.path, serve)
		} else {
			r.MethodFunc(a.method, a.path, serve)
		}
	}
	return r
}

// decoded has the router judge a path as who serves it reads it: /console/%6cive is no file of the console.
func decoded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chi.RouteContext(r.Context()).RoutePath = r.URL.Path
		next.ServeHTTP(w, r)
	})
}
