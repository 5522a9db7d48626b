package main

import (
	"bytes"
	"fmt"
)

// What one reply of Redis may be. The longest that Foregate asks for are cached answers, of
// which no more is asked for than twice the most of cache.max_entry_bytes and an envelope, and a hash of settings
// that somebody filled: a few values of megabytes, or 10⁵ fields, which are twice as many
// elements; either is read in parts the next time.
const (
	maxRESPLine       = 64 << 10 // bytes of a line: a status, an error, a number, a length
	maxRESPBulk       = 33 << 20 // bytes of one string
	maxRESPReply      = 64 << 20 // bytes of a reply with all that is in it
	maxRESPElements   = 1 << 18  // of all its arrays, sets and maps together
	maxRESPAttributes = 1 << 8   // go-redis takes one more frame of its stack for each
	maxRESPDepth      = 8
)

// respGuard follows the frames of RESP2 and RESP3 in a stream of replies, and refuses what
// no Redis of ours would say before a client believes it: go-redis makes room for whatever
// a header announces, and its goroutines panic at a word of pub/sub that lacks parts. What
// is inside strings is passed over. It needs no memory that grows, and the zero value is at
// the beginning of a stream.
type respGuard struct {
	// Arrays and sets at the top are words of pub/sub, as on a connection that has
	// subscribed; pushes always are.
	subscribed bool

	err  error
	line int      // bytes of the line so far
	last byte     // its last byte so far
	head [24]byte // how it begins
	bulk int      // bytes of a string, with the end of its line, that are still to come

	open        [maxRESPDepth]respFrame
	depth       int
	inAttribute bool // at any depth
	word        respWord

	bytes, elements, attributes int // of the reply so far
}

// respFrame is an array, set, map or attribute that has begun.
type respFrame struct {
	left      int // elements still to come
	attribute bool
}

// pass takes the next bytes of the stream. An error is for good.
func (g *respGuard) pass(b []byte) error {
	for len(b) > 0 && g.err == nil {
		var n int
		if g.bulk > 0 {
			n = min(g.bulk, len(b))
			g.skip(b[:n])
		} else {
			n = bytes.IndexByte(b, '\n') + 1
			if n == 0 {
				n = len(b)
			}
			g.read(b[:n])
		}
		b = b[n:]
	}
	return g.err
}

func (g *respGuard) refuse(format string, args ...any) {
	g.err = fmt.Errorf("Redis' reply is refused: "+format, args...)
}

// skip passes over bytes of a string.
func (g *respGuard) skip(b []byte) {
	g.word.spell(b)
	g.bulk -= len(b)
	if g.bulk == 0 {
		g.ended()
	}
}

// read takes a line, or a part of one.
func (g *respGuard) read(b []byte) {
	if g.line+len(b) > maxRESPLine {
		g.refuse("a line of more than %d bytes", maxRESPLine)
		return
	}
	if g.line < len(g.head) {
		copy(g.head[g.line:], b)
	}
	g.line += len(b)
	before := g.last
	if len(b) > 1 {
		before = b[len(b)-2]
	}
	g.last = b[len(b)-1]
	if g.last != '\n' {
		return
	}
	if g.line < 3 || before != '\r' {
		g.refuse("a line that is none of RESP")
		return
	}
	g.value()
	g.line, g.last = 0, 0
}

// value takes the line that begins a value, and is all of most.
func (g *respGuard) value() {
	kind := g.head[0]
	g.bytes += g.line
	n := 0
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
	case '$', '!', '=', '*', '~', '>', '%', '|':
		var ok bool
		if n, ok = g.length(); !ok || n < 0 && kind == '|' {
			g.refuse("%.24q is no length", g.head[:min(g.line, len(g.head))])
			return
		}
	default:
		g.refuse("nothing of RESP begins with %q", kind)
		return
	}
	if g.inWord() && !g.wordPart(kind, n) {
		return
	}
	switch kind {
	case '$', '!', '=':
		if n >= 0 {
			g.text(n)
			return
		}
	case '%', '|':
		g.begin(kind, 2*n)
		return
	case '*', '~', '>':
		g.begin(kind, n)
		return
	}
	g.ended()
}

// length reads the number of a header: -1 is null, and none is longer than nine digits.
func (g *respGuard) length() (n int, ok bool) {
	digits := g.head[1:min(g.line-2, len(g.head))]
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
	return n, len(digits) > 0 && g.line-2 <= len(g.head)
}

