package gateway

import (
	"context"
	"crypto/hmac"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/conns"
	"github.com/foregate/foregate/gateway/operator"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	sessionCookie = "foregate_session"
	csrfHeader    = "X-Csrf-Token"
)

// What the admin listener refuses before it knows what for.
var (
	errNoToken = &problem{status: http.StatusUnauthorized, header: [2]string{"WWW-Authenticate", `Bearer realm="foregate"`}, body: openai.ErrorBody{
		Message: "Show an operator's token (admin_tokens_file): Authorization: Bearer TOKEN, or sign in at /console/.", Type: "authentication_error", Code: "no_token",
	}}
	errBadToken = &problem{status: http.StatusUnauthorized, header: [2]string{"WWW-Authenticate", `Bearer realm="foregate"`}, body: openai.ErrorBody{
		Message: "This is no operator's token (admin_tokens_file).", Type: "authentication_error", Code: "bad_token",
	}}
	errReadOnly = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "No tokens are configured here (admin_tokens_file), so pages only show, and nobody changes settings at this listener.", Type: "permission_error", Code: "read_only",
	}}
	errStrangeHost = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "This listener is on loopback, and answers whoever shows no token at an IP address or localhost only.", Type: "permission_error", Code: "strange_host",
	}}
	errCSRF = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: csrfHeader + " is not that of this session, as GET /admin/session tells it.", Type: "permission_error", Code: "bad_csrf",
	}}
)

// errScope refuses a token that is not good for what is asked.
func errScope(want operator.Scope) error {
	challenge := `Bearer realm="foregate", error="insufficient_scope", scope="` + string(want) + `"`
	return &problem{status: http.StatusForbidden, header: [2]string{"WWW-Authenticate", challenge}, body: openai.ErrorBody{
		Message: "This token has not the scope " + string(want) + ", which this path wants (admin_tokens_file).",
		Type:    "permission_error", Code: "wrong_scope",
	}}
}

// noScope is the scope of what tells nothing of anybody, and needs no token.
const noScope operator.Scope = ""

// scopes says what a path of the admin listener wants, whatever the method. "/*" stands for all that is below. A
// path that is not here wants operate, so that one that was forgotten is open to nobody.
var scopes = map[string]operator.Scope{
	"/":              noScope,
	"/livez":         noScope,
	"/readyz":        noScope,
	"/admin/session": noScope, // signing in shows a token of its own
	"/console/*":     noScope, // the pages, which are the same everywhere

	"/metrics": operator.Metrics,

	"/admin/backends": operator.Drain,
	"/admin/drain":    operator.Drain,
	"/admin/undrain":  operator.Drain,
	"/admin/spot":     operator.Drain,

	"/console/live":            operator.Operate,
	"/admin/status":            operator.Operate,
	"/admin/settings":          operator.Operate,
	"/admin/settings/log":      operator.Operate,
	"/admin/settings/rollback": operator.Operate,
	"/admin/cache":             operator.Operate,
	"/admin/cache/purge":       operator.Operate,
	"/admin/risk":              operator.Operate,
	"/admin/tenants":           operator.Operate,
	"/admin/receipts":          operator.Operate,
	"/admin/receipts/*":        operator.Operate,
	"/debug/pprof/*":           operator.Operate,
}

// scopeOf is what a path wants; listed is false where it is not in the table.
func scopeOf(path string) (want operator.Scope, listed bool) {
	if want, listed = scopes[path]; listed {
		return want, true
	}
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path[:at], '/') {
		if want, listed = scopes[path[:at]+"/*"]; listed {
			return want, true
		}
	}
	return operator.Operate, false
}

// guard says who may do what at the admin listener. With tokens, whoever changes something must show one, and where
// the listener is not on loopback whoever looks, too; who shows one may do what its scopes say. Tools show it as a
// bearer key; a page does so once, for a session: a signed cookie that no other site's page can have sent
// (SameSite) or use (the CSRF key, the Origin).
type guard struct {
	operators *operator.Set // nil: no tokens are configured
	local     bool          // the listener is on loopback
}

// caller is who asks the admin listener for something: somebody with a token, somebody in a session, or anybody.
type caller struct {
	operator *operator.Operator // nil: anybody
	session  *operator.Session  // nil: the token itself was shown, or nothing
}

// name is the operator's, "" for anybody.
func (c caller) name() string {
	if c.operator == nil {
		return ""
	}
	return c.operator.Name
}

// author is who the history of the settings says it was.
func (c caller) author() string {
	if c.session != nil {
		return c.name() + " via console"
	}
	return c.name()
}

