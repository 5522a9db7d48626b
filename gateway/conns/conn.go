package conns

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

// state is what a connection does.
type state int

const (
	waiting state = iota // it is in a queue: no request is being answered
	serving              // a request is being answered
	gone                 // it is closed, or about to be, and not counted any more
)

// conn is an open connection. The table's mutex guards all but Conn.
type conn struct {
	net.Conn
	table    *Table
	from     netip.Addr // by which it counts; of a balancer not set
	balancer bool
	state    state
	since    time.Time // of the state waiting
	links    [2]struct{ before, behind *conn }
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	err := c.Conn.Close() // before its place may be taken: a place is a descriptor
	c.table.leave(c)
	return err
}

// CloseWrite ends what is sent, so that a client that is still sending can read it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// origin tells by which address a connection counts, and whether it is a balancer's. An IPv6
// address counts as its network of 64 bits, which one machine may have whole. Addresses that are
// not IP, such as those of a pipe, are a balancer's.
func (t *Table) origin(remote net.Addr) (from netip.Addr, balancer bool) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, true
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return netip.Addr{}, true
	}
	addr = addr.Unmap()
	if slices.ContainsFunc(t.opts.Balancers, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return netip.Addr{}, true
	}
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr, false
}

// The queues that a connection may be in at once, as indexes of conn.links.
const (
	byTable = iota
	byAddress
)

// queue holds connections that wait, the one that has waited longest first.
type queue struct {
	by          int // index of the links that it uses
	first, last *conn
}

func (q *queue) push(c *conn) {
	c.links[q.by].before = q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.links[q.by].behind = c
	}
	q.last = c
}

func (q *queue) remove(c *conn) {
	l := &c.links[q.by]
	if l.before == nil {
		q.first = l.behind
	} else {
		l.before.links[q.by].behind = l.behind
	}
	if l.behind == nil {
		q.last = l.before
	} else {
		l.behind.links[q.by].before = l.before
	}
	l.before, l.behind = nil, nil
}