// text begins a string of n bytes.
func (g *respGuard) text(n int) {
	if n > maxRESPBulk {
		g.refuse("a string of more than %d bytes", maxRESPBulk)
		return
	}
	g.bulk = n + 2
	g.bytes += g.bulk
	if g.bytes > maxRESPReply {
		g.refuse("more than %d bytes", maxRESPReply)
	}
}

// begin begins a value of n others; below 0 is null.
func (g *respGuard) begin(kind byte, n int) {
	if kind == '|' {
		g.attributes++
	}
	if n > 0 {
		g.elements += n
	}
	switch {
	case kind == '|' && g.inAttribute:
		g.refuse("an attribute of an attribute")
	case g.attributes > maxRESPAttributes:
		g.refuse("more than %d attributes", maxRESPAttributes)
	case g.elements > maxRESPElements:
		g.refuse("more than %d elements", maxRESPElements)
	case g.depth == 0 && g.subscribed && kind == '%':
		g.refuse("a map among words of pub/sub")
	case g.depth == 0 && n >= 0 && (kind == '>' || g.subscribed && (kind == '*' || kind == '~')):
		g.word = respWord{on: true, parts: n}
		if n == 0 {
			g.refuse("an empty word of pub/sub")
			return
		}
		g.enter(kind, n)
	case n > 0:
		g.enter(kind, n)
	case kind != '|':
		g.ended()
	}
}

func (g *respGuard) enter(kind byte, n int) {
	if g.depth == len(g.open) {
		g.refuse("deeper than %d", maxRESPDepth)
		return
	}
	g.open[g.depth] = respFrame{left: n, attribute: kind == '|'}
	g.depth++
	g.inAttribute = g.inAttribute || kind == '|'
}

// ended counts a value that is complete, and those that it completes. An attribute is none:
// what it is of follows.
func (g *respGuard) ended() {
	if g.inWord() && !g.wordNamed() {
		return
	}
	for g.depth > 0 {
		f := &g.open[g.depth-1]
		f.left--
		if f.left > 0 {
			return
		}
		g.depth--
		if f.attribute {
			g.inAttribute = false
			return
		}
	}
	g.bytes, g.elements, g.attributes = 0, 0, 0
	g.word = respWord{}
}

// respWord is a word of pub/sub: a push, or what came on a connection that subscribed.
type respWord struct {
	on     bool
	parts  int      // that it has
	next   int      // which of them comes
	name   [16]byte // its first part, which says of what kind it is
	length int      // of the name; one that is longer than there is room for is not kept
	spelt  int      // bytes of it that have come
	known  bool     // the name is complete
	wants  string   // what the parts that follow must be: s a string, i an integer, . anything
}

// wantedParts is what go-redis takes for granted of each kind of word (PubSub.newMessage);
// of others it says that it does not know them.
func wantedParts(name string) string {
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

// spell takes bytes of a string, which are the name's while that is not complete.
func (w *respWord) spell(b []byte) {
	if w.on && !w.known && w.spelt < w.length {
		w.spelt += copy(w.name[w.spelt:w.length], b)
	}
}

// inWord reports whether the value that begins or ends now is a part of a word.
func (g *respGuard) inWord() bool { return g.word.on && g.depth == 1 }

// wordPart judges the part of a word that begins, and reports whether it may.
func (g *respGuard) wordPart(kind byte, n int) bool {
	w := &g.word
	i := w.next
	w.next++
	isText := kind == '+' || kind == '$' && n >= 0
	switch {
	case kind == '|' || kind == '%':
		g.refuse("an attribute or a map in a word of pub/sub")
	case i == 0 && !isText:
		g.refuse("a word of pub/sub without a name")
	case i == 0 && kind == '+':
		name := g.head[1:min(g.line-2, len(g.head))]
		w.length = min(len(name), len(w.name))
		w.spelt = copy(w.name[:], name)
		if len(name) > len(w.name) {
			w.length, w.spelt = 0, 0
		}
	case i == 0 && n <= len(w.name):
		w.length = n
	case i > 0 && i <= len(w.wants) && (w.wants[i-1] == 's' && !isText || w.wants[i-1] == 'i' && kind != ':'):
		g.refuse("a word of pub/sub, %q, whose part %d is of another type", w.name[:w.length], i)
	}
	return g.err == nil
}

// wordNamed looks at a word whose name is complete, and reports whether it may go on.
func (g *respGuard) wordNamed() bool {
	w := &g.word
	if w.known {
		return true
	}
	w.known = true
	w.wants = wantedParts(string(w.name[:w.length]))
	if w.parts <= len(w.wants) {
		g.refuse("a word of pub/sub, %q, of %d parts", w.name[:w.length], w.parts)
		return false
	}
	return true
}
