package gateway

import (
	"net/http"
)

// SessionView is the answer to GET /admin/session: what the console may do with the token that it sent.
type SessionView struct {
	Writable bool   `json:"writable"`  // tokens are configured
	SignedIn bool   `json:"signed_in"` // the token has the scope operate, which the pages need
	Operator string `json:"operator"`  // whose token it is; "" without one
}

func (g *Gateway) session(w http.ResponseWriter, r *http.Request) {
	c := callerOf(r)
	writeJSON(w, SessionView{
		Writable: g.guard.operators != nil,
		SignedIn: c.operator != nil && c.operator.hasScope(ScopeOperate),
		Operator: c.name(),
	})
}
