package gateway

import (
	"context"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/foregate/foregate/tiers/openai"
)

// routes is the whole public surface. Every other path is 404 or 405.
func (g *Gateway) routes() http.Handler {
	posts := g.posts()
	return g.front(posts, g.withDeadlines(g.publicRoutes(posts)))
}

// posts are the handlers of POST by path.
func (g *Gateway) posts() map[string]handler {
	posts := map[string]handler{"/v1/chat/completions": g.generate(openai.Chat), "/v1/completions": g.generate(openai.Completion)}
	for path, api := range clientAPIs {
		posts[path] = g.generateAs(api, path)
	}
	for _, path := range g.opts.Forward {
		if posts[path] == nil {
			posts[path] = g.forward(path)
		}
	}
	return posts
}

// publicRoutes routes the requests of the public surface by path and method.
func (g *Gateway) publicRoutes(posts map[string]handler) chi.Router {
	r := chi.NewRouter()
	r.NotFound(g.handle(func(*accessRecord, http.ResponseWriter, *http.Request) error { return errNotFound }))
	r.MethodNotAllowed(g.handle(wrongMethod))
	for path, h := range posts {
		r.Post(path, g.handle(h))
	}
	r.Get(modelsPath, g.handle(g.models))
	r.Get(modelsPath+"/*", g.handle(g.model))
	r.Get(publicDocumentPath, g.handle(g.showDocument))
	r.Head(publicDocumentPath, g.handle(g.showDocument))
	g.probes(r)
	return r
}

// front is before all handlers of the public surface. Order matters: record sees every result, recovered covers
// all handlers and checkRequest, and checkRequest runs before any code trusts a header. A POST of a path in posts
// goes to its handler at once, any other request to rest: routing takes two allocations and a copy of the
// request (BenchmarkStraight), and these paths hold no parameters.
func (g *Gateway) front(posts map[string]handler, rest http.Handler) http.Handler {
	serve := func(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
		if err := g.checkRequest(l, w, r); err != nil {
			return err
		}
		if h := posts[r.URL.Path]; h != nil && r.Method == http.MethodPost && r.URL.RawPath == "" {
			return h(l, w, r)
		}
		rest.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accessRecordKey{}, l)))
		return nil
	}
	return g.record(g.recovered(serve))
}

// adminRoutes is the operators' surface, on a separate listener.
func (g *Gateway) adminRoutes() http.Handler {
	r := chi.NewRouter()
	r.Use(g.guarded)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, errNoPath) })
	r.MethodNotAllowed(adminMethod)
	r.Get("/admin/session", g.session)
	r.Post("/admin/session", g.signIn)
	r.Delete("/admin/session", g.signOut)
	if g.opts.Console != nil {
		r.Get("/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/console/", http.StatusFound) })
		r.Method(http.MethodGet, "/console/*", g.opts.Console)
		r.Method(http.MethodGet, "/console/live", g.whileAdmitted(g.opts.Console))
	}
	g.probes(r)
	g.fleetRoutes(r)
	g.statusRoutes(r)
	g.cacheRoutes(r)
	g.riskRoutes(r)
	g.settingsEditRoutes(r)
	g.reloadRoutes(r)
	g.tenantRoutes(r)
	g.usageRoutes(r)
	g.receiptRoutes(r)
	r.Method(http.MethodGet, adminDocumentPath, g.adminDocument)
	r.Method(http.MethodHead, adminDocumentPath, g.adminDocument)
	if g.opts.Gatherer != nil {
		r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(g.opts.Gatherer, promhttp.HandlerOpts{ErrorLog: newServerLog(g.log)}))
	}
	r.HandleFunc("/debug/pprof/*", pprof.Index)
	r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	r.HandleFunc("/debug/pprof/profile", pprof.Profile)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return r
}

// probes are called by load balancers, some of which use HEAD.
func (g *Gateway) probes(r chi.Router) {
	for path, h := range map[string]http.HandlerFunc{"/livez": g.livez, "/readyz": g.readyz} {
		r.Get(path, h)
		r.Head(path, h)
	}
}

// wrongMethod lists the methods that a path takes: GET and HEAD for probes and the document, GET for the list of
// models, POST for all others.
func wrongMethod(_ *accessRecord, w http.ResponseWriter, r *http.Request) error {
	allow := http.MethodPost
	switch path := r.URL.Path; {
	case strings.Contains(path, "/.."):
		return errNotFound // nothing is below a model
	case path == "/livez", path == "/readyz", path == publicDocumentPath:
		allow = http.MethodGet + ", " + http.MethodHead
	case isUnder(path, modelsPath):
		allow = http.MethodGet
	}
	w.Header().Set("Allow", allow)
	return errMethod
}
