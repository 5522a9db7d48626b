package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// NetworkFault is what a [Proxy] does to the bytes that pass. The zero value is none. All of
// it holds at once, for connections that are open as for those that come.
type NetworkFault struct {
	Mute     bool          // connections are accepted, and what is said on them is swallowed
	Delay    time.Duration // before every piece of an answer
	Throttle int           // bytes a second of answers; 0 is no limit
	CutAfter int           // bytes of answers on one connection, after which it ends; 0 is never
	Reset    bool          // it ends by RST instead of FIN
}

const (
	proxyDial  = time.Second          // for the server to take a connection
	proxyPiece = 32 << 10             // bytes relayed at once
	proxyRetry = 5 * time.Millisecond // between tries to accept
)

// Proxy relays TCP to a server and makes trouble on the way. Its methods are safe for
// concurrent use. Whoever starts one closes it; Close waits for what it has started.
type Proxy struct {
	Addr string // HOST:PORT where it listens; the same for ever

	connections atomic.Int64

	mu       sync.Mutex
	upstream string
	fault    NetworkFault
	listener net.Listener
	links    map[*link]struct{}
	closed   bool
	running  sync.WaitGroup
}

// NewProxy listens on a loopback address of its own and relays to upstream.
func NewProxy(upstream string) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0") // there is nothing to wait for
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{Addr: l.Addr().String(), upstream: upstream, listener: l, links: map[*link]struct{}{}}
	p.running.Go(p.serve)
	return p, nil
}

// Set replaces the trouble; the zero value heals. A connection on which anything was
// swallowed stays a black hole after that, as a NAT's lost entry would be.
func (p *Proxy) Set(t NetworkFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = t
	for l := range p.links {
		l.sent.Store(0)
	}
}

// SetUpstream names another server for the connections that come.
func (p *Proxy) SetUpstream(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = addr
}

// BlackHole turns the connections that are open into black holes. Others work.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.deaf.Store(true)
	}
}

// Cut resets the connections that are open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLinks()
}

func (p *Proxy) resetLinks() {
	for l := range p.links {
		l.end(true)
	}
}

// Connections is how many it has accepted.
func (p *Proxy) Connections() int { return int(p.connections.Load()) }

// Close ends everything and waits for it.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // its loop sees that
	p.resetLinks()
	p.mu.Unlock()
	p.running.Wait()
}

// serve accepts until the listener ends.
func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(proxyRetry) // out of descriptors
			continue
		}
		p.take(conn)
	}
}

// take makes a link of a connection.
func (p *Proxy) take(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close() // it came too late
		return
	}
	p.connections.Add(1)
	l := &link{proxy: p, client: conn, over: make(chan struct{})}
	p.links[l] = struct{}{}
	upstream := p.upstream
	p.running.Go(func() {
		l.run(upstream)
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	})
}

// now is the trouble of this moment.
func (p *Proxy) now() NetworkFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	client net.Conn
	deaf   atomic.Bool // swallows for ever
	sent   atomic.Int64

	mu     sync.Mutex
	server net.Conn // nil until dialled
	ended  bool
	over   chan struct{} // closed by end
}

// run relays both ways until either ends.
func (l *link) run(upstream string) {
	defer l.end(false)
	if l.swallows() { // the server hears nothing of it
		l.drain(l.client)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), proxyDial)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", upstream)
	if err != nil || !l.join(server) {
		l.end(true)
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer l.end(false)
		l.relay(server, l.client, func(to net.Conn, piece []byte) bool {
			_, err := to.Write(piece)
			return err == nil
		})
	})
	both.Go(func() {
		defer l.end(false)
		l.relay(l.client, server, l.answer)
	})
	both.Wait()
}

// join gives the link its server, unless it has ended.
func (l *link) join(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = server.Close() // nothing was said on it
		return false
	}
	l.server = server
	return true
}

// end closes both sides, by RST if asked to. It may be called again.
func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.over)
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // at worst it ends by FIN
		}
		if c != nil {
			_ = c.Close() // that is all there is to do
		}
	}
}

// swallows reports whether nothing passes, and remembers that it did not.
func (l *link) swallows() bool {
	if !l.proxy.now().Mute && !l.deaf.Load() {
		return false
	}
	l.deaf.Store(true)
	return true
}

// drain reads to the end and forgets.
func (l *link) drain(c net.Conn) {
	buf := make([]byte, proxyPiece)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// relay copies from one side to the other; pass does what the direction needs and
// reports whether to go on.
func (l *link) relay(to, from net.Conn, pass func(to net.Conn, piece []byte) bool) {
	buf := make([]byte, proxyPiece)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.swallows() && !pass(to, buf[:n]) || err != nil {
			return
		}
	}
}

// answer passes what the server says, with the trouble of the moment.
func (l *link) answer(to net.Conn, piece []byte) bool {
	t := l.proxy.now()
	if !l.pause(t.Delay) {
		return false
	}
	if l.swallows() {
		return true
	}
	sent := l.sent.Add(int64(len(piece)))
	if t.CutAfter > 0 && sent >= int64(t.CutAfter) {
		keep := max(0, len(piece)-int(sent-int64(t.CutAfter)))
		_, _ = to.Write(piece[:keep]) // it ends anyway
		l.end(t.Reset)
		return false
	}
	if _, err := to.Write(piece); err != nil {
		return false
	}
	return t.Throttle <= 0 || l.pause(time.Duration(len(piece))*time.Second/time.Duration(t.Throttle))
}

// pause waits, and reports whether the link is still there.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}
