package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/foregate/foregate/gateway/conns"
	"github.com/foregate/foregate/gateway/operator"
)

// Session is what GET /admin/session tells a page of itself.
type Session struct {
	Writable bool   `json:"writable"` // tokens are configured
	SignedIn bool   `json:"signed_in"`
	Operator string `json:"operator"` // who is signed in; "" without a session
	CSRF     string `json:"csrf"`     // for X-Csrf-Token; "" without a session
}

// SignedOut is the answer to DELETE /admin/session.
type SignedOut struct {
	Session
	Shared  bool   `json:"shared"` // the other replicas know
	Message string `json:"message,omitempty"`
}

// sessionView tells of a session; nil is none.
func (g *Gateway) sessionView(s *operator.Session) Session {
	if s == nil {
		return Session{Writable: g.guard.operators != nil}
	}
	return Session{Writable: true, SignedIn: true, Operator: s.Operator.Name, CSRF: s.CSRF()}
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
	body, err := readOrder(w, r)
	if err != nil {
		writeProblem(w, g.orderProblem(err))
		return
	}
	var said struct{ Token string }
	if json.Unmarshal(body, &said) != nil {
		said.Token = ""
	}
	o := g.guard.operators.Of(said.Token)
	if err := maySignIn(o); err != nil {
		g.log.Warn().Str("operator", caller{operator: o}.name()).Str("remote", r.RemoteAddr).Str("error", problemOf(err).body.Code).
			Msg("sign-in at the console refused")
		conns.Close(w, r)
		writeProblem(w, problemOf(err))
		return
	}
	g.log.Info().Str("operator", o.Name).Str("remote", r.RemoteAddr).Msg("signed in at the console")
	s := g.guard.operators.Begin(o)
	http.SetCookie(w, cookie(r, s.Value, int(operator.SessionTime.Seconds())))
	writeJSON(w, g.sessionView(&s))
}

// maySignIn says why somebody may not; pages ask for all there is.
func maySignIn(o *operator.Operator) error {
	switch {
	case o == nil:
		return errBadToken
	case !o.May(operator.Operate):
		return errScope(operator.Operate)
	}
	return nil
}

// signOut answers DELETE /admin/session: the session is over, whoever has its cookie, and the browser forgets it.
func (g *Gateway) signOut(w http.ResponseWriter, r *http.Request) {
	out := SignedOut{Session: g.sessionView(nil), Shared: true}
	if s := g.guard.session(r); s != nil {
		if err := g.guard.operators.End(context.WithoutCancel(r.Context()), *s); err != nil {
			out.Shared, out.Message = false, "Signed out at this replica. The others take the session until Redis is back."
		}
		g.log.Info().Str("operator", s.Operator.Name).Str("remote", r.RemoteAddr).Bool("shared", out.Shared).Msg("signed out at the console")
	}
	http.SetCookie(w, cookie(r, "", -1))
	writeJSON(w, out)
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}
