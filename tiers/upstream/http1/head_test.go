package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// parsed parses a head that comes in pieces of this size.
func parsed(b string, step int) (h head, complete bool, err error) {
	for n := 0; n < len(b) && !complete && err == nil; {
		n = min(n+step, len(b))
		complete, err = h.parse([]byte(b[:n]))
	}
	return h, complete, err
}

func TestAHeadIsReadAsItsFramingSays(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n":                                                "200 5 coded=false closes=false",
		"HTTP/1.1 200\r\ncontent-length:\t005 \r\n\r\n":                                               "200 5 coded=false closes=false",
		"HTTP/1.1 200 \r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n":                             "200 5 coded=false closes=false",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: a, Close\r\n\r\n":                        "200 5 coded=false closes=true",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n":                      "200 5 coded=false closes=false",
		"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":          "200 0 coded=false closes=true",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n":                                       "200 -1 coded=true closes=false",
		"HTTP/1.1 200 OK\r\n\r\n":                                                                     "200 -1 coded=false closes=true",
		"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n":                      "200 5 coded=false closes=true",
		"HTTP/1.1 204 No Content\r\n\r\n":                                                             "204 0 coded=false closes=false",
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n":                                        "204 0 coded=false closes=true",
		"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n":                             "304 0 coded=false closes=true",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n":                                                 "103 0 coded=false closes=false",
		"HTTP/1.1 999 \xff\r\nX:\r\nx-!#$%&'*+.^_`|~1: \xff\tz\r\nContent-Length: 1\r\n\r\n":          "999 1 coded=false closes=false",
		"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775799\r\n\r\n":                              "200 9223372036854775799 coded=false closes=false",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab?": "200 1 coded=false closes=false",
	} {
		for _, step := range []int{1, 7, len(in)} {
			h, complete, err := parsed(in, step)
			if got := fmt.Sprintf("%d %d coded=%v closes=%v", h.status, h.length, h.coded, h.closes); err != nil || !complete || got != want {
				t.Errorf("%q by %d: %s, complete %v, %v; want %s", in, step, got, complete, err, want)
			}
			if end := strings.Index(in, "\r\n\r\n") + 4; h.line != end {
				t.Errorf("%q by %d: %d bytes, not %d", in, step, h.line, end)
			}
		}
	}
}

func TestAHeadThatIsNotPlainlyHTTPIsRefused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, in := range []string{
		"\r\n", " HTTP/1.1 200 OK\r\n", "HTTP/1.1200 OK\r\n", "HTTP/1.2 200 OK\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/2 200\r\n", "http/1.1 200 OK\r\n",
		"HTTP/1.1  200 OK\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 +20 OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/1.1 200\tOK\r\n",
		"HTTP/1.1 200 O\x00K\r\n", "HTTP/1.1 200 O\rK\r\n", "HTTP/1.1 200 OK\n", "HTTP/1.1\r\n", "ICY 200 OK\r\n", "<html>", "SSH-2.0-x\r\n",
		ok + "no colon\r\n", ok + ": no name\r\n", ok + "a b: c\r\n", ok + "a : b\r\n", ok + " folded: b\r\n", ok + "a: b\r\n c\r\n", ok + "a: b\r\n\tc\r\n",
		ok + "a: b\n", ok + "a: b\x00\r\n", ok + "a: b\rc\r\n", ok + "a: b\r\r\n", ok + "a: \x7f\r\n", ok + "a\x80: b\r\n", ok + "a(: b\r\n",
		ok + "Content-Length:\r\n", ok + "Content-Length: -1\r\n", ok + "Content-Length: +1\r\n", ok + "Content-Length: 1 2\r\n", ok + "Content-Length: 0x1\r\n",
		ok + "Content-Length: 1, 1\r\n", ok + "Content-Length: 9223372036854775808\r\n", ok + "Content-Length: 18446744073709551617\r\n",
		ok + "Content-Length: 00000000000000000001\r\n", ok + "Content-Length: 1\r\ncontent-length: 2\r\n",
		ok + "Transfer-Encoding: gzip\r\n", ok + "Transfer-Encoding: gzip, chunked\r\n", ok + "Transfer-Encoding: chunked, chunked\r\n",
		ok + "Transfer-Encoding: identity\r\n", ok + "Transfer-Encoding:\r\n", ok + "Transfer-Encoding: chunked;x\r\n", ok + "Transfer-Encoding: \x0bchunked\r\n",
		ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
		ok + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 102 Processing\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		for _, step := range []int{1, len(in)} {
			if h, complete, err := parsed(in, step); !errors.Is(err, ErrMalformed) || complete {
				t.Errorf("%q by %d: %+v, complete %v, %v", in, step, h, complete, err)
			}
		}
	}
}

func TestOfSeveralHeaderLinesTheFirstIsTold(t *testing.T) {
	h, _, err := parsed("HTTP/1.1 200 OK\r\nCONTENT-TYPE: a/b\r\nContent-Type: c/d\r\nRetry-After: 7\r\nContent-Encoding: \r\ncontent-encoding: br\r\n\r\n", 100)
	if err != nil || h.contentType != "a/b" || h.retryAfter != "7" || h.contentEncoding != "br" {
		t.Errorf("%+v, %v", h, err)
	}
}
