package http1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// stricter are the responses that net/http takes and ours refuses, by their bytes. Each is wider than what it names.
var stricter = []struct {
	why string
	raw *regexp.Regexp
}{
	{"a bare LF ends a line of the head or of the trailers", regexp.MustCompile(`(?s)(^|[^\r])\n`)},
	{"a line is folded", regexp.MustCompile(`\n[ \t]`)},
	{"a version besides 1.0 and 1.1", regexp.MustCompile(`(^|\n)HTTP/([^1]|1\.[^01])`)},
	{"a status below 100 or with a sign", regexp.MustCompile(`HTTP/1\.[01] +([+-]|0\d\d)`)},
	{"not one space behind the version", regexp.MustCompile(`HTTP/1\.[01] {2}`)},
	{"no space behind the status", regexp.MustCompile(`HTTP/1\.[01] \d\d\d\t`)},
	{"control characters in the reason", regexp.MustCompile(`HTTP/1\.[01] \d\d\d [^\n]*[\x00-\x08\x0b-\x1f\x7f]`)},
	{"control characters in the extension of a chunk", regexp.MustCompile(`;[^\n]*[\x00-\x08\x0b-\x1f\x7f]`)},
	{"a space in a header's name", regexp.MustCompile(`\n[^:\n]*[ \t][^:\n]*:`)},
	{"both length and coding", regexp.MustCompile(`(?is)content-length.*transfer-encoding|transfer-encoding.*content-length`)},
	{"a coding in HTTP/1.0", regexp.MustCompile(`(?is)HTTP/1\.0.*transfer-encoding`)},
	{"a length or a coding in an informational response", regexp.MustCompile(`(?is)HTTP/1\.1 1.*(transfer-encoding|content-length).*HTTP/1`)},
	{"a length of more than 10^18", regexp.MustCompile(`\d{19}`)},
	{"a chunk of more than 2^59", regexp.MustCompile(`[0-9a-fA-F]{16}`)},
}

// refusedByOursAlone reports whether a response is one of those that ours may refuse although net/http does not.
func refusedByOursAlone(raw []byte) bool {
	for i := range stricter {
		if stricter[i].raw.Match(raw) {
			return true
		}
	}
	return len(raw) > maxTrail // a head and trailers have smaller bounds
}

// script is an engine for one exchange after another, without a network: connections are pairs of sockets.
type script struct {
	t        *testing.T
	listener *net.UnixListener
	raw      []byte // the first response
	splits   []byte // the sizes in which it is read
	fin      bool   // the engine closes its side behind it

	running sync.WaitGroup
	mu      sync.Mutex
	dialed  int
	reused  bool // a second request came over the first connection
}

const second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"

// dial connects to the engine.
func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	conn, err := net.DialUnix("unix", nil, s.listener.Addr().(*net.UnixAddr))
	if err != nil {
		return nil, err
	}
	peer, err := s.listener.AcceptUnix() // connections wait in its queue, one at a time
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.dialed++
	first := s.dialed == 1
	s.mu.Unlock()
	said := make(chan struct{})
	s.running.Go(func() { s.serve(peer, first, said) })
	return &inSplits{UnixConn: conn, said: said, splits: s.splits}, nil
}

func (s *script) serve(peer *net.UnixConn, first bool, said chan struct{}) {
	defer func() { _ = peer.Close() }()
	r := bufio.NewReader(peer)
	asked := func() bool {
		req, err := http.ReadRequest(r)
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		return err == nil
	}
	answer := s.raw
	if !first {
		answer = []byte(second)
	}
	alive := asked()
	if alive {
		_, _ = peer.Write(answer)
	}
	if first && s.fin {
		_ = peer.CloseWrite()
	}
	close(said)
	if !alive || !asked() {
		return
	}
	if first {
		s.mu.Lock()
		s.reused = true
		s.mu.Unlock()
	}
	_, _ = io.WriteString(peer, second)
	asked()
}

