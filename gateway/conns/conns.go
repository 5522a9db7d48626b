// Package conns bounds the open client connections of a listener. Start at [New] and [Table.Guard]. It
// guarantees that at most Options.Max connections are open, and at most Options.MaxPerAddress from one
// address that is not a load balancer's. If the table is full, a new connection replaces a waiting one: the
// one that has waited longest, of the same address if that address has reached its limit. A connection is
// waiting while no request is being answered on it: it is idle, has sent nothing yet, or has sent an
// incomplete header. A connection whose request is being answered is never closed. Authenticated connections
// ([MarkAuthenticated]) are replaced only while waiting anonymous ones hold less than a quarter of the slots.
// The fuller the table, the sooner idle connections are closed ([idleTime]). From three quarters on, answers
// also close their connections, so that no client loses a request. Connections of load balancers carry the
// requests of many clients: they are counted like all others, but are replaced only if no other connection
// waits. With HTTP/2 one connection carries several requests at once: the second and further ones are bounded by the same
// two numbers, so that few connections cannot start more handlers than many could.
package conns

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options describe a [Table].
type Options struct {
	Listener      string                // its name, a label of the metrics
	Max           int                   // connections that may be open at once, at least 1
	MaxPerAddress int                   // of these, from one address; 0 is Max. IPv6 addresses count by their first 64 bits
	Balancers     []netip.Prefix        // addresses whose connections carry many clients
	MaxIdle       time.Duration         // longest idle time while the table has free slots
	Registerer    prometheus.Registerer // nil registers nothing
}

// Table holds the open connections of one listener. It is safe for concurrent use.
type Table struct {
	opts    Options
	metrics *metrics

	mu        sync.Mutex
	open      map[*conn]struct{}
	requests  int                     // in progress, of open connections
	addresses map[netip.Addr]*address // with open connections; without load balancers
	waiting   waitingConns
}

// address holds the connections of one address.
type address struct {
	open     int
	requests int // in progress
	waiting  waitingConns
}

// New makes an empty table.
func New(o Options) *Table {
	if o.MaxPerAddress == 0 {
		o.MaxPerAddress = o.Max
	}
	t := &Table{opts: o, open: map[*conn]struct{}{}, addresses: map[netip.Addr]*address{}, waiting: newWaitingConns(byTable)}
	t.metrics = newMetrics(t)
	return t
}

// Guard lets the table track the connections of s, and sets their idle time. Call it before s serves a
// listener of [Table.Listen].
func (t *Table) Guard(s *http.Server) {
	s.Handler = t.handler(s.Handler)
	s.IdleTimeout = t.opts.MaxIdle
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, trackedConn(c))
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch own := trackedConn(c); {
		case own == nil:
		case state == http.StateActive:
			own.idle.Store(false)
		case state == http.StateIdle:
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

// Listen bounds the connections that ln accepts.
func (t *Table) Listen(ln net.Listener) net.Listener { return &listener{ln, t} }

type listener struct {
	net.Listener
	table *Table
}

// Accept returns the next connection that gets a slot. Others are reset: a client that is still sending could
// not read an answer, and waiting for it would take a slot.
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
			_ = tcp.SetLinger(0) // reset instead of an orderly close
		}
		_ = raw.Close() // no data was exchanged
	}
}

// admit gives a connection a slot; nil means none is free.
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
		_ = victim.Conn.Close() // the client may be gone
	case !admitted:
		t.metrics.refused.WithLabelValues(reason).Inc()
		return nil
	}
	return c
}

// findVictim returns the reason why c has no free slot, and the connection that may be closed for it, nil if
// there is none. t.mu is held.
func (t *Table) findVictim(c *conn) (victim *conn, reason string) {
	if a := t.addresses[c.from]; a != nil && a.open >= t.opts.MaxPerAddress {
		return a.waiting.victim(t.opts.MaxPerAddress), reasonAddress
	}
	if len(t.open) < t.opts.Max {
		return nil, ""
	}
	return t.waiting.victim(t.opts.Max), reasonFull
}

// sweep closes connections that are idle for too long, anonymous ones first, and of each class the oldest.
// Each closed one frees a slot, so the next may stay longer.
func (t *Table) sweep(now time.Time) {
	var victims []*conn
	t.mu.Lock()
	for _, q := range []*queue{&t.waiting.byClass[anonymous], &t.waiting.byClass[authenticated]} {
		for c := q.first; c != nil && now.Sub(c.since) > idleTime(len(t.open), t.opts.Max, t.opts.MaxIdle); c = q.first {
			t.remove(c)
			victims = append(victims, c)
		}
	}
	t.mu.Unlock()
	for _, c := range victims {
		t.metrics.closed.WithLabelValues(reasonIdle).Inc()
		_ = c.Conn.Close() // the client may be gone
	}
}

