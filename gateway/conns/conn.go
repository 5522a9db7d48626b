package conns

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/foregate/foregate/gateway/peer"
)

// state is what a connection does.
type state int

const (
	waiting state = iota // it is in a queue: no request is being answered
	serving              // a request is being answered
	closed               // it is closed, or about to be, and not counted any more
)

// class is whose connection it is.
type class int

const (
	anonymous     class = iota // somebody's who has not said who he is
	authenticated              // somebody's who has
	balancer                   // a balancer's
	classes                    // how many there are
)

// conn is an open connection. The table's mutex guards all but Conn.
type conn struct {
	net.Conn
	table *Table
	from  netip.Addr // by which it counts; of a balancer not set
	class class      // written where no queue holds it, by the goroutine that answers its requests
	state state
	since time.Time // of the state waiting
	links [2]struct{ before, behind *conn }
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	err := c.Conn.Close() // before its place may be taken: a place is a descriptor
	c.table.forget(c)
	return err
}

// CloseWrite ends what is sent, so that a client that is still sending can read it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// classify tells by which address a connection counts, and whose it is as long as nobody says. Addresses
// that are not IP, such as those of a pipe, are a balancer's.
func (t *Table) classify(remote net.Addr) (from netip.Addr, whose class) {
	tcp, _ := remote.(*net.TCPAddr) // nil has the zero AddrPort
	if from = peer.Client(tcp.AddrPort().Addr(), t.opts.Balancers); !from.IsValid() {
		return from, balancer
	}
	return from, anonymous
}
