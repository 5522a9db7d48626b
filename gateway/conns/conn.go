package conns

import (
	"errors"
	"net"
	"net/netip"
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

// conn is an open connection. The table's mutex guards all fields except Conn.
type conn struct {
	net.Conn
	table *Table
	from  netip.Addr // address that it counts for; not set for a load balancer
	class class      // written while no queue holds it, by the goroutine that answers its requests
	state state
	since time.Time // start of the state waiting
	links [2]struct{ before, behind *conn }
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
