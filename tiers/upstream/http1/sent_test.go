package http1

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestARequestThatWouldNotBeReadAsMeantIsNotSent(t *testing.T) {
	nothingLeft(t)
	e := listen(t, func(p *peer) {
		if _, err := p.r.Peek(1); err == nil {
			t.Error("it was sent")
		}
	})
	plain := Request{Base: e.url, Path: "/v1/x", Body: []byte("{}")}
	with := func(change func(*Request)) *Request {
		r := plain
		change(&r)
		return &r
	}
	for name, r := range map[string]*Request{
		"CR LF in a value":          with(func(r *Request) { r.Header = http.Header{"X": {"a\r\nContent-Length: 0"}} }),
		"LF in a value":             with(func(r *Request) { r.Header = http.Header{"X": {"a\nb"}} }),
		"CR in a value":             with(func(r *Request) { r.Header = http.Header{"X": {"a\rb"}} }),
		"NUL in a value":            with(func(r *Request) { r.Header = http.Header{"X": {"a\x00"}} }),
		"CR LF in a second value":   with(func(r *Request) { r.Header = http.Header{"X": {"a", "\r\n\r\n"}} }),
		"CR LF in a name":           with(func(r *Request) { r.Header = http.Header{"X\r\nY": {"a"}} }),
		"a colon in a name":         with(func(r *Request) { r.Header = http.Header{"X:Y": {"a"}} }),
		"a space behind a name":     with(func(r *Request) { r.Header = http.Header{"Transfer-Encoding ": {"chunked"}} }),
		"an empty name":             with(func(r *Request) { r.Header = http.Header{"": {"a"}} }),
		"CR LF in a field":          with(func(r *Request) { r.Fields = []Field{{"X", "a\r\nb: c"}} }),
		"CR LF in a field's name":   with(func(r *Request) { r.Fields = []Field{{"X: a\r\nb", "c"}} }),
		"CR LF in the path":         with(func(r *Request) { r.Path = "/x HTTP/1.1\r\nX: y\r\n\r\n" }),
		"LF in the path":            with(func(r *Request) { r.Path = "/x\n" }),
		"a host as the path":        with(func(r *Request) { r.Path = "http://other/x" }),
		"no slash before the path":  with(func(r *Request) { r.Path = "x" }),
		"no path":                   with(func(r *Request) { r.Path = "" }),
		"CR LF in the base":         with(func(r *Request) { r.Base += "/a\r\nX: y" }),
		"an escaped CR LF as host":  with(func(r *Request) { r.Base = "http://a%0d%0ab" }),
		"a query in the base":       with(func(r *Request) { r.Base += "?a" }),
		"another scheme":            with(func(r *Request) { r.Base = strings.Replace(r.Base, "http", "ftp", 1) }),
		"a space in the host":       with(func(r *Request) { r.Base = "http://a b/" }),
		"no host":                   with(func(r *Request) { r.Base = "http:///x" }),
		"a relative base":           with(func(r *Request) { r.Base = "/x" }),
		"a base without // at host": with(func(r *Request) { r.Base = "http:x" }),
	} {
		tr := newTransport(t, Options{})
		var resp Response
		if err := tr.Do(t.Context(), r, &resp); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v, want %v", name, err, ErrRequest)
		}
	}
}

func TestARequestHasOneFraming(t *testing.T) {
	nothingLeft(t)
	heads := make(chan string, 1)
	e := listen(t, func(p *peer) {
		var head strings.Builder
		for {
			line, err := p.r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if line == "\r\n" {
				break
			}
		}
		heads <- head.String()
		p.say(whole("ok"))
	})
	header := http.Header{"A": {"b"}}
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Expect", "Host", "Keep-Alive", "Proxy-Connection"} {
		header[name] = []string{"7"}
		header[strings.ToLower(name)] = []string{"8"}
	}
	tr := newTransport(t, Options{})
	var resp Response
	if err := tr.Do(t.Context(), &Request{Base: e.url, Path: "/a b?c\"d", Header: header, Body: []byte("{}")}, &resp); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := "POST /a%20b?c\"d HTTP/1.1\r\nHost: " + strings.TrimPrefix(e.url, "http://") + "\r\nUser-Agent: foregate\r\nContent-Length: 2\r\nA: b\r\n\r\n"
	if got := signal(t, "the request comes", heads); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