// inSplits is a connection that is read in pieces, when all of the first response has been written.
type inSplits struct {
	*net.UnixConn
	said   chan struct{}
	splits []byte
	n      int
}

func (c *inSplits) Read(p []byte) (int, error) {
	<-c.said
	if len(c.splits) > 0 {
		c.n++
		p = p[:min(len(p), 1+int(c.splits[c.n%len(c.splits)]))]
	}
	return c.UnixConn.Read(p)
}

var _ syscall.Conn = (*inSplits)(nil)

// run asks once, and again if it is told to.
func (s *script) run(name string, open func(setup) transport, again bool) (r, next result) {
	c := client{open(setup{dial: s.dial}.complete()), name}
	r = c.ask(s.t.Context(), "http://engine", "{}")
	if again {
		next = c.ask(s.t.Context(), "http://engine", "{}")
	}
	c.CloseIdleConnections()
	s.running.Wait()
	return r, next
}

// framed reports how net/http's parser sees the connection behind a response: whether its end is told by the response, and
// whether it may be used again.
func framed(raw []byte) (told, reusable bool) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
		if err != nil {
			return false, false
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 {
			continue
		}
		if _, err = io.Copy(io.Discard, resp.Body); err != nil {
			return false, false
		}
		_, err = r.Peek(1)
		return resp.ContentLength >= 0 || resp.TransferEncoding != nil || resp.StatusCode == 204 || resp.StatusCode == 304, !resp.Close && err == io.EOF
	}
}

func FuzzAsNetHTTP(f *testing.F) {
	for i := range hostile {
		f.Add([]byte(hostile[i].raw), []byte(nil))
		f.Add([]byte(hostile[i].raw), []byte{0, 2, 6})
	}
	for i := range complete {
		f.Add([]byte(complete[i].raw), []byte{3})
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(f.TempDir(), "s")})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	f.Fuzz(func(t *testing.T, raw, splits []byte) {
		if len(raw) > 96<<10 || len(splits) > 100 { // more does not fit into a socket at once
			return
		}
		engine := func(fin bool) *script { return &script{t: t, listener: l, raw: raw, splits: splits, fin: fin} }
		own, _ := engine(true).run(ours, newOurs, false)
		net, _ := engine(true).run(theirs, newTheirs, false)
		compare(t, raw, own, net)
		told, reusable := framed(raw)
		if own.end != "" || own.status == 0 || !told {
			return
		}
		e := engine(false)
		own, next := e.run(ours, newOurs, true)
		if own.end != "" || own.status != net.status || own.body != net.body {
			t.Errorf("%v on an open connection, and %v by net/http", own, net)
		}
		if next.String() != `200 "second"` {
			t.Errorf("the second request gets %v", next)
		}
		if e.reused && !reusable {
			t.Error("a connection is used again that should be closed")
		}
	})
}

// compare checks an answer of ours against that of net/http for the same bytes.
func compare(t *testing.T, raw []byte, own, net result) {
	t.Helper()
	wholeOwn, wholeNet := own.status > 0 && own.end == "", net.status > 0 && net.end == ""
	switch {
	case own.end == "hanging" || net.end == "hanging":
		t.Errorf("ours: %v, net/http: %v", own, net)
	case wholeOwn && own != net:
		t.Errorf("ours is whole: %v, and net/http has %v", own, net)
	case own.status > 0 && net.status != own.status:
		t.Errorf("ours has a head: %v, and net/http %v", own, net)
	case own.status > 0 && !strings.HasPrefix(own.body, net.body) && !strings.HasPrefix(net.body, own.body):
		t.Errorf("two bodies: %v and %v", own, net)
	case wholeNet && !wholeOwn && net.status != http.StatusSwitchingProtocols && !refusedByOursAlone(raw):
		t.Errorf("ours refuses what it should take: %v, net/http: %v", own, net)
	}
}
