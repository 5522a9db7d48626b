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

// throttleFailedAuth answers a request with wrong credentials: as p says, or with 429 and a wait if its
// credential or its address has failed too often. Valid credentials never come here.
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

// codeTooManyFailures is the code of a 429 that replaces a 401.
const codeTooManyFailures = "too_many_failures"

func tooManyFailures(wait time.Duration) *problem {
	return &problem{status: http.StatusTooManyRequests, retry: wait, body: openai.ErrorBody{
		Message: "The credentials are refused, and were too often. Another try with them cannot help; other ones are accepted at once.",
		Type:    "authentication_error", Code: codeTooManyFailures,
	}}
}

// clientAddress returns the address by which failures are counted, or the zero Addr if the address stands for
// many clients: a load balancer's, or a proxy on this machine.
func (g *Gateway) clientAddress(r *http.Request) netip.Addr {
	a := peer.Address(r.RemoteAddr)
	if a.IsLoopback() {
		return netip.Addr{}
	}
	return peer.Client(a, g.opts.Limits.Balancers)
}
