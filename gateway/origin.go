package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Refusals of browser requests at a listener without keys.
var (
	errOpenHost = refuse("strange_host", "No key is asked for here, so requests are taken at an IP address, localhost or a name under .localhost or .internal only: "+
		"any other name may have been pointed here by a web page. Ask at one of those, or give tenants keys.")
	errOpenPage = refuse("cross_site", "This request comes from a page of another site. No key is asked for here, "+
		"so pages must have been loaded from the address that they ask, such as through a proxy of their own; or give tenants keys.")
)

// crossOrigin recognizes the requests of other sites' pages. It is never changed.
var crossOrigin = http.NewCrossOriginProtection()

// ownPage refuses browser requests to an open listener unless their page was loaded from the same address.
// Host must be private: a page whose own host name resolves to this machine (DNS rebinding) cannot send
// another Host. A browser always sends Origin for such a request, so a request without it comes from a tool.
// Browsers refuse cross-site reads themselves, because no answer allows them.
func ownPage(r *http.Request) error {
	if r.Host != "" && !privateHost(r.Host) {
		return errOpenHost
	}
	if crossOrigin.Check(r) != nil {
		return errOpenPage
	}
	return nil
}

// privateHost reports whether no public name server controls host: it is an IP address, localhost, or a name
// under the reserved .localhost (RFC 6761) and .internal (ICANN), such as host.docker.internal.
func privateHost(host string) bool {
	if plainHost(host) {
		return true
	}
	host = strings.ToLower(withoutPort(host))
	return strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}

// withoutPort returns a Host header without its port.
func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// plainHost reports whether only this machine or its network can resolve host.
func plainHost(host string) bool {
	host = withoutPort(host)
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
