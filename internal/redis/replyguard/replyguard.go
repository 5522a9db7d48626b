// Package replyguard refuses replies that no Redis of ours would give, before go-redis reads them. Start at [Conn].
//
// It guards the process against whoever answers at the address of Redis: another program or a proxy, a server that was
// taken over, a stream that a fault has cut or shifted. go-redis trusts its server. It allocates whatever a header announces,
// and a process that is out of memory ends. It panics at some malformed messages of pub/sub and attributes, in part in
// goroutines of its own (those of a cluster's pipelines), where nobody can recover. So to recover and to connect
// again is not enough; a refused reply closes the connection, and the next command opens another.
package replyguard

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// guardedConn is a connection to Redis whose replies a parser follows. A reply that it
// refuses closes the connection, and nothing of that reply is read.
type guardedConn struct {
	net.Conn
	replies    parser // of the one goroutine that reads at a time
	subscribed atomic.Bool
}

// Conn guards a connection to Redis. The health check of go-redis' pool looks for a
// syscall.Conn, and takes one that has none for healthy.
func Conn(c net.Conn) net.Conn {
	g := &guardedConn{Conn: c}
	if raw, ok := c.(syscall.Conn); ok {
		return struct {
			*guardedConn
			syscall.Conn
		}{g, raw}
	}
	return g
}

// Read reads what the guard lets pass.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.replies.subscribed = c.subscribed.Load()
	if refused := c.replies.pass(b[:n]); refused != nil {
		_ = c.Close() // nothing more is believed
		return 0, refused
	}
	return n, err
}

// Write notes a subscription, which go-redis writes by itself.
func (c *guardedConn) Write(b []byte) (int, error) {
	if !c.subscribed.Load() && subscribes(b) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

// subscribes reports whether a command is SUBSCRIBE.
func subscribes(b []byte) bool {
	_, rest, _ := bytes.Cut(b[:min(len(b), 32)], []byte("\r\n"))
	return bytes.HasPrefix(rest, []byte("$9\r\nsubscribe\r\n"))
}

// The bounds of one reply. The longest replies that Foregate asks for are cached answers (at most twice the
// maximum of cache.max_entry_bytes, and an envelope), and a hash of settings that somebody filled: a few values of megabytes, or
// 10⁵ fields, which are twice as many elements. Such a hash is read in parts the next time.
const (
	maxLine       = 64 << 10 // bytes of a line: a status, an error, a number, a length
	maxBulk       = 33 << 20 // bytes of one string
	maxReply      = 64 << 20 // bytes of a reply with all that is in it
	maxElements   = 1 << 18  // of all its arrays, sets and maps together
	maxAttributes = 1 << 8   // go-redis takes one more frame of its stack for each
	maxDepth      = 8
)

// parser follows the frames of RESP2 and RESP3 in a stream of replies, and refuses what exceeds a bound or is malformed.
// It does not read what is inside strings. Its memory is constant. The zero value is at the beginning of a stream.
type parser struct {
	// Arrays and sets at the top level are messages of pub/sub, as on a connection that has
	// subscribed; pushes always are.
	subscribed bool

	err  error
	line int      // bytes of the line so far
	last byte     // its last byte so far
	head [24]byte // how it begins
	bulk int      // bytes of a string, with the end of its line, that are still to come

	open        [maxDepth]frame
	depth       int
	inAttribute bool // at any depth
	message     message

	bytes, elements, attributes int // of the reply so far
}

// frame is an array, set, map or attribute that is being read.
type frame struct {
	remaining int // elements still to come
	attribute bool
}

// pass takes the next bytes of the stream. An error is for good.
func (p *parser) pass(b []byte) error {
	for len(b) > 0 && p.err == nil {
		var n int
		if p.bulk > 0 {
			n = min(p.bulk, len(b))
			p.skip(b[:n])
		} else {
			n = bytes.IndexByte(b, '\n') + 1
			if n == 0 {
				n = len(b)
			}
			p.read(b[:n])
		}
		b = b[n:]
	}
	return p.err
}

func (p *parser) refuse(format string, args ...any) {
	p.err = fmt.Errorf("Redis' reply is refused: "+format, args...)
}

// skip passes over bytes of a string.
func (p *parser) skip(b []byte) {
	p.message.addToName(b)
	p.bulk -= len(b)
	if p.bulk == 0 {
		p.ended()
	}
}

// read takes a line, or a part of one.
func (p *parser) read(b []byte) {
	if p.line+len(b) > maxLine {
		p.refuse("a line of more than %d bytes", maxLine)
		return
	}
	if p.line < len(p.head) {
		copy(p.head[p.line:], b)
	}
	p.line += len(b)
	before := p.last
	if len(b) > 1 {
		before = b[len(b)-2]
	}
	p.last = b[len(b)-1]
	if p.last != '\n' {
		return
	}
	if p.line < 3 || before != '\r' {
		p.refuse("a line that is not RESP")
		return
	}
	p.value()
	p.line, p.last = 0, 0
}

// value takes the line that begins a value. Most values are one line.
func (p *parser) value() {
	kind := p.head[0]
	p.bytes += p.line
	n := 0
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
	case '$', '!', '=', '*', '~', '>', '%', '|':
		var ok bool
		if n, ok = p.length(); !ok || n < 0 && kind == '|' {
			p.refuse("%.24q is not a length", p.head[:min(p.line, len(p.head))])
			return
		}
	default:
		p.refuse("no value of RESP begins with %q", kind)
		return
	}
	if p.inMessage() && !p.messagePart(kind, n) {
		return
	}
	switch kind {
	case '$', '!', '=':
		if n >= 0 {
			p.text(n)
			return
		}
	case '%', '|':
		p.begin(kind, 2*n)
		return
	case '*', '~', '>':
		p.begin(kind, n)
		return
	}
	p.ended()
}