// identify says who asks. A wrong token is an error, also for what anybody may do.
func (a *guard) identify(r *http.Request) (caller, error) {
	if a.operators == nil {
		return caller{}, nil
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		if o := a.operators.Authenticate(token); o != nil {
			return caller{operator: o}, nil
		}
		return caller{}, errBadToken
	}
	if s := a.session(r); s != nil {
		return caller{operator: s.Operator, session: s}, nil
	}
	return caller{}, nil
}

// session is the one whose cookie a request has, nil where that is not good.
func (a *guard) session(r *http.Request) *operator.Session {
	if a.operators == nil {
		return nil
	}
	for _, c := range r.CookiesNamed(sessionCookie) {
		if s, ok := a.operators.Session(c.Value); ok {
			return &s
		}
	}
	return nil
}

// admit says who asks, and why that is refused; the error is nil where it is not.
func (a *guard) admit(r *http.Request) (caller, error) {
	c, err := a.identify(r)
	if err != nil {
		return c, err
	}
	want, _ := scopeOf(r.URL.Path)
	may := want == noScope || c.operator != nil && c.operator.HasScope(want)
	looks := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case c.operator != nil && !may:
		return c, errScope(want)
	case c.operator != nil && c.session == nil:
		return c, sameSite(r, true)
	case looks && may:
		return c, nil
	case looks && a.local:
		return c, ownLook(r)
	case looks:
		return c, errNoToken
	}
	return c, a.admitChange(r, c)
}

// ownLook refuses looks at a listener on loopback that a browser sends for others: for a page of
// another site, and for one whose name was made to point here (DNS rebinding), which names itself
// in Host. Links from elsewhere may lead here.
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

// admitChange is admit for what is no question, by somebody who shows no token.
func (a *guard) admitChange(r *http.Request, c caller) error {
	if err := sameSite(r, a.operators != nil); err != nil {
		return err
	}
	switch {
	case r.URL.Path == "/admin/session" && c.session == nil:
		return nil
	case c.session != nil:
		if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(c.session.CSRF())) {
			return errCSRF
		}
		return nil
	case a.operators != nil:
		return errNoToken
	case !privateHost(r.Host): // whatever else it leaves out, a browser names the page's host
		return errStrangeHost
	case fromPage(r):
		return errReadOnly
	}
	return nil
}

// callerKey is where a request of the admin listener has its caller.
type callerKey struct{}

// callerOf is who asks, as admit has found.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// guarded lets through what admit does.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := g.guard.admit(r)
		if err != nil {
			g.log.Warn().Str("operator", c.name()).Str("remote", r.RemoteAddr).Str("origin", clip(r.Header.Get("Origin"))).
				Str("method", clip(r.Method)).Str("path", clip(r.URL.Path)).Str("error", problemOf(err).body.Code).Msg("refused at the admin listener")
			conns.CloseAfterResponse(w, r) // whoever may not enter holds no place
			writeProblem(w, problemOf(err))
			return
		}
		if want, _ := scopeOf(r.URL.Path); want != noScope {
			conns.MarkAuthenticated(r)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// logAction begins the line that an order leaves in the log: who gave it, and what came of it.
func (g *Gateway) logAction(r *http.Request, what string, err error) *zerolog.Event {
	e := g.log.Info()
	if err != nil {
		e = g.log.Warn().Str("error", clipTo(err.Error(), maxDetail))
	}
	return e.Str("order", what).Str("operator", callerOf(r).name()).Str("remote", r.RemoteAddr)
}

// whileAdmitted sends nothing more of an answer from when its request would be refused: the token is gone, or the
// session is over. It is for streams; orders are finished, and answered.
func (g *Gateway) whileAdmitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&admittedWriter{ResponseWriter: w, admit: func() error { _, err := g.guard.admit(r); return err }}, r)
	})
}

type admittedWriter struct {
	http.ResponseWriter
	admit func() error
}

// Write fails where the request is not admitted any more.
func (w *admittedWriter) Write(p []byte) (int, error) {
	if err := w.admit(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *admittedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fromPage reports whether a browser sends this for a page.
func fromPage(r *http.Request) bool {
	return len(r.Header.Values("Origin")) > 0 || r.Header.Get("Sec-Fetch-Site") != ""
}

// sameSite refuses what a browser sends on behalf of another site's page. A page
// whose name was made to point here (DNS rebinding) looks like one of our own, so where none
// has to show anything they are believed on an IP address or localhost only; tools send no Origin.
func sameSite(r *http.Request, token bool) error {
	if !fromPage(r) {
		return nil
	}
	for _, raw := range r.Header.Values("Origin") {
		if o, err := url.Parse(raw); err != nil || !strings.EqualFold(o.Host, r.Host) {
			return errCrossSite
		}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil || (!token && !plainHost(r.Host)) {
		return errCrossSite
	}
	return nil
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
