package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/rs/zerolog"
)

// challenge is the header of a refusal that a token would prevent.
func challenge(p *problem, more string) *problem {
	p.header = [2]string{"WWW-Authenticate", `Bearer realm="foregate"` + more}
	return p
}

// Refusals of the admin listener.
var (
	errNoToken     = challenge(refuse("no_token", "Show an operator's token (admin_tokens_file): Authorization: Bearer TOKEN, or sign in at /console/."), "")
	errBadToken    = challenge(refuse("bad_token", "This token is not one of the operators' tokens (admin_tokens_file)."), "")
	errReadOnly    = refuse("read_only", "No tokens are configured here (admin_tokens_file), so pages only show, and nobody changes settings at this listener.")
	errStrangeHost = refuse("strange_host", "This listener is on loopback, and answers whoever shows no token at an IP address or localhost only.")
	errCrossSite   = refuse("cross_site", "This request comes from a page of another site. Use a tool, or a page of this listener at an IP address or localhost.")
)

// errScope refuses a token without the required scope.
func errScope(want Scope) error {
	return challenge(refuse("wrong_scope", "This token has not the scope "+string(want)+", which this path wants (admin_tokens_file)."),
		`, error="insufficient_scope", scope="`+string(want)+`"`)
}

// guard decides who may do what at the admin listener. If tokens are configured, every change requires one,
// and so does every read if the listener is not on loopback. A token grants its scopes. Tools and the
// console's pages send it as a bearer token, which a browser never does for another site's page.
type guard struct {
	operators *Operators // nil: no tokens are configured
	local     bool       // the listener is on loopback
}

// identify returns who sends a request, nil for nobody. A wrong token is an error, even on a public path.
func (g *guard) identify(r *http.Request) (*operator, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if g.operators == nil || !strings.EqualFold(scheme, "Bearer") {
		return nil, nil
	}
	if o := g.operators.authenticate(token); o != nil {
		return o, nil
	}
	return nil, errBadToken
}

// admit returns who calls a path that requires a scope, and an error if the request is refused.
func (g *guard) admit(want Scope, r *http.Request) (*operator, error) {
	o, err := g.identify(r)
	looks := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case err != nil:
		return nil, err
	case o != nil && want != noScope && !o.hasScope(want):
		return o, errScope(want)
	case o != nil:
		return o, sameSite(r, true)
	case looks && want == noScope:
		return nil, nil
	case looks && g.local:
		return nil, ownLook(r)
	case looks:
		return nil, errNoToken
	}
	return nil, g.admitChange(r)
}

// ownLook refuses cross-site reads through a browser at a listener on loopback: from a page of another site,
// and from a page whose host name resolves to this machine (DNS rebinding), which the Host header shows.
// Links from other sites are allowed.
func ownLook(r *http.Request) error {
	if !plainHost(r.Host) {
		return errStrangeHost
	}
	switch h := r.Header; h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	default:
		if h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" {
			return nil
		}
	}
	return errCrossSite
}

// admitChange is admit for a change, by a caller without a token.
func (g *guard) admitChange(r *http.Request) error {
	if err := sameSite(r, g.operators != nil); err != nil {
		return err
	}
	switch {
	case g.operators != nil:
		return errNoToken
	case !privateHost(r.Host): // a browser always sends the page's host
		return errStrangeHost
	case fromPage(r):
		return errReadOnly
	}
	return nil
}

// operatorKey is the context key of an admin request's operator.
type operatorKey struct{}

// operatorOf returns the operator whom admit has found, nil for nobody.
func operatorOf(r *http.Request) *operator {
	o, _ := r.Context().Value(operatorKey{}).(*operator)
	return o
}

// guarded serves the requests that admit accepts.
func (g *Gateway) guarded(want Scope, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := g.guard.admit(want, r)
		if err != nil {
			g.log.Warn().Str("operator", o.label()).Str("remote", r.RemoteAddr).Str("origin", clip(r.Header.Get("Origin"))).
				Str("method", clip(r.Method)).Str("path", clip(r.URL.Path)).Str("error", problemOf(err).body.Code).Msg("refused at the admin listener")
			writeProblem(w, problemOf(err))
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, o)))
	}
}

// SessionView is the answer to GET /admin/session: what the console may do with the token that it sent.
type SessionView struct {
	Writable bool   `json:"writable"`  // tokens are configured
	SignedIn bool   `json:"signed_in"` // the token has the scope operate, which the pages need
	Operator string `json:"operator"`  // whose token it is; "" without one
}

func (g *Gateway) session(_ http.ResponseWriter, r *http.Request) (any, error) {
	o := operatorOf(r)
	return SessionView{Writable: g.guard.operators != nil, SignedIn: o.hasScope(ScopeOperate), Operator: o.label()}, nil
}

// logAction begins the log line of an action: its operator and its result.
func (g *Gateway) logAction(r *http.Request, what string, err error) *zerolog.Event {
	e := g.log.Info()
	if err != nil {
		e = g.log.Warn().Str("error", clipTo(err.Error(), maxDetail))
	}
	return e.Str("order", what).Str("operator", operatorOf(r).label()).Str("remote", r.RemoteAddr)
}

// fromPage reports whether a browser sends this request for a page.
func fromPage(r *http.Request) bool {
	return len(r.Header.Values("Origin")) > 0 || r.Header.Get("Sec-Fetch-Site") != ""
}

// sameSite refuses requests that a browser sends for a page of another site. A page whose host name resolves
// to this machine (DNS rebinding) looks like our own. So without tokens, pages are trusted only if their host
// is an IP address or localhost. Tools send no Origin.
func sameSite(r *http.Request, token bool) error {
	if !fromPage(r) {
		return nil
	}
	for _, raw := range r.Header.Values("Origin") {
		if o, err := url.Parse(raw); err != nil || !strings.EqualFold(o.Host, r.Host) || r.TLS != nil && o.Scheme != "https" {
			return errCrossSite
		}
	}
	if err := crossOrigin.Check(r); err != nil || (!token && !plainHost(r.Host)) {
		return errCrossSite
	}
	return nil
}
