package vllmsim

import (
	"net/netip"
	"syscall"
)

// holdPort binds addr without listening, so that connections are refused, as those to a vLLM that is still loading are,
// and nobody is given the port in the meantime. The returned function lets go; nil means that the port could not be held.
func holdPort(addr string) func() {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil
	}
	family, sa := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()})
	if ap.Addr().Is4() {
		family, sa = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) // as Go's listeners do: both can be bound
	if syscall.Bind(fd, sa) != nil {
		_ = syscall.Close(fd)
		return nil
	}
	return func() { _ = syscall.Close(fd) }
}
