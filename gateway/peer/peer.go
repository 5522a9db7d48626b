// Package peer determines the address that a client is counted by. Start at [Client]. All its addresses are
// plain: IPv4 as IPv4, and without a zone, because no prefix contains an address with one.
package peer

import (
	"net/netip"
	"slices"
)

// Address is the IP address of a socket address, such as http.Request.RemoteAddr. It is the zero Addr for
// anything else.
func Address(socket string) netip.Addr {
	ap, _ := netip.ParseAddrPort(socket) // the zero AddrPort with an error
	return plain(ap.Addr())
}

// Within reports whether an address is in one of the networks. The zero Addr is in none.
func Within(a netip.Addr, networks []netip.Prefix) bool {
	a = plain(a)
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Client is the address that the client at a is counted by: an IPv4 address, or the first 64 bits of an IPv6
// address, because one machine may own all of them. It is the zero Addr for a load balancer's address, which
// stands for many clients, and for the zero Addr.
func Client(a netip.Addr, balancers []netip.Prefix) netip.Addr {
	a = plain(a)
	switch {
	case Within(a, balancers):
		return netip.Addr{}
	case a.Is6():
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