// length reads the number of a header: -1 is null, and none is longer than nine digits.
func (p *parser) length() (n int, ok bool) {
	digits := p.head[1:min(p.line-2, len(p.head))]
	if string(digits) == "-1" {
		return -1, true
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n >= 1e9 {
			n = 1e9 // beyond every bound
		}
	}
	return n, len(digits) > 0 && p.line-2 <= len(p.head)
}

// text begins a string of n bytes.
func (p *parser) text(n int) {
	if n > maxBulk {
		p.refuse("a string of more than %d bytes", maxBulk)
		return
	}
	p.bulk = n + 2
	p.bytes += p.bulk
	if p.bytes > maxReply {
		p.refuse("more than %d bytes", maxReply)
	}
}

// begin begins a value of n others; below 0 is null.
func (p *parser) begin(kind byte, n int) {
	if kind == '|' {
		p.attributes++
	}
	if n > 0 {
		p.elements += n
	}
	switch {
	case kind == '|' && p.inAttribute:
		p.refuse("an attribute of an attribute")
	case p.attributes > maxAttributes:
		p.refuse("more than %d attributes", maxAttributes)
	case p.elements > maxElements:
		p.refuse("more than %d elements", maxElements)
	case p.depth == 0 && p.subscribed && kind == '%':
		p.refuse("a map in place of a message of pub/sub")
	case p.depth == 0 && n >= 0 && (kind == '>' || p.subscribed && (kind == '*' || kind == '~')):
		p.message = message{on: true, parts: n}
		if n == 0 {
			p.refuse("an empty message of pub/sub")
			return
		}
		p.enter(kind, n)
	case n > 0:
		p.enter(kind, n)
	case kind != '|':
		p.ended()
	}
}

func (p *parser) enter(kind byte, n int) {
	if p.depth == len(p.open) {
		p.refuse("deeper than %d", maxDepth)
		return
	}
	p.open[p.depth] = frame{remaining: n, attribute: kind == '|'}
	p.depth++
	p.inAttribute = p.inAttribute || kind == '|'
}

// ended counts a value that is complete, and those that it completes. An attribute is not a value:
// the value that it belongs to follows.
func (p *parser) ended() {
	if p.inMessage() && !p.messageNamed() {
		return
	}
	for p.depth > 0 {
		f := &p.open[p.depth-1]
		f.remaining--
		if f.remaining > 0 {
			return
		}
		p.depth--
		if f.attribute {
			p.inAttribute = false
			return
		}
	}
	p.bytes, p.elements, p.attributes = 0, 0, 0
	p.message = message{}
}

// message is a message of pub/sub: a push, or an array that came on a connection that subscribed.
type message struct {
	on     bool
	parts  int      // that it has
	next   int      // index of the part that comes
	name   [16]byte // its first part, its kind
	length int      // of the name; a longer one is unknown, and not kept
	got    int      // bytes of the name that have come
	named  bool     // the name is complete
	types  string   // of the parts that follow: s a string, i an integer, . anything
}

// partTypes is what go-redis assumes of each kind of message (PubSub.newMessage). At others
// it returns an error.
func partTypes(name string) string {
	switch name {
	case "message", "smessage":
		return "ss"
	case "pmessage":
		return "sss"
	case "pong":
		return "s"
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return ".i"
	}
	return ""
}

// addToName takes bytes of a string; they belong to the name while that is not complete.
func (m *message) addToName(b []byte) {
	if m.on && !m.named && m.got < m.length {
		m.got += copy(m.name[m.got:m.length], b)
	}
}

// inMessage reports whether the value that begins or ends now is a part of a message.
func (p *parser) inMessage() bool { return p.message.on && p.depth == 1 }

// messagePart checks the part of a message that begins, and reports whether it is allowed.
func (p *parser) messagePart(kind byte, n int) bool {
	m := &p.message
	i := m.next
	m.next++
	isText := kind == '+' || kind == '$' && n >= 0
	switch {
	case kind == '|' || kind == '%':
		p.refuse("an attribute or a map in a message of pub/sub")
	case i == 0 && !isText:
		p.refuse("a message of pub/sub without a name")
	case i == 0 && kind == '+':
		name := p.head[1:min(p.line-2, len(p.head))]
		m.length = min(len(name), len(m.name))
		m.got = copy(m.name[:], name)
		if len(name) > len(m.name) {
			m.length, m.got = 0, 0
		}
	case i == 0 && n <= len(m.name):
		m.length = n
	case i > 0 && i <= len(m.types) && (m.types[i-1] == 's' && !isText || m.types[i-1] == 'i' && kind != ':'):
		p.refuse("a message of pub/sub, %q, whose part %d is of another type", m.name[:m.length], i)
	}
	return p.err == nil
}

// messageNamed checks a message whose name is complete, and reports whether it is allowed.
func (p *parser) messageNamed() bool {
	m := &p.message
	if m.named {
		return true
	}
	m.named = true
	m.types = partTypes(string(m.name[:m.length]))
	if m.parts <= len(m.types) {
		p.refuse("a message of pub/sub, %q, of %d parts", m.name[:m.length], m.parts)
		return false
	}
	return true
}
