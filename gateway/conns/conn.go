package conns

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway/peer"
)

// state is the state of a connection.
type state int

const (
	waiting state = iota // in a queue: no request is being answered
	serving              // a request is being answered
	closed               // closed, or being closed; no longer counted
)

// class is the kind of a connection's client.
type class int

const (
	anonymous     class = iota // not authenticated yet
	authenticated              // authenticated by a request
	balancer                   // a balancer's
	classes                    // number of classes
)

// conn is an open connection. The table's mutex guards all fields except Conn, table, from and of, which do not
// change, and the atomic ones.
type conn struct {
	net.Conn
	table *Table
	from  netip.Addr // address that it counts for; not set for a load balancer
	of    *address   // that of from; nil for a load balancer
	class class      // written while no queue holds it
	state state
	since time.Time // start of the state waiting
	links [2]struct{ before, behind *conn }

	// A connection with HTTP/2 has several requests at once, and the server reports it idle as soon as their streams are
	// closed, which a client can do before their handlers have ended. So it waits if it is idle and has no handlers.
	handlers int         // that answer its requests now
	idle     atomic.Bool // the server has reported so since the last request arrived

	known atomic.Bool // it needs no [MarkAuthenticated] any more: saves each request a lock
}

// trackedConn returns the table's connection of one that the server has: the same, or the one below TLS. nil is none.
func trackedConn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// Close closes the connection and frees its slot.
func (c *conn) Close() error {
	err := c.Conn.Close() // before its slot is free: a slot is a file descriptor
	c.table.forget(c)
	return err
}

// CloseWrite closes the sending side, so that a client that is still sending can read the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// classify returns the address that a connection counts for, and its class before authentication. Addresses
// that are not IP (pipes) count as a load balancer's.
func (t *Table) classify(remote net.Addr) (from netip.Addr, whose class) {
	tcp, _ := remote.(*net.TCPAddr) // a nil *TCPAddr has the zero AddrPort
	if from = peer.Client(tcp.AddrPort().Addr(), t.opts.Balancers); !from.IsValid() {
		return from, balancer
	}
	return from, anonymous
}
