package engines

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// How a connection ends or stands at a [Fault].
const (
	FIN   = "fin"   // closed in order
	RST   = "rst"   // reset
	Stall = "stall" // open, and nothing comes any more until the proxy is closed
)

// Fault is what a proxy does to the answer of one request.
type Fault struct {
	How string // FIN, RST or Stall
	// Path is a part of the request's first line, such as "/v1/chat/completions"; "" is any request.
	Path string
	// After is how many bytes of the answer pass, head and framing of chunks included. With Events it is how many of its
	// SSE events (lines that begin with "data:") pass.
	After  int
	Events bool
}

const dialTimeout = 10 * time.Second // of engines on loopback

// maxKept are the bytes of one direction of an exchange that are kept.
const maxKept = 4 << 20

// Exchange is a request and its answer as bytes on the wire.
type Exchange struct {
	Request, Response []byte
	Faulted           bool // a fault met it
}

// Proxy passes TCP connections on to an engine. Its methods are safe for concurrent use.
type Proxy struct {
	URL string

	listener net.Listener
	target   string // host and port

	mu        sync.Mutex
	armed     []Fault
	exchanges []*Exchange
	open      map[net.Conn]bool
	closed    bool
	running   sync.WaitGroup
}

// NewProxy starts a proxy before an engine's URL, and closes it with the test.
func NewProxy(t testing.TB, url string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "http://" + l.Addr().String(), listener: l, target: strings.TrimPrefix(url, "http://"), open: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Close ends all connections, and waits.
func (p *Proxy) Close() {
	_ = p.listener.Close() // closed is all that is wanted
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close() // as above
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Arm has the next request that fits meet a fault, each once, in their order.
func (p *Proxy) Arm(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, faults...)
}

// Armed is how many faults have met no request yet.
func (p *Proxy) Armed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.armed)
}

// Exchanges are copies of all exchanges so far whose first line holds path.
func (p *Proxy) Exchanges(path string) (found []Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.exchanges {
		if line, _, _ := bytes.Cut(e.Request, []byte("\r\n")); strings.Contains(string(line), path) {
			found = append(found, Exchange{bytes.Clone(e.Request), bytes.Clone(e.Response), e.Faulted})
		}
	}
	return found
}

func (p *Proxy) accept() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(context.Background(), "tcp", p.target)
		if err != nil { // as an engine that is gone: its address refuses, ours resets
			reset(from)
			continue
		}
		c := &link{proxy: p, from: from, to: to}
		if !p.hold(from, to) {
			return
		}
		p.running.Go(c.requests)
		p.running.Go(c.answers)
	}
}

// hold keeps connections for Close; false: the proxy is closed already.
func (p *Proxy) hold(all ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range all {
		if p.closed {
			_ = c.Close() // as in Close
		}
		p.open[c] = true
	}
	return !p.closed
}

func (p *Proxy) release(c net.Conn) {
	_ = c.Close() // it may be closed already
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // what makes a close a reset
	}
	_ = c.Close() // that is the reset
}

// link is a connection of a client and the one to the engine. Clients of HTTP/1.1 send a request when the answer to the
// last has come, so one exchange is under way at a time.
type link struct {
	proxy    *Proxy
	from, to net.Conn

	// Guarded by the proxy's lock.
	now   *Exchange
	fault *Fault // of the exchange
	seen  int    // of its answer: bytes, or events
	tail  []byte // the last bytes of it, in which an event may begin
}

const bufferBytes = 32 << 10

// requests passes on what the client sends.
func (c *link) requests() {
	buf := make([]byte, bufferBytes)
	for {
		n, err := c.from.Read(buf)
		if n > 0 {
			c.asked(buf[:n])
			if _, err := c.to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	c.proxy.release(c.to) // the engine sees that the client has left
}

// asked takes a piece of a request up.
func (c *link) asked(piece []byte) {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.now == nil || len(c.now.Response) > 0 {
		c.now, c.fault, c.seen, c.tail = &Exchange{}, nil, 0, nil
		c.proxy.exchanges = append(c.proxy.exchanges, c.now)
		line, _, _ := bytes.Cut(piece, []byte("\r\n"))
		for i, f := range c.proxy.armed {
			if strings.Contains(string(line), f.Path) {
				c.fault = &f
				c.proxy.armed = append(c.proxy.armed[:i:i], c.proxy.armed[i+1:]...)
				break
			}
		}
	}
	c.now.Request = keep(c.now.Request, piece)
}

func keep(all, piece []byte) []byte { return append(all, piece[:min(len(piece), maxKept-len(all))]...) }

// answers passes on what the engine sends, until a fault.
func (c *link) answers() {
	buf := make([]byte, bufferBytes)
	for {
		n, err := c.to.Read(buf)
		if n > 0 {
			passes, how := c.answered(buf[:n])
			if _, err := c.from.Write(buf[:passes]); err != nil {
				break
			}
			switch how {
			case RST:
				reset(c.from)
			case FIN:
				_ = c.from.Close() // that is the fault
			case Stall:
				_, _ = io.Copy(io.Discard, c.to) // the engine is not held up; its client sees nothing
				return                           // and the connection stays open
			}
		}
		if err != nil {
			break
		}
	}
	c.proxy.release(c.from)
}

// answered takes a piece of an answer up: how much of it passes, and the fault that comes then, if one does.
func (c *link) answered(piece []byte) (passes int, how string) {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.now == nil {
		return len(piece), ""
	}
	passes = len(piece)
	if c.fault != nil {
		if at, met := c.meets(piece); met {
			passes, how, c.now.Faulted = at, c.fault.How, true
			c.fault = nil
		}
	}
	c.now.Response = keep(c.now.Response, piece[:passes])
	return passes, how
}

// meets tells where in a piece the fault comes.
func (c *link) meets(piece []byte) (at int, met bool) {
	if !c.fault.Events {
		at = c.fault.After - c.seen
		c.seen += len(piece)
		return at, at <= len(piece)
	}
	const event = "\ndata:"
	text := slices.Concat(c.tail, piece)
	old := len(text) - len(piece)
	for i := 0; ; {
		next := bytes.Index(text[i:], []byte(event))
		if next < 0 {
			break
		}
		if i += next + len(event); c.seen == c.fault.After { // the first that does not pass begins here
			return max(0, i-len(event)+1-old), true
		}
		c.seen++
	}
	c.tail = bytes.Clone(text[max(0, len(text)-len(event)+1):])
	return 0, false
}
