// Package conns bounds the connections that clients hold open at a listener. Start at [New] and
// [Table.Guard].
//
// It guarantees that no more than Options.Max connections are open, and no more than
// Options.MaxPerAddress from one address that is no balancer's. A new connection finds room as
// long as one that is open waits: the one that has waited longest is closed for it, the address's
// own where that has its share. A connection waits while no request is being answered on it: it
// is idle, has asked nothing yet, or has sent half of a header. One whose request is being
// answered is never closed. Connections on which somebody has said who he is ([Know]) are closed
// for a new one only while fewer than a quarter of the places are of strangers who wait.
//
// The fuller the table, the sooner idle connections are closed ([idleTime]); before that, answers
// end their connections, so that no client loses a request. Connections of balancers carry the
// requests of many clients: they count as all others, but are closed only where no other waits.
package conns

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options describe a [Table].
type Options struct {
	Listener      string                // its name, a label of the metrics
	Max           int                   // connections that may be open at once, at least 1
	MaxPerAddress int                   // of those, from one address; 0 is Max. IPv6 addresses are told apart by their first 64 bits
	Balancers     []netip.Prefix        // addresses whose connections carry many clients
	MaxIdle       time.Duration         // how long a connection may wait for its next request while there is room
	Registerer    prometheus.Registerer // nil registers nothing
}

// Table holds the open connections of one listener. It is safe for concurrent use.
type Table struct {
	opts    Options
	metrics *metrics

	mu        sync.Mutex
	open      int
	addresses map[netip.Addr]*address // that have open connections; balancers are not in it
	waiting   waitingConns
}

// address is what one address holds.
type address struct {
	open    int
	waiting waitingConns
}

// New makes a table that is empty.
func New(o Options) *Table {
	if o.MaxPerAddress == 0 {
		o.MaxPerAddress = o.Max
	}
	t := &Table{opts: o, addresses: map[netip.Addr]*address{}, waiting: newWaitingConns(byTable)}
	t.metrics = newMetrics(t)
	return t
}

// Guard has the table follow the connections of s, and sets how long they may be idle. It is
// called before s serves a listener of [Table.Listen].
func (t *Table) Guard(s *http.Server) {
	s.Handler = t.handler(s.Handler)
	s.IdleTimeout = t.opts.MaxIdle
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if own, ok := c.(*conn); ok && state == http.StateIdle {
			t.wait(own, time.Now())
		}
	}
}

// Run closes connections that are idle for too long, until ctx ends.
func (t *Table) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			t.sweep(now)
		}
	}
}

// Listen bounds what ln accepts.
func (t *Table) Listen(ln net.Listener) net.Listener { return &listener{ln, t} }

type listener struct {
	net.Listener
	table *Table
}

// Accept waits for the next connection that finds room. Those that find none are reset: an answer
// could not be read by a client that is still sending, and to wait for it would take the place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.table.admit(raw, time.Now()); c != nil {
			return c, nil
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset; without it an orderly end
		}
		_ = raw.Close() // nothing was said on it
	}
}

// admit gives a connection a place, nil where there is none.
func (t *Table) admit(raw net.Conn, now time.Time) *conn {
	c := &conn{Conn: raw, table: t}
	c.from, c.class = t.classify(raw.RemoteAddr())
	t.mu.Lock()
	victim, reason := t.findVictim(c)
	if victim != nil {
		t.remove(victim)
	}
	admitted := victim != nil || reason == ""
	if admitted {
		t.add(c, now)
	}
	t.mu.Unlock()
	switch {
	case victim != nil:
		t.metrics.closed.WithLabelValues(reason).Inc()
		_ = victim.Conn.Close() // its client may be gone
	case !admitted:
		t.metrics.refused.WithLabelValues(reason).Inc()
		return nil
	}
	return c
}

