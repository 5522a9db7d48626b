package http1

import (
	"fmt"
	"strings"
	"testing"
)

// answers is a raw response and what a client makes of it: "STATUS BODY [END] kept|closed", or END and closed.
type answers struct {
	name string
	raw  string
	fin  bool   // the engine closes its side behind it
	want string // of our client
	net  string // of net/http, where that differs
	why  string // it is safe that they differ
}

const (
	ok       = "HTTP/1.1 200 OK\r\n"
	fiveOK   = ok + "Content-Length: 5\r\n\r\nhello"
	piecesOK = ok + "Transfer-Encoding: chunked\r\n\r\n"

	kept    = `200 "hello" kept`
	closed  = `200 "hello" closed`
	refused = broken + " closed"
	early   = cut + " closed"

	noEngine = "no engine sends it"
)

// hostile are odd responses and responses against the standard (RFC 9110, RFC 9112).
var hostile = []answers{
	{name: "a length", raw: fiveOK, want: kept},
	{name: "chunks", raw: piecesOK + "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", want: kept},
	{name: "no body", raw: ok + "Content-Length: 0\r\n\r\n", want: `200 "" kept`},
	{name: "to the end", raw: ok + "\r\nhello", fin: true, want: closed},
	{name: "to the end, asked for", raw: ok + "Connection: close\r\n\r\nhello", fin: true, want: closed},

	// The connection.
	{name: "close", raw: ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", want: closed},
	{name: "close in other case", raw: ok + "cOnNeCtIoN: CLOSE\r\nContent-Length: 5\r\n\r\nhello", want: closed},
	{name: "close in a list", raw: ok + "Connection: keep-alive , close\r\nContent-Length: 5\r\n\r\nhello", want: closed},
	{name: "close in a second field", raw: ok + "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", want: closed},
	{name: "close with chunks", raw: ok + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: closed},
	{name: "1.0", raw: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: closed},
	{name: "1.0 kept alive", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", want: closed, net: kept, why: "ours keeps no connection of HTTP/1.0"},
	{name: "1.0 to the end", raw: "HTTP/1.0 200 OK\r\n\r\nhello", fin: true, want: closed},
	{name: "101", raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello", want: refused,
		net: "-", why: "net/http hands the connection to the caller; we asked for no other protocol"},
	{name: "a second response at once", raw: fiveOK + fiveOK, want: closed},
	{name: "bytes behind a length", raw: fiveOK + "x", want: closed},
	{name: "bytes behind chunks", raw: piecesOK + "5\r\nhello\r\n0\r\n\r\nx", want: closed},
	{name: "CRLF behind a length", raw: fiveOK + "\r\n", want: closed},
	{name: "end behind a length", raw: fiveOK, fin: true, want: closed},

	// The status line.
	{name: "nothing", fin: true, want: early},
	{name: "no reason", raw: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "an empty reason", raw: "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "a long reason", raw: "HTTP/1.1 200 " + strings.Repeat("a", 1000) + "\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "four digits", raw: "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "two digits", raw: "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a sign", raw: "HTTP/1.1 -20 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a plus", raw: "HTTP/1.1 +20 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: `20 "hello" closed`, why: noEngine},
	{name: "no digits", raw: "HTTP/1.1 2x0 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "no status", raw: "HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "status 000", raw: "HTTP/1.1 000 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: "-", why: noEngine},
	{name: "status 099", raw: "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: `99 "hello" closed`, why: noEngine},
	{name: "status 600", raw: "HTTP/1.1 600 X\r\nContent-Length: 5\r\n\r\nhello", want: `600 "hello" kept`},
	{name: "HTTP/2.0", raw: "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "HTTP/1.2", raw: "HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "HTTP/0.9", raw: "HTTP/0.9 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: closed, why: noEngine},
	{name: "HTTP/1.10", raw: "HTTP/1.10 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "HTTP/11", raw: "HTTP/11 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a small http", raw: "http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "another protocol", raw: "SSH-2.0-OpenSSH_9.6\r\n\r\n", want: refused},
	{name: "a TLS alert", raw: "\x15\x03\x01\x00\x02\x02\x46", fin: true, want: refused},
	{name: "an empty line before", raw: "\r\n" + fiveOK, want: refused},
	{name: "a space before", raw: " " + fiveOK, want: refused},
	{name: "two spaces", raw: "HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "a tab", raw: "HTTP/1.1\t200 OK\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a body alone", raw: "{\"x\":1}\r\n\r\n", want: refused},

	// The head's lines.
	{name: "bare LF", raw: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", want: refused, net: kept, why: noEngine},
	{name: "bare LF behind a field", raw: ok + "Content-Length: 5\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "bare LF as the head's end", raw: ok + "Content-Length: 5\r\n\nhello", want: refused, net: kept, why: noEngine},
	{name: "bare CR in a value", raw: ok + "X: a\rb\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "bare CR as an end", raw: "HTTP/1.1 200 OK\rContent-Length: 5\r\r\nhello\r\n\r\n", want: refused},
	{name: "two CR", raw: ok + "Content-Length: 5\r\r\n\r\nhello", want: refused},
	{name: "NUL in a value", raw: ok + "X: a\x00b\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "NUL in a name", raw: ok + "X\x00: a\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "high bytes in a value", raw: ok + "X: \xff\xfe\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "high bytes in a name", raw: ok + "X\xff: a\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "DEL in a value", raw: ok + "X: a\x7fb\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "tab in a value", raw: ok + "X: a\tb\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "folding", raw: ok + "X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "a folded length", raw: ok + "Content-Length: 5\r\n 0\r\n\r\nhello", want: refused},
	{name: "folding by a tab", raw: ok + "X: a\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", want: refused, net: kept, why: noEngine},
	{name: "a space before the first field", raw: ok + " X: 1\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a space before the colon", raw: ok + "Content-Length : 5\r\n\r\nhello", fin: true, want: refused, net: closed,
		why: "net/http ignores such a field"},
	{name: "a tab before the colon", raw: ok + "Transfer-Encoding\t: chunked\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a space in a name", raw: ok + "Content Length: 5\r\n\r\nhello", fin: true, want: refused, net: closed, why: "net/http ignores such a field"},
	{name: "no colon", raw: ok + "XYZ\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "no name", raw: ok + ": x\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "an empty value", raw: ok + "X:\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "no space behind the colon", raw: ok + "Content-Length:5\r\n\r\nhello", want: kept},
	{name: "spaces around a value", raw: ok + "Content-Length: \t 5 \t\r\n\r\nhello", want: kept},
	{name: "a long head", raw: ok + "X: " + strings.Repeat("a", maxTestHead) + "\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a long status line", raw: "HTTP/1.1 200 " + strings.Repeat("a", 2*maxTestHead) + "\r\n\r\n", want: refused},
	{name: "a head without end", raw: ok + strings.Repeat("X: a\r\n", maxTestHead/6+1000), want: refused},
	{name: "a line without end", raw: strings.Repeat("H", 2*maxTestHead), want: refused},
	{name: "many fields", raw: ok + strings.Repeat("X: a\r\n", 90) + "Content-Length: 5\r\n\r\nhello", want: kept},

	// The length.
	{name: "the same length twice", raw: ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", want: kept},
	{name: "two lengths", raw: ok + "Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello", want: refused},
	{name: "two lengths in other case", raw: ok + "content-length: 5\r\nCONTENT-LENGTH: 3\r\n\r\nhello", want: refused},
	{name: "a list of lengths", raw: ok + "Content-Length: 5, 5\r\n\r\nhello", want: refused},
	{name: "a negative length", raw: ok + "Content-Length: -5\r\n\r\nhello", want: refused},
	{name: "a plus before the length", raw: ok + "Content-Length: +5\r\n\r\nhello", want: refused},
	{name: "an empty length", raw: ok + "Content-Length: \r\n\r\nhello", want: refused},
	{name: "a hexadecimal length", raw: ok + "Content-Length: 0x5\r\n\r\nhello", want: refused},
	{name: "a length with an underscore", raw: ok + "Content-Length: 0_5\r\n\r\nhello", want: refused},
	{name: "a length with zeros before", raw: ok + "Content-Length: 0005\r\n\r\nhello", want: kept},
	{name: "a length of a fraction", raw: ok + "Content-Length: 5.0\r\n\r\nhello", want: refused},
	{name: "a length of 2^63", raw: ok + "Content-Length: 9223372036854775808\r\n\r\nhello", want: refused},
	{name: "a length of 2^64+5", raw: ok + "Content-Length: 18446744073709551621\r\n\r\nhello", want: refused},
	{name: "a length with 40 digits", raw: ok + "Content-Length: " + strings.Repeat("9", 40) + "\r\n\r\nhello", want: refused},
	{name: "a length that is not reached", raw: ok + "Content-Length: 9\r\n\r\nhello", fin: true, want: `200 "hello" cut closed`},
	{name: "a length of 2^63-1", raw: ok + "Content-Length: 9223372036854775807\r\n\r\nhello", fin: true, want: refused, net: `200 "hello" cut closed`, why: noEngine},
	{name: "204 with a length", raw: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", want: `204 "" closed`},
	{name: "204 with chunks", raw: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: `204 "" closed`},
	{name: "304 with a length", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", want: `304 "" closed`, net: `304 "" kept`, why: "ours keeps no connection where length and body may be at odds"},

	// The transfer coding.
	{name: "a coding and a length", raw: ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused,
		net: kept, why: "net/http removes the length; RFC 9112 6.3 lets us treat it as an error"},
	{name: "a length and a coding", raw: ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused,
		net: kept, why: "as above"},
	{name: "chunked twice", raw: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused},
	{name: "chunked, chunked", raw: ok + "Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused},
	{name: "gzip, chunked", raw: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused},
	{name: "chunked, identity", raw: ok + "Transfer-Encoding: chunked, identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: refused},
	{name: "chunked in other case", raw: ok + "transfer-encoding: ChunKed\r\n\r\n5\r\nhello\r\n0\r\n\r\n", want: kept},
	{name: "an unknown coding", raw: ok + "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "identity", raw: ok + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "an empty coding", raw: ok + "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a coding with a vertical tab", raw: ok + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\nhello", want: refused},
	{name: "a coding in 1.0", raw: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", fin: true, want: refused,
		net: `200 "5\r\nhello\r\n0\r\n\r\n" closed`, why: "net/http ignores the coding, as RFC 9112 6.1 says that the framing is faulty"},

	// Chunks.
	{name: "a chunk of 2^64+5", raw: piecesOK + "10000000000000005\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a chunk of 2^63+5", raw: piecesOK + "8000000000000005\r\nhello\r\n0\r\n\r\n", fin: true, want: `200 "" broken closed`,
		net: `200 "hello\r\n0\r\n\r\n" cut closed`, why: noEngine},
	{name: "zeros before a size", raw: piecesOK + "0000000000000005\r\nhello\r\n0\r\n\r\n", want: kept},
	{name: "17 digits of a size", raw: piecesOK + "00000000000000005\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a negative chunk", raw: piecesOK + "-5\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a plus before a size", raw: piecesOK + "+5\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "0x before a size", raw: piecesOK + "0x5\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "no size", raw: piecesOK + "\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a size of words", raw: piecesOK + "five\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a size in capitals", raw: piecesOK + "A\r\nhellohello\r\n0\r\n\r\n", want: `200 "hellohello" kept`},
	{name: "a space before a size", raw: piecesOK + " 5\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a space behind a size", raw: piecesOK + "5 \r\nhello\r\n0\r\n\r\n", want: kept},
	{name: "a bare LF behind a size", raw: piecesOK + "5\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a bare CR in a size", raw: piecesOK + "5\r\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "an extension", raw: piecesOK + "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", want: kept},
	{name: "an extension with a bare LF", raw: piecesOK + "5;a\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "an extension with a bare CR", raw: piecesOK + "5;a\rb\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "a long extension", raw: piecesOK + "5;" + strings.Repeat("a", 8<<10) + "\r\nhello\r\n0\r\n\r\n", want: `200 "" broken closed`},
	{name: "much in extensions", raw: piecesOK + strings.Repeat("1;"+strings.Repeat("a", 2000)+"\r\nx\r\n", 100) + "0\r\n\r\n", want: "-"},
	{name: "no CRLF behind a chunk", raw: piecesOK + "5\r\nhelloXX0\r\n\r\n", want: `200 "hello" broken closed`},
	{name: "a bare LF behind a chunk", raw: piecesOK + "5\r\nhello\n0\r\n\r\n\r\n", want: `200 "hello" broken closed`},
	{name: "a chunk that is longer", raw: piecesOK + "5\r\nhello!\r\n0\r\n\r\n", want: `200 "hello" broken closed`},
	{name: "no last chunk", raw: piecesOK + "5\r\nhello\r\n", fin: true, want: `200 "hello" cut closed`},
	{name: "no end of the trailers", raw: piecesOK + "5\r\nhello\r\n0\r\n", fin: true, want: `200 "hello" cut closed`},
	{name: "a bare LF as the trailers' end", raw: piecesOK + "5\r\nhello\r\n0\r\n\n", fin: true, want: `200 "hello" broken closed`,
		net: `200 "hello" cut closed`, why: "both refuse"},
	{name: "bytes for the trailers' end", raw: piecesOK + "5\r\nhello\r\n0\r\nXX", fin: true, want: `200 "hello" cut closed`, net: `200 "hello" broken closed`, why: "both refuse"},

	// Trailers.
	{name: "trailers", raw: piecesOK + "5\r\nhello\r\n0\r\nX: y\r\nZ: a\r\n\r\n", want: kept},
	{name: "trailers, announced", raw: ok + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", want: kept},
	{name: "a length in the trailers", raw: piecesOK + "5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n", want: kept},
	{name: "no colon in the trailers", raw: piecesOK + "5\r\nhello\r\n0\r\nX\r\n\r\n", want: `200 "hello" broken closed`},
	{name: "a response in the trailers", raw: piecesOK + "5\r\nhello\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n", want: `200 "hello" broken closed`},
	{name: "trailers of 6 KB", raw: piecesOK + "5\r\nhello\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 6) + "\r\n", want: kept},
	{
		name: "trailers of 20 KB", raw: piecesOK + "5\r\nhello\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 20) + "\r\n",
		want: `200 "hello" broken closed`, net: kept, why: noEngine,
	},
	{name: "long trailers", raw: piecesOK + "5\r\nhello\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 100) + "\r\n",
		want: `200 "hello" broken closed`},
	{name: "trailers without end", raw: piecesOK + "5\r\nhello\r\n0\r\n" + strings.Repeat("X: a\r\n", 20_000), want: `200 "hello" broken closed`},

	// Informational responses.
	{name: "100", raw: "HTTP/1.1 100 Continue\r\n\r\n" + fiveOK, want: kept},
	{name: "102 and 103", raw: "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + fiveOK, want: kept},
	{name: "100 with a length", raw: "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n" + fiveOK, want: refused, net: kept, why: noEngine},
	{name: "100 with a body", raw: "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello" + fiveOK, want: refused},
	{name: "100 and the end", raw: "HTTP/1.1 100 Continue\r\n\r\n", fin: true, want: early},
	{name: "many informational ones", raw: strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("a", 1000)+"\r\n\r\n", 200) + fiveOK, want: refused},
}

func TestAResponseIsReadAsNetHTTPReadsItOrRefused(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		for _, row := range hostile {
			want := row.want
			if c.name == theirs && row.net != "" {
				want = row.net
			}
			if want == "-" {
				continue
			}
			t.Run(row.name, func(t *testing.T) { checkRow(t, c, &row, want) })
		}
	})
}

// checkRow asks twice for a row's response: the second request shows whether the connection is kept and what is left on it.
func checkRow(t *testing.T, c client, row *answers, want string) {
	t.Helper()
	said := make(chan bool, 2)
	e := listen(t, func(p *peer) {
		for {
			if _, alive := p.request(); !alive {
				return
			}
			p.say(row.raw)
			if row.fin {
				_ = p.CloseWrite()
			}
			said <- true
		}
	})
	last := strings.LastIndexByte(want, ' ')
	want, state := want[:last], want[last+1:]
	for i := range 2 {
		if got := c.ask(t.Context(), e.url, "{}"); got.String() != want {
			t.Fatalf("request %d: %v, want %s", i+1, got, want)
		}
		signal(t, "the engine has said all", said)
		if state == "closed" && c.name == theirs { // ours finds out at the latest when it needs a connection
			eventually(t, "the connection is closed", func() bool { return e.open.Load() == 0 })
		}
	}
	mayBeLate := state == "kept" && c.name == theirs // it puts the connection back in a goroutine of its own
	if n := e.opened.Load(); !mayBeLate && fmt.Sprint(n) != map[string]string{"kept": "1", "closed": "2"}[state] {
		t.Errorf("%d connections for two requests; the first is to be %s", n, state)
	}
	c.CloseIdleConnections()
	eventually(t, "the connections are closed", func() bool { return e.open.Load() == 0 })
}
