package http1

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestARequestIsWrittenAsItsPartsSay(t *testing.T) {
	for _, tc := range []struct {
		base, path, addr, line, host string
		tls                          bool
	}{
		{"http://10.0.0.1:8000", "/v1/chat/completions", "10.0.0.1:8000", "POST /v1/chat/completions", "10.0.0.1:8000", false},
		{"http://engine", "/x", "engine:80", "POST /x", "engine", false},
		{"https://engine/vllm", "/x", "engine:443", "POST /vllm/x", "engine", true},
		{"https://engine:8443/a%20b", "/x y", "engine:8443", "POST /a%20b/x%20y", "engine:8443", true},
		{"http://[::1]:8000", "/x?a=b c#d", "[::1]:8000", "POST /x?a=b c", "[::1]:8000", false},
		{"http://[fe80::1%25eth0]:8000", "/x", "[fe80::1%eth0]:8000", "POST /x", "[fe80::1]:8000", false},
		{"http://b\u00fccher.example", "/x", "xn--bcher-kva.example:80", "POST /x", "xn--bcher-kva.example", false},
	} {
		s, err := parseServer(tc.base)
		if err != nil {
			t.Fatalf("%s: %v", tc.base, err)
		}
		b, err := s.appendHead(nil, &Request{Path: strings.ReplaceAll(tc.path, "a=b c", "a=b+c"), Body: []byte("abc")})
		want := strings.ReplaceAll(tc.line, "a=b c", "a=b+c") + " HTTP/1.1\r\nHost: " + tc.host + "\r\nUser-Agent: foregate\r\nContent-Length: 3\r\n\r\n"
		if err != nil || string(b) != want || s.addr != tc.addr || s.tls != tc.tls {
			t.Errorf("%s, %s: %q to %s, tls %v, %v", tc.base, tc.path, b, s.addr, s.tls, err)
		}
	}
}

func TestFieldsReplaceHeaderLinesAndNoneFramesTheMessage(t *testing.T) {
	s, err := parseServer("http://u:p@engine")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.appendHead(nil, &Request{
		Path: "/x", Fields: []Field{{"Content-Type", "a"}, {"X-Id", "1"}},
		Header: http.Header{
			"Content-Type": {"b"}, "X-Id": {"2"}, "Y": {"3", "4"}, "Host": {"h"}, "Content-Length": {"9"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"t"},
			"Te": {"trailers"}, "Connection": {"close"}, "Keep-Alive": {"1"}, "Upgrade": {"h2c"}, "Expect": {"100-continue"}, "User-Agent": {"z"}, "Proxy-Connection": {"close"},
		},
	})
	lines := strings.Split(string(b), "\r\n")
	slices.Sort(lines)
	want := []string{
		"", "", "Authorization: Basic dTpw", "Content-Length: 0", "Content-Type: a", "Host: engine", "POST /x HTTP/1.1", "User-Agent: foregate", "X-Id: 1", "Y: 3", "Y: 4",
	}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestARequestThatWouldBreakTheMessageIsRefused(t *testing.T) {
	for _, base := range []string{"", "engine:80", "ftp://engine", "http://", "http://engine?a", "http://engine?", "http://engine#a", "http://a b", "http://engine:x", "http:engine", "http://en\x00gine"} {
		if _, err := parseServer(base); !errors.Is(err, ErrRequest) {
			t.Errorf("%q: %v", base, err)
		}
	}
	s, err := parseServer("http://engine")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Request{
		{Path: ""}, {Path: "x"}, {Path: "/\r\nA: b"}, {Path: "/%zz"}, {Path: "http://other/x"}, {Path: "//other/\x00"},
		{Path: "/", Fields: []Field{{"A", "b\r\nC: d"}}}, {Path: "/", Fields: []Field{{"A b", "c"}}}, {Path: "/", Fields: []Field{{"", "c"}}},
		{Path: "/", Header: http.Header{"A": {"b\nC: d"}}}, {Path: "/", Header: http.Header{"A:": {"b"}}}, {Path: "/", Header: http.Header{"A": {"b\x00"}}},
	} {
		if b, err := s.appendHead(nil, &r); !errors.Is(err, ErrRequest) {
			t.Errorf("%+v: %q, %v", r, b, err)
		}
	}
}
