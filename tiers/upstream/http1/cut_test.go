package http1

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

// complete are responses that are as they must be, and their ends: the first byte count at which the answer is whole.
var complete = []struct {
	name, raw, body string
	toEOF           bool // the end of the connection is the body's
}{
	{name: "a length", raw: "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: 11\r\n\r\nhello world", body: "hello world"},
	{name: "chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("hello world", 4), body: "hello world"},
	{name: "a large chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("hello wonderful world", 99), body: "hello wonderful world"},
	{name: "chunks with extensions", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6;c\r\n world\r\n0;d\r\n\r\n", body: "hello world"},
	{
		name: "chunks with trailers", body: "hello world",
		raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(chunked("hello world", 6), "\r\n") + "X: y\r\nZ: a\r\n\r\n",
	},
	{name: "to the end", raw: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello world", body: "hello world", toEOF: true},
	{name: "HTTP/1.0 to the end", raw: "HTTP/1.0 200 OK\r\n\r\nhello world", body: "hello world", toEOF: true},
	{name: "HTTP/1.0 with a length", raw: "HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\nhello world", body: "hello world"},
	{name: "behind others", raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + whole("hello world"), body: "hello world"},
	{name: "no body", raw: "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"},
}

func TestNoAnswerThatIsCutIsWhole(t *testing.T) {
	nothingLeft(t)
	for _, row := range complete {
		for _, way := range []string{"FIN", "RST"} {
			t.Run(row.name+"/"+way, func(t *testing.T) {
				overBoth(t, setup{}, func(t *testing.T, c client) {
					at := make(chan int, 1)
					e := listen(t, func(p *peer) {
						if _, alive := p.request(); !alive {
							return
						}
						p.say(row.raw[:<-at])
						if way == "RST" {
							p.reset()
						}
					})
					body := strings.Index(row.raw, "\r\n\r\n"+row.body) + 4 // of the answer without chunks
					for n := range len(row.raw) {
						at <- n
						got := c.ask(t.Context(), e.url, "{}")
						switch {
						case row.toEOF && way == "FIN" && n >= body: // nothing tells that it is cut
							if got.end != "" || got.body != row.raw[body:n] {
								t.Fatalf("cut at %d: %v", n, got)
							}
						case c.name == theirs && got.end == broken: // it takes a part of a line for a faulty one
						case got.end != cut, !strings.HasPrefix(row.body, got.body):
							t.Fatalf("cut at %d: %v", n, got)
						}
					}
					at <- len(row.raw)
					if got := c.ask(t.Context(), e.url, "{}"); way == "FIN" && (got.end != "" || got.body != row.body) {
						t.Fatalf("the whole: %v", got)
					}
				})
			})
		}
	}
}

// inPieces is a connection that is read in pieces of up to n bytes.
type inPieces struct {
	net.Conn
	n int
}

func (c inPieces) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(c.n, len(p))]) }

// SyscallConn implements [syscall.Conn].
func (c inPieces) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

func TestAResponseInPiecesIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	nothingLeft(t)
	var d net.Dialer
	for _, n := range []int{1, 3, 7} {
		piecemeal := func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, network, addr)
			return inPieces{conn, n}, err
		}
		overBoth(t, setup{dial: piecemeal}, func(t *testing.T, c client) {
			for _, row := range complete {
				e := listen(t, func(p *peer) {
					for {
						if _, alive := p.request(); !alive {
							return
						}
						p.say(row.raw)
						if row.toEOF {
							return
						}
					}
				})
				for range 2 {
					if got := c.ask(t.Context(), e.url, "{}"); got.end != "" || got.body != row.body {
						t.Errorf("%s in pieces of %d: %v", row.name, n, got)
					}
				}
				c.CloseIdleConnections()
			}
			for _, row := range hostile {
				want := row.want
				if c.name == theirs && row.net != "" {
					want = row.net
				}
				if want != "-" && len(row.raw) < 1000 {
					t.Run(fmt.Sprintf("%s in pieces of %d", row.name, n), func(t *testing.T) { checkRow(t, c, &row, want) })
				}
			}
		})
	}
}