// add registers a new connection, which waits for its first request. t.mu is held.
func (t *Table) add(c *conn, now time.Time) {
	t.open[c] = struct{}{}
	if c.class != balancer {
		if t.addresses[c.from] == nil {
			t.addresses[c.from] = &address{waiting: newWaitingConns(byAddress)}
		}
		c.of = t.addresses[c.from]
		c.of.open++
	}
	t.enqueue(c, now)
}

// remove removes a connection that is closed or will be. t.mu is held.
func (t *Table) remove(c *conn) {
	t.dequeue(c)
	c.state = closed
	delete(t.open, c)
	t.countRequests(c, -c.handlers)
	if c.of == nil {
		return
	}
	if c.of.open--; c.of.open == 0 {
		delete(t.addresses, c.from)
	}
}

// enqueue appends a connection to the waiting ones. t.mu is held.
func (t *Table) enqueue(c *conn, now time.Time) {
	c.state, c.since = waiting, now
	t.waiting.push(c)
	if c.of != nil {
		c.of.waiting.push(c)
	}
}

// dequeue removes a connection from the waiting ones, if it is one of them. t.mu is held.
func (t *Table) dequeue(c *conn) {
	if c.state != waiting {
		return
	}
	t.waiting.remove(c)
	if c.of != nil {
		c.of.waiting.remove(c)
	}
}

// wait records that the server waits for the next request of c.
func (t *Table) wait(c *conn, now time.Time) {
	c.idle.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueueIfDone(c, now)
}

// answered records that a handler has ended.
func (t *Table) answered(c *conn, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state != closed { // remove has subtracted those of a closed connection
		t.countRequests(c, -1)
	}
	c.handlers--
	t.enqueueIfDone(c, now)
}

// enqueueIfDone appends c to the waiting connections if all of its requests were answered. t.mu is held.
func (t *Table) enqueueIfDone(c *conn, now time.Time) {
	if c.state == serving && c.handlers == 0 && c.idle.Load() {
		t.enqueue(c, now)
	}
}

// countRequests adds to the number of requests in progress. t.mu is held.
func (t *Table) countRequests(c *conn, n int) {
	t.requests += n
	if c.of != nil {
		c.of.requests += n
	}
}

// Reasons why a request is not answered.
var (
	errClosed  = errors.New("the connection is gone")
	errCrowded = errors.New("too many requests at once on connections with several")
)

// serve records that a request is being answered; last means that its answer should close the connection. The second
// and further requests at once of a connection (HTTP/2) count like connections: there are at most as many in total, and
// of one address.
func (t *Table) serve(c *conn) (last bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.state == closed:
		return false, errClosed
	case c.handlers == 0:
	case t.requests >= t.opts.Max:
		t.metrics.refusedStreams.WithLabelValues(reasonFull).Inc()
		return false, errCrowded
	case c.of != nil && c.of.requests >= t.opts.MaxPerAddress:
		t.metrics.refusedStreams.WithLabelValues(reasonAddress).Inc()
		return false, errCrowded
	}
	t.dequeue(c)
	c.state = serving
	c.handlers++
	t.countRequests(c, 1)
	return c.class != balancer && nearlyFull(len(t.open), t.opts.Max), nil
}

// forget records that a connection is closed.
func (t *Table) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state != closed {
		t.remove(c)
	}
}

// count is the number of open connections.
func (t *Table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

type connKey struct{}

// handler tells the table which connections have a request in progress.
func (t *Table) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r); c != nil {
			last, err := t.serve(c)
			if err != nil {
				panic(http.ErrAbortHandler) // the client is gone, or its stream is reset: an answer might never be read
			}
			defer func() { t.answered(c, time.Now()) }()
			if last {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// connOf returns the connection of a request, nil if the table does not track it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// CloseAfterResponse closes a request's connection after its answer, unless it is a load balancer's. With HTTP/2 the
// client sends new requests on another one, and those in progress are answered before it is closed.
func CloseAfterResponse(w http.ResponseWriter, r *http.Request) {
	if c := connOf(r); c == nil || c.of != nil {
		w.Header().Set("Connection", "close")
	}
}

// MarkAuthenticated records that the client of a request is authenticated.
func MarkAuthenticated(r *http.Request) {
	if c := connOf(r); c != nil && !c.known.Load() {
		c.markAuthenticated()
	}
}

// markAuthenticated changes an anonymous connection with a request in progress to an authenticated one.
func (c *conn) markAuthenticated() {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.state == serving && c.class == anonymous {
		c.class = authenticated
	}
	c.known.Store(c.class != anonymous)
}

// Abort closes a request's connection at once. It is for a client that takes no bytes: requests that share the
// connection fail, too.
func Abort(r *http.Request) {
	if c := connOf(r); c != nil {
		_ = c.Close() // the client may be gone
	}
}

// Abort closes all connections at once, without a word to their clients: TLS would wait for clients that take no
// bytes.
func (t *Table) Abort() {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // the client may be gone
	}
}
