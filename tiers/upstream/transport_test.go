package upstream

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/engine"
)

// bare is an engine on bare sockets: each connection is served by do, with its number from 1, and closed afterwards.
func bare(t *testing.T, do func(conn net.Conn, nth int64)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := int64(1); ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				do(conn, n)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// large fits into no buffer on the way to an engine.
var large = `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("a", 16<<20) + `"}]}`

func TestAnAnswerThatComesBeforeTheRequestWasSentIsRead(t *testing.T) {
	url := bare(t, func(conn net.Conn, _ int64) {
		_, _ = bufio.NewReader(conn).Peek(1000)
		refusal := `{"error":{"message":"it is large"}}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s", len(refusal), refusal)
		_, _ = io.Copy(io.Discard, conn)
	})
	_, err := newClient(t, Options{}).Open(t.Context(), at(url, relay(t, large)))
	if f := failureOf(t, err); formatFailure(f) != "upstream_rejected 413 413" || f.Fault.Message != "it is large" {
		t.Errorf("%s: %v", formatFailure(f), f)
	}
}

func TestAStreamMayBeginBeforeTheRequestWasSent(t *testing.T) {
	url := bare(t, func(conn net.Conn, _ int64) {
		_, _ = bufio.NewReader(conn).Peek(1000)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "+aChunk+"\n\ndata: "+anEnd+"\n\ndata: [DONE]\n\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	s := open(t, newClient(t, Options{}), at(url, relay(t, large)))
	if texts, err := drain(s); err != nil || strings.Join(texts, "") != "hi you" {
		t.Errorf("%q, %v", texts, err)
	}
}

// TestARequestIsSentAgainOnlyIfNothingOfItWasWritten: an engine that closed a kept connection may have read the request.
func TestARequestIsSentAgainOnlyIfNothingOfItWasWritten(t *testing.T) {
	var requests atomic.Int64
	url := bare(t, func(conn net.Conn, _ int64) {
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if requests.Add(1) == 2 {
				return // it was read, and is not answered
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	c := newClient(t, Options{})
	open := func() error {
		s, err := c.Open(t.Context(), at(url, &engine.Forward{Path: "/v1/x", Body: []byte("{}"), Into: new(engine.Forwarded)}))
		if err == nil {
			_, err = drain(s)
			s.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	if f := failureOf(t, open()); !f.ReusedConnection || requests.Load() != 2 {
		t.Errorf("%d requests, reused %v: %v", requests.Load(), f.ReusedConnection, f)
	}
	if err := open(); err != nil || requests.Load() != 3 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
}

func TestConnectionsOfOneTLSIdentityServeNoOther(t *testing.T) {
	var peer string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer = r.RemoteAddr
		write(w, "application/json", "{}")
	}))
	defer srv.Close()
	identity := func() *credentials.Credentials {
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		return &credentials.Credentials{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	}
	c := newClient(t, Options{})
	first, second := identity(), identity()
	var peers []string
	for _, own := range []*credentials.Credentials{first, second, first, second, second} {
		a := at(srv.URL, &engine.Forward{Path: "/v1/x", Body: []byte("{}"), Into: new(engine.Forwarded)})
		a.Credentials = own
		s := open(t, c, a)
		_, _ = drain(s)
		s.Close()
		peers = append(peers, peer)
	}
	if peers[0] == peers[1] || peers[2] != peers[0] || peers[3] != peers[1] || peers[4] != peers[1] {
		t.Errorf("the requests came from %v", peers)
	}
}

func TestLinesOfThePoolReplaceThoseOfTheRequestAndAreChecked(t *testing.T) {
	var got http.Header
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		write(w, "application/json", "{}")
	})
	c := newClient(t, Options{})
	a := at(url, &engine.Forward{Path: "/v1/x", Body: []byte("{}"), Into: new(engine.Forwarded)})
	a.Header = http.Header{"Traceparent": {"00-1"}, "X-Team": {"client"}}
	a.Credentials = &credentials.Credentials{Headers: []credentials.Field{{Name: "Authorization", Value: "Bearer pool"}, {Name: "X-Team", Value: "pool"}}}
	s := open(t, c, a)
	s.Close()
	for name, want := range map[string]string{"Authorization": "Bearer pool", "X-Team": "pool", "Traceparent": "00-1", "User-Agent": "foregate"} {
		if strings.Join(got[name], ",") != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	a.Credentials = &credentials.Credentials{Headers: []credentials.Field{{Name: "X-Team", Value: "a\r\nX-Evil: b"}}}
	if s, err := c.Open(t.Context(), a); err == nil {
		s.Close()
		t.Error("a line that is two was sent")
	}
}