// findVictim tells why there is no room for c as it is, and which connection may be closed for it, nil
// where none may. t.mu is held.
func (t *Table) findVictim(c *conn) (victim *conn, reason string) {
	if a := t.addresses[c.from]; a != nil && a.open >= t.opts.MaxPerAddress {
		return a.waiting.victim(t.opts.MaxPerAddress), reasonAddress
	}
	if t.open < t.opts.Max {
		return nil, ""
	}
	return t.waiting.victim(t.opts.Max), reasonFull
}

// sweep closes the connections that are idle for too long, strangers' first, and of each kind the
// oldest. Each that goes makes room, so that the next may stay for longer.
func (t *Table) sweep(now time.Time) {
	var victims []*conn
	t.mu.Lock()
	for _, q := range []*queue{&t.waiting.byClass[anonymous], &t.waiting.byClass[authenticated]} {
		for c := q.first; c != nil && now.Sub(c.since) > idleTime(t.open, t.opts.Max, t.opts.MaxIdle); c = q.first {
			t.remove(c)
			victims = append(victims, c)
		}
	}
	t.mu.Unlock()
	for _, c := range victims {
		t.metrics.closed.WithLabelValues(reasonIdle).Inc()
		_ = c.Conn.Close() // its client may be gone
	}
}

// add books a new connection, which waits for its first request. t.mu is held.
func (t *Table) add(c *conn, now time.Time) {
	t.open++
	if c.class != balancer {
		if t.addresses[c.from] == nil {
			t.addresses[c.from] = &address{waiting: newWaitingConns(byAddress)}
		}
		t.addresses[c.from].open++
	}
	t.enqueue(c, now)
}

// remove forgets a connection that is to be closed, or is. t.mu is held.
func (t *Table) remove(c *conn) {
	t.dequeue(c)
	c.state = closed
	t.open--
	if c.class == balancer {
		return
	}
	a := t.addresses[c.from]
	if a.open--; a.open == 0 {
		delete(t.addresses, c.from)
	}
}

// enqueue puts a connection behind all that wait. t.mu is held.
func (t *Table) enqueue(c *conn, now time.Time) {
	c.state, c.since = waiting, now
	t.waiting.push(c)
	if a := t.addresses[c.from]; c.class != balancer {
		a.waiting.push(c)
	}
}

// dequeue takes a connection out of those that wait, where it is one. t.mu is held.
func (t *Table) dequeue(c *conn) {
	if c.state != waiting {
		return
	}
	t.waiting.remove(c)
	if a := t.addresses[c.from]; c.class != balancer {
		a.waiting.remove(c)
	}
}

// wait notes that a request was answered, and the next one has not come.
func (t *Table) wait(c *conn, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state == serving {
		t.enqueue(c, now)
	}
}

// errClosed is of a connection that was closed while its request arrived.
var errClosed = errors.New("the connection is gone")

// serve notes that a request is being answered; last tells that its answer should end the connection.
func (t *Table) serve(c *conn) (last bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state == closed {
		return false, errClosed
	}
	t.dequeue(c)
	c.state = serving
	return c.class != balancer && nearlyFull(t.open, t.opts.Max), nil
}

// forget notes that a connection is closed.
func (t *Table) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state != closed {
		t.remove(c)
	}
}

// count is how many connections are open.
func (t *Table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

type connKey struct{}

// handler tells the table which connections have a request to answer.
func (t *Table) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			last, err := t.serve(c)
			if err != nil {
				panic(http.ErrAbortHandler) // nobody would hear the answer
			}
			if last {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// CloseAfterResponse has the connection of a request end with its answer, unless it is a balancer's.
func CloseAfterResponse(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*conn); !ok || c.class != balancer {
		w.Header().Set("Connection", "close")
	}
}

// MarkAuthenticated notes that the client of a request has said who he is.
func MarkAuthenticated(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.class == anonymous {
		c.markAuthenticated()
	}
}

// markAuthenticated makes a known client of a stranger whose request is being answered.
func (c *conn) markAuthenticated() {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.state == serving && c.class == anonymous {
		c.class = authenticated
	}
}
