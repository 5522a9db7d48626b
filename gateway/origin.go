package gateway

import (
	"net"
	"net/http"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// What a listener that asks nobody for a key refuses of browsers.
var (
	errOpenHost = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "No key is asked for here, so requests are taken at an IP address, localhost or a name under .localhost or .internal only: " +
			"any other name may have been pointed here by a web page. Ask at one of those, or give tenants keys.",
		Type: "permission_error", Code: "strange_host",
	}}
	errOpenPage = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "This request comes from a page of another site. No key is asked for here, " +
			"so pages must have been loaded from the address that they ask, such as through a proxy of their own; or give tenants keys.",
		Type: "permission_error", Code: "cross_site",
	}}
)

// ownPage refuses what a browser sends to an open listener for a page that was not loaded from the
// address it asks. Host must be private: a page whose own name was made to point here (DNS
// rebinding) cannot write another Host than that name. A browser always sends one, so none is a
// tool's. Reading across sites is refused by the browser, because no answer allows it.
func ownPage(r *http.Request) error {
	if r.Host != "" && !privateHost(r.Host) {
		return errOpenHost
	}
	if http.NewCrossOriginProtection().Check(r) != nil {
		return errOpenPage
	}
	return nil
}

// privateHost tells whether no public name server decides where host leads to: it is an address,
// localhost, or a name under one of the reserved .localhost (RFC 6761) and .internal (ICANN), such
// as host.docker.internal.
func privateHost(host string) bool {
	if plainHost(host) {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(host)
	return strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}
