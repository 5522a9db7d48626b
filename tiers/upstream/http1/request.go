package http1

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request is one POST request.
type Request struct {
	Base   string      // URL of the server: http:// or https://, HOST[:PORT], and a path without a slash at its end
	Path   string      // is appended to Base; begins with a slash
	Header http.Header // header lines, canonical names. Those that frame a message are ignored: Content-Length and such
	Fields []Field     // further header lines; they replace those of the same name in Header
	Body   []byte      // is read until the response is closed
	More   [][]byte    // the rest of the body, in pieces; is read as long

	// Wait bounds the time until the whole response is read, or until [Response.SetWait] is called. 0 is no bound.
	Wait time.Duration

	Identity *Identity // what is shown to the server; nil is nothing
}

// Identity is what many requests show to a server. It must not change.
type Identity struct {
	Headers []Field // lines of each request; they replace those of the same name in its Header

	// TLS is how connections to https URLs are opened; nil is with the system's authorities, without a certificate. A
	// connection is only used for requests with the same pointer.
	TLS *tls.Config
}

// identity returns the identity, an empty one for nil.
func (r *Request) identity() Identity {
	if r.Identity == nil {
		return Identity{}
	}
	return *r.Identity
}

// size is the length of the body.
func (r *Request) size() int {
	n := len(r.Body)
	for _, p := range r.More {
		n += len(p)
	}
	return n
}

// Field is a header line.
type Field struct{ Name, Value string }

// exchange is a request on its way.
type exchange struct {
	req        *Request
	now, until time.Time // when it began, and its deadline
}

// server is how the requests of one base URL are sent.
type server struct {
	tls    bool
	addr   string // HOST:PORT
	target string // beginning of the request line: "POST /prefix"
	lines  string // from its end on: version, Host and so on
}

var errBase = fmt.Errorf("%w: not the base URL of an engine", ErrRequest)

// parseServer parses a base URL. Its errors do not repeat the URL.
func parseServer(base string) (s server, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return s, errBase
	}
	port := u.Port()
	switch {
	case u.Scheme == "https":
		s.tls = true
		if port == "" {
			port = "443"
		}
	case u.Scheme != "http":
		return s, errBase
	case port == "":
		port = "80"
	}
	name, err := httpguts.PunycodeHostPort(u.Hostname())
	if err != nil {
		return s, errBase
	}
	s.addr = net.JoinHostPort(name, port)
	host, err := httpguts.PunycodeHostPort(u.Host)
	if zone := strings.IndexByte(host, '%'); err == nil && zone >= 0 && strings.HasPrefix(host, "[") {
		host = host[:zone] + host[strings.IndexByte(host, ']'):]
	}
	if err != nil || !httpguts.ValidHostHeader(host) {
		return s, errBase
	}
	s.target = "POST " + strings.TrimSuffix(u.EscapedPath(), "/")
	s.lines = " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: foregate\r\n"
	if u.User != nil {
		password, _ := u.User.Password()
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(u.User.Username(), password)
		s.lines += "Authorization: " + r.Header.Get("Authorization") + "\r\n"
	}
	return s, nil
}

// appendHead appends the head of a request.
func (s *server) appendHead(b []byte, r *Request) ([]byte, error) {
	path := r.Path
	if !isPlainPath(path) {
		u, err := url.Parse(path)
		if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%w: path %.100q", ErrRequest, path)
		}
		path = u.RequestURI()
	}
	b = append(append(append(b, s.target...), path...), s.lines...)
	b = append(number(append(b, "Content-Length: "...), r.size()), "\r\n"...)
	for _, fields := range [...][]Field{r.identity().Headers, r.Fields} {
		for i := range fields {
			var err error
			if b, err = appendField(b, fields[i].Name, fields[i].Value); err != nil {
				return nil, err
			}
		}
	}
	for name, values := range r.Header {
		if r.replaces(name) || connectionHeader(name) {
			continue
		}
		for _, value := range values {
			var err error
			if b, err = appendField(b, name, value); err != nil {
				return nil, err
			}
		}
	}
	return append(b, "\r\n"...), nil
}

func appendField(b []byte, name, value string) ([]byte, error) {
	if !isToken(name) || !isValue(value) {
		return nil, fmt.Errorf("%w: header line %.40q", ErrRequest, name)
	}
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...), nil
}

// replaces reports whether one of the other lines stands for a line of Header.
func (r *Request) replaces(name string) bool {
	named := func(f Field) bool { return f.Name == name }
	return slices.ContainsFunc(r.Fields, named) || slices.ContainsFunc(r.identity().Headers, named)
}

// connectionHeader reports whether a header is the client's business: it frames the message, or is about the connection.
func connectionHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) { // whatever the map's keys are: two framings smuggle requests
	case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Expect":
		return true
	}
	return false
}

// isPlainPath reports whether a path can be sent as it is.
func isPlainPath(path string) bool {
	for i := range len(path) {
		c := path[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '/' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' || c == ':'
		if !plain {
			return false
		}
	}
	return len(path) > 0 && path[0] == '/'
}
