package http1

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxHead is the size of a response's head in bytes, those of the interim responses before it included.
const maxHead = 64 << 10

// unknown is the length of a body that no Content-Length tells.
const unknown = -1

// head parses the head of one response: the status line and the header lines, each ended by CR LF. It goes on where it
// stopped when there are more bytes. The zero value is ready.
type head struct {
	line    int // where the next line begins
	scanned int // bytes that were searched for a line's end

	status int
	minor  byte  // of the version: '0' or '1'
	length int64 // of Content-Length
	told   bool  // there is a Content-Length
	coded  bool  // there is a Transfer-Encoding; it is chunked
	closes bool  // the connection ends with this response

	contentType, contentEncoding, retryAfter string
}

// parse parses b, which begins with the head. It reports whether the head is complete; then h.line is its length.
func (h *head) parse(b []byte) (complete bool, err error) {
	for {
		end := bytes.IndexByte(b[h.scanned:], '\n')
		if end < 0 {
			h.scanned = len(b)
			if h.line == 0 && !begins(b) {
				return false, malformed("no HTTP/1 response: %.20q", b)
			}
			return false, nil
		}
		line := b[h.line : h.scanned+end]
		first := h.line == 0
		h.scanned += end + 1
		h.line = h.scanned
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return false, malformed("a line without CR LF: %.40q", line)
		}
		line = line[:len(line)-1]
		switch {
		case first:
			err = h.statusLine(line)
		case len(line) == 0:
			err = h.check()
			return err == nil, err
		default:
			err = h.field(line)
		}
		if err != nil {
			return false, err
		}
	}
}

const version = "HTTP/1."

// begins reports whether b may be the beginning of a response.
func begins(b []byte) bool {
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// statusLine parses "HTTP/1.1 200 OK". The reason may be missing.
func (h *head) statusLine(line []byte) error {
	const size = len("HTTP/1.1 200")
	ok := len(line) >= size && begins(line) && (line[7] == '0' || line[7] == '1') && line[8] == ' ' && (len(line) == size || line[size] == ' ')
	for i := 9; ok && i < size; i++ {
		ok = line[i] >= '0' && line[i] <= '9'
	}
	if !ok || !isValue(line[size:]) || line[9] == '0' {
		return malformed("status line %.40q", line)
	}
	h.minor = line[7]
	h.closes = h.minor == '0'
	h.status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
	return nil
}

// field parses a header line.
func (h *head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) { // also a folded line
		return malformed("header line %.40q", line)
	}
	name, value := line[:colon], trim(line[colon+1:])
	if !isValue(value) {
		return malformed("value of header %.40q", name)
	}
	switch {
	case is(name, "content-length"):
		return h.contentLength(value)
	case is(name, "transfer-encoding"):
		if h.coded || !is(value, "chunked") || h.minor == '0' {
			return malformed("transfer encoding %.40q", value)
		}
		h.coded = true
	case is(name, "connection"):
		h.closes = h.closes || hasToken(value, "close")
	case is(name, "content-type"):
		keep(&h.contentType, value)
	case is(name, "content-encoding"):
		keep(&h.contentEncoding, value)
	case is(name, "retry-after"):
		keep(&h.retryAfter, value)
	}
	return nil
}

func (h *head) contentLength(value []byte) error {
	var n int64
	ok := len(value) > 0 && len(value) <= 19
	for _, d := range value {
		ok = ok && d >= '0' && d <= '9' && n <= (math.MaxInt64-9)/10
		n = n*10 + int64(d-'0')
	}
	if !ok || (h.told && n != h.length) {
		return malformed("content length %.40q", value)
	}
	h.told, h.length = true, n
	return nil
}

// check checks the framing of a complete head, and sets what it means.
func (h *head) check() error {
	switch {
	case h.told && h.coded:
		return malformed("both Content-Length and Transfer-Encoding")
	case h.status == 101:
		return malformed("an upgrade that nobody asked for")
	case h.interim():
		if h.told || h.coded {
			return malformed("an interim response with a body")
		}
	case h.status == 204, h.status == 304:
		h.closes = h.closes || h.coded || h.length > 0 // the server may send the body in spite of the status
		h.told, h.coded, h.length = true, false, 0
	case !h.told:
		h.length = unknown
		h.closes = h.closes || !h.coded // the body ends with the connection
	}
	return nil
}

// interim reports whether another response follows this one.
func (h *head) interim() bool { return h.status < 200 }

// keep sets a value that is not set yet. Frequent values are not allocated.
func keep(to *string, value []byte) {
	if *to != "" {
		return
	}
	switch string(value) {
	case "application/json":
		*to = "application/json"
	case "text/event-stream":
		*to = "text/event-stream"
	case "text/event-stream; charset=utf-8":
		*to = "text/event-stream; charset=utf-8"
	default:
		*to = string(value)
	}
}

// is reports whether b is lower, which has letters in lower case and hyphens only, without regard to case. b has no CR.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// hasToken reports whether a comma-separated list has a token.
func hasToken(list []byte, lower string) bool {
	for len(list) > 0 {
		one, rest, _ := bytes.Cut(list, []byte{','})
		if is(trim(one), lower) {
			return true
		}
		list = rest
	}
	return false
}

// trim removes spaces and tabs at both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// isToken reports whether b is a token of RFC 9110, section 5.6.2.
func isToken[T []byte | string](b T) bool {
	for i := range len(b) {
		if !tokens[b[i]] {
			return false
		}
	}
	return len(b) > 0
}

// isValue reports whether b has only bytes that a field value may have: no control characters besides the tab.
func isValue[T []byte | string](b T) bool {
	for i := range len(b) {
		if !valid(b[i]) {
			return false
		}
	}
	return true
}

func valid(c byte) bool { return (c >= ' ' && c != 0x7f) || c == '\t' }

var tokens = func() (t [256]bool) {
	for c := range 256 {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		t[c] = letter || c < 0x7f && c > 0 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

// number appends n in decimal.
func number(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
