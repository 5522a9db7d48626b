package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/foregate/foregate/gateway/operator"
)

// SessionView is the answer to GET /admin/session.
type SessionView struct {
	Writable bool   `json:"writable"` // tokens are configured
	SignedIn bool   `json:"signed_in"`
	Operator string `json:"operator"` // who is signed in; "" without a session
	CSRF     string `json:"csrf"`     // for X-Csrf-Token; "" without a session
}

// SignOutResult is the answer to DELETE /admin/session.
type SignOutResult struct {
	SessionView
	Shared  bool   `json:"shared"` // the other replicas know it
	Message string `json:"message,omitempty"`
}

// sessionView describes a session; nil means none.
func (g *Gateway) sessionView(s *operator.Session) SessionView {
	if s == nil {
		return SessionView{Writable: g.guard.operators != nil}
	}
	return SessionView{Writable: true, SignedIn: true, Operator: s.Operator.Name, CSRF: s.CSRF()}
}

func (g *Gateway) session(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, g.sessionView(g.guard.session(r)))
}

// signIn answers POST /admin/session {"token":"…"} with a session.
func (g *Gateway) signIn(w http.ResponseWriter, r *http.Request) {
	if g.guard.operators == nil {
		writeProblem(w, errReadOnly)
		return
	}
	body, err := readActionBody(w, r)
	if err != nil {
		writeProblem(w, g.actionProblem(err))
		return
	}
	var payload struct{ Token string }
	if json.Unmarshal(body, &payload) != nil {
		payload.Token = ""
	}
	o := g.guard.operators.Authenticate(payload.Token)
	if err := maySignIn(o); err != nil {
		g.log.Warn().Str("operator", caller{operator: o}.name()).Str("remote", r.RemoteAddr).Str("error", problemOf(err).body.Code).
			Msg("sign-in at the console refused")
		writeProblem(w, problemOf(err))
		return
	}
	g.log.Info().Str("operator", o.Name).Str("remote", r.RemoteAddr).Msg("signed in at the console")
	s := g.guard.operators.BeginSession(o)
	http.SetCookie(w, g.cookie(r, s.Value, int(operator.SessionLifetime.Seconds())))
	writeJSON(w, g.sessionView(&s))
}

// maySignIn returns why an operator may not sign in: pages need all scopes.
func maySignIn(o *operator.Operator) error {
	switch {
	case o == nil:
		return errBadToken
	case !o.HasScope(operator.Operate):
		return errScope(operator.Operate)
	}
	return nil
}

// signOut answers DELETE /admin/session: the session ends for everybody with its cookie, and the browser
// deletes the cookie.
func (g *Gateway) signOut(w http.ResponseWriter, r *http.Request) {
	out := SignOutResult{SessionView: g.sessionView(nil), Shared: true}
	if s := g.guard.session(r); s != nil {
		if err := g.guard.operators.EndSession(context.WithoutCancel(r.Context()), *s); err != nil {
			out.Shared, out.Message = false, "Signed out at this replica. The others take the session until Redis is back."
		}
		g.log.Info().Str("operator", s.Operator.Name).Str("remote", r.RemoteAddr).Bool("shared", out.Shared).Msg("signed out at the console")
	}
	http.SetCookie(w, g.cookie(r, "", -1))
	writeJSON(w, out)
}

// cookie is the session's cookie. Browsers send it over TLS only, if the listener or a proxy before it speaks that.
func (g *Gateway) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: g.opts.AdminTLS != nil || r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}
