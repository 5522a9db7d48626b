package config

import (
	"fmt"
	"net/netip"
)

// checkNetworks checks a list of CIDRs; every is the error for one that contains all addresses.
func (r reader) checkNetworks(path string, list []string, every string) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			r.Fail(at, "want a CIDR such as 10.0.0.0/16, or 10.0.0.7/32 for one address")
		case p.Addr().Is4In6():
			r.Fail(at, "write the IPv4 network itself, such as 10.0.0.0/16")
		case p != p.Masked():
			r.Fail(at, "has address bits behind its length; write %s", p.Masked())
		case p.Bits() == 0:
			r.Fail(at, "%s", every)
		}
	}
}
