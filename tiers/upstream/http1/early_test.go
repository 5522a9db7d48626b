package http1

import (
	"context"
	"io"
	"strings"
	"testing"
)

// large is a request's body that fits into no buffer of a connection.
var large = strings.Repeat("x", 16<<20)

// earlyResponses come before the request was read. The script begins when a part of the request has come.
var earlyResponses = []struct {
	name   string
	script func(p *peer)
	want   []string
}{
	{"a refusal", func(p *peer) {
		p.say("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
	}, []string{`413 "large"`}},
	{"a refusal that announces the end", func(p *peer) {
		p.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge")
	}, []string{`413 "large"`}},
	{"a refusal, half closed", func(p *peer) {
		p.say("HTTP/1.1 413 Too Large\r\n\r\nlarge")
		_ = p.CloseWrite()
	}, []string{`413 "large"`}},
	{"a refusal in chunks", func(p *peer) {
		p.say("HTTP/1.1 503 Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("later", 2))
	}, []string{`503 "later"`}},
	{"a refusal while the request is read slowly", func(p *peer) {
		_, _ = p.r.Discard(1 << 20)
		p.say("HTTP/1.1 413 Too Large\r\n")
		_, _ = p.r.Discard(1 << 20)
		p.say("Content-Length: 5\r\n\r\nlarge")
	}, []string{`413 "large"`}},
	{"100, then the request is read", func(p *peer) {
		p.say("HTTP/1.1 100 Continue\r\n\r\n")
		if body, _ := p.request(); body == large {
			p.say(whole("hello"))
		}
	}, []string{`200 "hello"`}},
	{"a response that is none", func(p *peer) { p.say("SSH-2.0-OpenSSH_9.6\r\n\r\n") }, []string{broken}},
	{"a response that is cut", func(p *peer) {
		p.say("HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\nlarge")
		_ = p.CloseWrite()
	}, []string{`413 "large" cut`}},
	{"closed without a response", func(p *peer) { _ = p.Close() }, []string{cut}},
	{"half closed without a response", func(p *peer) { _ = p.CloseWrite() }, []string{cut}},
	{"reset", (*peer).reset, []string{cut}},
	{"a refusal, then reset", func(p *peer) { // the reset may overtake the response
		p.say("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
		p.reset()
	}, []string{`413 "large"`, `413 "" cut`, cut}},
}

func TestAResponseThatComesBeforeTheRequestWasSentIsRead(t *testing.T) {
	for _, row := range earlyResponses {
		t.Run(row.name, func(t *testing.T) {
			overBoth(t, setup{}, func(t *testing.T, c client) {
				nothingLeft(t)
				answered := make(chan bool)
				e := listen(t, func(p *peer) {
					if p.nth == 1 {
						if _, err := p.r.Peek(1000); err != nil {
							return
						}
						row.script(p)
						<-answered
						body, alive := p.request()
						if !alive { // it was closed in the middle of the request
							return
						}
						if body != large {
							p.say(whole(body)) // the script had read the first
						}
					}
					echo(p)
				})
				got := c.ask(t.Context(), e.url, large).String()
				close(answered)
				fits := c.name == theirs && got == broken // it has no one error for a connection that ends
				for _, want := range row.want {
					fits = fits || got == want
				}
				if !fits {
					t.Errorf("%s, want %q", got, row.want)
				}
				if got := c.ask(t.Context(), e.url, "next"); got.String() != `200 "next"` {
					t.Errorf("the next: %v", got)
				}
				c.CloseIdleConnections()
				eventually(t, "the connections are closed", func() bool { return e.open.Load() == 0 })
			})
		})
	}
}

func TestAStreamMayBeginBeforeTheRequestWasSent(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		nothingLeft(t)
		more, done := make(chan bool), make(chan bool)
		e := listen(t, func(p *peer) {
			_, _ = p.r.Peek(1000)
			p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			<-more
			p.say("6\r\n world\r\n0\r\n\r\n")
			<-done
		})
		defer close(done)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		resp, err := c.RoundTrip(newRequest(ctx, e.url, large))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "hello" {
			t.Fatalf("%q, %v", b, err)
		}
		close(more)
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != " world" {
			t.Fatalf("%q, %v", rest, err)
		}
	})
}

func TestALargeRequestArrives(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, func(p *peer) {
			for {
				body, alive := p.request()
				if !alive {
					return
				}
				if body != large {
					t.Errorf("%d bytes arrived", len(body))
				}
				p.say(whole("got it"))
			}
		})
		for range 2 {
			if got := c.ask(t.Context(), e.url, large); got.String() != `200 "got it"` {
				t.Error(got)
			}
		}
	})
}
