package http1

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Options configure a Transport.
type Options struct {
	// Dial opens a TCP connection to HOST:PORT, DialTLS one with TLS as the request's identity says, which may be nil. They
	// enforce bounds of their own. nil is a [net.Dialer] and a [tls.Dialer].
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	DialTLS func(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error)

	MaxConns    int           // per server, in use and idle; 0 is 4096
	MaxIdle     int           // per server; 0 is 512
	IdleTimeout time.Duration // after which an idle connection is closed; 0 is 4 s
}

// complete sets the defaults.
func (o Options) complete() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.DialTLS == nil {
		o.DialTLS = func(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
		}
	}
	if o.MaxConns == 0 {
		o.MaxConns = 4096
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = 512
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 4 * time.Second
	}
	return o
}

// pools are the connections to all servers, by base URL and TLS identity. There is a pool only for a server with
// connections or with requests that wait for one, so the map is bounded by the requests.
type pools struct {
	options Options

	mu     sync.Mutex
	byKey  map[key]*pool
	closed bool
	sweep  *time.Timer // closes idle connections on time
	armed  bool        // it runs: there are idle connections, or there were a moment ago
}

// key names a pool. Requests to one URL with two TLS identities share no connection.
type key struct {
	base   string
	config *tls.Config
}

// pool are the connections to one server. It is guarded by pools.mu.
type pool struct {
	server
	key     key
	open    int           // connections, also those being opened
	idle    []*pooledConn // the one used last is the last
	waiting []*waiter     // for a connection, since there are too many; the first came first
}

// pooledConn is a connection of a pool.
type pooledConn struct {
	conn
	pool      *pool
	used      bool // it has served a request
	idleSince time.Time
}

func newPooledConn(p *pool, rwc net.Conn) *pooledConn {
	c := &pooledConn{pool: p}
	c.init(rwc)
	return c
}

// waiter is a request that waits for a connection.
type waiter struct {
	// given gets one value: a connection, or nil for the right to open one, which is counted in pool.open.
	given chan *pooledConn
}

// get returns a connection to the server: an idle one, or a new one.
func (ps *pools) get(ctx context.Context, k key, until time.Time) (*pooledConn, error) {
	for {
		c, w, p, err := ps.choose(k)
		if err != nil {
			return nil, err
		}
		if w != nil {
			if c, err = ps.wait(ctx, p, w, until); err != nil {
				return nil, err
			}
		}
		if c == nil {
			return ps.dial(ctx, p, until)
		}
		if time.Since(c.idleSince) < ps.options.IdleTimeout && c.alive() {
			return c, nil
		}
		ps.discard(c)
	}
}

// choose returns an idle connection; or a place to wait for one; or neither: then the caller opens one.
func (ps *pools) choose(k key) (*pooledConn, *waiter, *pool, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return nil, nil, nil, ErrClosed
	}
	p := ps.byKey[k]
	if p == nil {
		s, err := parseServer(k.base)
		if err != nil {
			return nil, nil, nil, err
		}
		p = &pool{server: s, key: k}
		ps.byKey[k] = p
	}
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return c, nil, p, nil
	}
	if p.open >= ps.options.MaxConns {
		w := &waiter{given: make(chan *pooledConn, 1)}
		p.waiting = append(p.waiting, w)
		return nil, w, p, nil
	}
	p.open++
	return nil, nil, p, nil
}

// wait waits for a connection of another request, or for the right to open one (nil).
func (ps *pools) wait(ctx context.Context, p *pool, w *waiter, until time.Time) (*pooledConn, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	err := ErrTimeout
	select {
	case c := <-w.given:
		return c, nil
	case <-late:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	ps.mu.Lock()
	i := slices.Index(p.waiting, w)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	ps.mu.Unlock()
	if i >= 0 {
		return nil, err
	}
	if c := <-w.given; c != nil { // it was given one meanwhile
		ps.put(c)
	} else {
		ps.gone(p)
	}
	return nil, err
}

// dial opens a connection, which is counted already.
func (ps *pools) dial(ctx context.Context, p *pool, until time.Time) (c *pooledConn, err error) {
	defer func() {
		if c == nil { // also after a panic
			ps.gone(p)
		}
	}()
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, until, ErrTimeout)
		defer cancel()
	}
	var rwc net.Conn
	if p.tls {
		rwc, err = ps.options.DialTLS(ctx, "tcp", p.addr, p.key.config)
	} else {
		rwc, err = ps.options.Dial(ctx, "tcp", p.addr)
	}
	switch {
	case err == nil:
		return newPooledConn(p, rwc), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, err
}

// put takes a connection back that can be used again.
func (ps *pools) put(c *pooledConn) {
	ps.mu.Lock()
	p := c.pool
	keep := !ps.closed && (len(p.waiting) > 0 || len(p.idle) < ps.options.MaxIdle)
	if keep {
		c.idleSince = time.Now()
		if !p.give(c) {
			p.idle = append(p.idle, c)
			if !ps.armed {
				ps.arm(ps.options.IdleTimeout)
			}
		}
	}
	ps.mu.Unlock()
	if !keep {
		ps.discard(c)
	}
}

// give gives the first waiting request a connection, or the right to open one.
func (p *pool) give(c *pooledConn) bool {
	if len(p.waiting) == 0 {
		return false
	}
	p.waiting[0].given <- c // has room
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	return true
}

// discard closes a connection that is not idle.
func (ps *pools) discard(c *pooledConn) {
	c.abort()
	c.join()
	c.free()
	ps.gone(c.pool)
}

// gone counts a connection that was closed or not opened.
func (ps *pools) gone(p *pool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.uncount(p)
}

// uncount is gone under the lock.
func (ps *pools) uncount(p *pool) {
	if p.give(nil) {
		return
	}
	if p.open--; p.open == 0 {
		delete(ps.byKey, p.key)
	}
}

// arm has the idle connections looked at.
func (ps *pools) arm(in time.Duration) {
	ps.armed = true
	if ps.sweep == nil {
		ps.sweep = time.AfterFunc(in, ps.closeLate)
		return
	}
	ps.sweep.Reset(in)
}

// closeLate closes the connections that were idle for long enough.
func (ps *pools) closeLate() { ps.closeIdle(time.Now().Add(-ps.options.IdleTimeout)) }

// closeIdle closes the connections that are idle since before or at this time.
func (ps *pools) closeIdle(since time.Time) {
	var late []*pooledConn
	ps.mu.Lock()
	next := time.Duration(-1)
	for _, p := range ps.byKey {
		n := 0
		for n < len(p.idle) && !p.idle[n].idleSince.After(since) {
			n++
		}
		late = append(late, p.idle[:n]...)
		p.idle = slices.Delete(p.idle, 0, n)
		if len(p.idle) > 0 {
			if in := p.idle[0].idleSince.Sub(since); next < 0 || in < next {
				next = in
			}
		}
		for range n {
			ps.uncount(p)
		}
	}
	switch {
	case next >= 0:
		ps.arm(max(next, minSweep))
	case ps.armed:
		ps.armed = false
		ps.sweep.Stop()
	}
	ps.mu.Unlock()
	for _, c := range late {
		c.abort()
	}
}

// minSweep is the shortest time between two looks at the idle connections.
const minSweep = 10 * time.Millisecond
