package process

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

// End is how a tap ends a connection.
type End int

// The ends.
const (
	GoesOn   End = iota
	EndFIN       // closed in order
	EndRST       // reset
	EndStall     // open, and nothing comes any more
)

// Tap sees each piece of one connection before it passes: of an answer, or of what is asked. So many of its bytes pass, and
// then the connection ends as it says.
type Tap func(answer bool, piece []byte) (passes int, end End)

const (
	proxyDial  = 10 * time.Second     // for the server to take a connection
	proxyPiece = 32 << 10             // bytes relayed at once
	proxyRetry = 5 * time.Millisecond // between tries to accept
)

// Proxy relays TCP to a server and makes trouble on the way. Its methods are safe for
// concurrent use. Whoever starts one closes it; Close waits for what it has started.
type Proxy struct {
	Addr string // HOST:PORT where it listens; the same for ever

	connections atomic.Int64
	tap         func() Tap // for each connection; nil: nobody looks

	mu       sync.Mutex
	upstream string
	fault    NetworkFault
	listener net.Listener
	links    map[*link]struct{}
	closed   bool
	running  sync.WaitGroup
}

// NewProxy listens on a loopback address of its own and relays to upstream; tap looks at each connection, nil at none.
func NewProxy(upstream string, tap func() Tap) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0") // there is nothing to wait for
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{Addr: l.Addr().String(), upstream: upstream, tap: tap, listener: l, links: map[*link]struct{}{}}
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
	p.mu.Unlock()
	p.Cut()
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
	if p.tap != nil {
		l.tap = p.tap()
	}
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
	tap    Tap         // nil: nobody looks
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
		l.relay(nil, l.client, false)
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
	both.Go(func() { l.relay(server, l.client, false) })
	both.Go(func() { l.relay(l.client, server, true) })
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

// relay copies from one side to the other, answers with the trouble of the moment, until either ends.
func (l *link) relay(to, from net.Conn, answer bool) {
	defer l.end(false)
	buf := make([]byte, proxyPiece)
	for {
		n, err := from.Read(buf)
		if err != nil && answer && l.swallows() {
			<-l.over // nor does the client hear of the server's end
		}
		if n > 0 && !l.swallows() && !l.pass(to, buf[:n], answer) || err != nil {
			return
		}
	}
}

// pass passes a piece on, and reports whether to go on.
func (l *link) pass(to net.Conn, piece []byte, answer bool) bool {
	var t NetworkFault
	if answer {
		if t = l.proxy.now(); !l.pause(t.Delay) || l.swallows() {
			return l.deaf.Load()
		}
	}
	end := GoesOn
	if l.tap != nil {
		var passes int
		passes, end = l.tap(answer, piece)
		piece = piece[:passes]
	}
	if answer {
		if sent := l.sent.Add(int64(len(piece))); t.CutAfter > 0 && sent >= int64(t.CutAfter) {
			piece = piece[:max(0, len(piece)-int(sent-int64(t.CutAfter)))]
			if end = EndFIN; t.Reset {
				end = EndRST
			}
		}
	}
	if _, err := to.Write(piece); err != nil {
		return false
	}
	switch end {
	case GoesOn:
		return t.Throttle <= 0 || l.pause(time.Duration(len(piece))*time.Second/time.Duration(t.Throttle))
	case EndStall:
		l.deaf.Store(true)
		return true
	case EndFIN, EndRST:
		l.end(end == EndRST)
	}
	return false
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
