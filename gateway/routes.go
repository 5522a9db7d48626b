package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/foregate/foregate/tiers/openai"
)

// routes is the whole public surface. Every other path is 404 or 405.
func (g *Gateway) routes() http.Handler {
	posts := g.posts()
	return g.front(posts, g.withDeadlines(g.publicRoutes(posts)))
}

// posts are the handlers of POST by path.
func (g *Gateway) posts() map[string]handler {
	posts := map[string]handler{"/v1/chat/completions": g.generate(openai.Chat), "/v1/completions": g.generate(openai.Completion), countTokensPath: g.admit(g.countTokens)}
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
	r.Use(middleware.GetHead) // load balancers and tools ask with either
	r.NotFound(g.handle(g.nothingHere))
	r.MethodNotAllowed(g.handle(wrongMethod))
	for path, h := range posts {
		r.Post(path, g.handle(h))
	}
	r.Get(modelsPath, g.handle(g.models))
	r.Get(modelsPath+"/*", g.handle(g.model))
	r.Get("/health", g.health) // these three as of vLLM, whose tools ask for them
	r.Get("/ping", g.health)
	r.Get("/version", g.version)
	g.responseRoutes(r)
	r.Get("/livez", g.livez)
	r.Get("/readyz", g.readyz(false))
	return r
}

// nothingHere refuses a path that is not served. Scrapers that know engines look for metrics beside the API, and clients
// leave out /v1 of their base URL.
func (g *Gateway) nothingHere(_ *accessRecord, _ http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/metrics" {
		if with := "/v1" + r.URL.Path; methodsOf(r, with) != "" {
			return refuse("unknown_url", fmt.Sprintf("There is nothing at this path. Did you mean %s? The base URL of a client ends with /v1.", clip(with)))
		}
		return errNotFound
	}
	where := "metrics are on the admin listener, which this replica does not have."
	if at, ok := g.AdminAddr().(*net.TCPAddr); ok {
		where = fmt.Sprintf("metrics are on the admin listener, port %d.", at.Port)
	}
	return refuse("unknown_url", "There is nothing at this path: "+where)
}

// front is before all handlers of the public surface. Order matters: record sees every result, recovered covers
// all handlers and checkRequest, and checkRequest runs before any code trusts a header. A POST of a path in posts
// goes to its handler at once, any other request to rest: routing takes two allocations and a copy of the
// request (make cost), and these paths hold no parameters.
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
	record := g.record(g.recovered(serve))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { record.ServeHTTP(w, tidied(r)) })
}

// tidied is a request with one slash where its path has several, and none at the end: what clients make of a base URL that ends with
// a slash.
func tidied(r *http.Request) *http.Request {
	raw := cmp.Or(r.URL.RawPath, r.URL.Path)
	if !strings.Contains(raw, "//") && (len(raw) < 2 || raw[len(raw)-1] != '/') {
		return r
	}
	parts := strings.FieldsFunc(raw, func(c rune) bool { return c == '/' })
	to, tidy := *r.URL, *r
	to.Path, tidy.URL = "/"+strings.Join(parts, "/"), &to
	if to.RawPath == "" {
		return &tidy
	}
	to.RawPath = to.Path
	to.Path, _ = url.PathUnescape(to.RawPath) // the server has read it
	return &tidy
}

// wrongMethod lists the methods that a path takes.
func wrongMethod(_ *accessRecord, w http.ResponseWriter, r *http.Request) error {
	if strings.Contains(r.URL.Path, "/..") {
		return errNotFound // nothing is below a model
	}
	w.Header().Set("Allow", methodsOf(r, r.URL.Path))
	return errMethod
}

// methodsOf returns the methods that a path takes, as the header Allow lists them.
func methodsOf(r *http.Request, path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if !chi.RouteContext(r.Context()).Routes.Match(chi.NewRouteContext(), method, path) {
			continue
		}
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(methods, ", ")
}
