package gateway

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/foregate/foregate/gateway/authbackoff"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/peer"
	"github.com/foregate/foregate/tiers/openai"
)

// throttleFailedAuth is how a request ends whose credentials were not believed: as p says, or, where its credential or its
// address has failed too often, with a wait. Right credentials never come here.
func (g *Gateway) throttleFailedAuth(l *accessRecord, r *http.Request, err error, p *problem) *problem {
	e, ok := errors.AsType[*identity.Error](err)
	if !ok || e.Kind != identity.Unauthorized || p.status != http.StatusUnauthorized {
		return p
	}
	v := g.authFailures.Fail(authbackoff.Failure{Credential: r.Header.Get(e.Header), Address: g.clientAddress(r)})
	l.quiet = v.Quiet
	if v.Wait == 0 {
		return p
	}
	if v.Began && !v.Quiet {
		g.log.Warn().Str("request_id", l.ID).Str("remote", clip(r.RemoteAddr)).Dur("wait_ms", v.Wait).
			Msg("a credential or an address fails to authenticate again and again, and is told to wait")
	}
	return tooManyFailures(v.Wait)
}

// codeTooManyFailures is the code of a 429 in the place of a 401.
const codeTooManyFailures = "too_many_failures"

func tooManyFailures(wait time.Duration) *problem {
	return &problem{status: http.StatusTooManyRequests, retry: wait, body: openai.ErrorBody{
		Message: "The credentials are refused, and were too often. Another try with them cannot help; other ones are accepted at once.",
		Type:    "authentication_error", Code: codeTooManyFailures,
	}}
}

// clientAddress is that by which the client of a request counts, or the zero Addr where it speaks for many
// clients: a balancer's, or that of a proxy on this machine.
func (g *Gateway) clientAddress(r *http.Request) netip.Addr {
	a := peer.Address(r.RemoteAddr)
	if a.IsLoopback() {
		return netip.Addr{}
	}
	return peer.Client(a, g.opts.Limits.Balancers)
}
