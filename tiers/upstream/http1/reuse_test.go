package http1

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAConnectionThatEndedWhileIdleIsNotUsed(t *testing.T) {
	for name, end := range map[string]func(p *peer){
		"closed":                 func(p *peer) { _ = p.Close() },
		"half closed":            func(p *peer) { _ = p.CloseWrite() },
		"reset":                  (*peer).reset,
		"a response unasked":     func(p *peer) { p.say(whole("wrong")) },
		"a byte unasked":         func(p *peer) { p.say("\n") },
		"a 408, then closed":     func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"); _ = p.CloseWrite() },
		"an informational alone": func(p *peer) { p.say("HTTP/1.1 100 Continue\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, setup{}, func(t *testing.T, c client) {
				nothingLeft(t)
				idle, ended := make(chan bool, 1), make(chan bool, 1)
				e := listen(t, func(p *peer) {
					body, alive := p.request()
					if !alive {
						t.Error("a connection without a request")
						return
					}
					p.say(whole(body))
					if p.nth > 1 {
						p.ended()
						return
					}
					<-idle
					end(p)
					ended <- true
					p.ended()
				})
				if got := c.ask(t.Context(), e.url, "first"); got.String() != `200 "first"` {
					t.Fatal(got)
				}
				idle <- true
				signal(t, "the engine ends the idle connection", ended)
				if c.name == theirs { // it finds out in a goroutine of its own, and nothing tells when
					eventually(t, "the client closes the connection", func() bool { return e.open.Load() == 0 })
					time.Sleep(10 * time.Millisecond)
				}
				if got := c.ask(t.Context(), e.url, "second"); got.String() != `200 "second"` || e.opened.Load() != 2 {
					t.Fatalf("%v on %d connections", got, e.opened.Load())
				}
				c.CloseIdleConnections()
				eventually(t, "all are closed", func() bool { return e.open.Load() == 0 })
			})
		})
	}
}

// opaque is a connection that cannot be looked at.
type opaque struct{ net.Conn }

func TestAConnectionThatCannotBeLookedAtIsUsedOnce(t *testing.T) {
	nothingLeft(t)
	var d net.Dialer
	c := client{newOurs(setup{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		return opaque{conn}, err
	}}), ours}
	e := listen(t, func(p *peer) {
		if body, alive := p.request(); alive {
			p.say(whole(body))
		}
		p.say(whole("wrong")) // is in the socket when the next request looks
		p.ended()
	})
	for _, body := range []string{"first", "second"} {
		if got := c.ask(t.Context(), e.url, body); got.String() != fmt.Sprintf("200 %q", body) {
			t.Errorf("%s: %v", body, got)
		}
	}
	if n := e.opened.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	c.CloseIdleConnections()
}

func TestAnIdleConnectionIsClosedInTime(t *testing.T) {
	overBoth(t, setup{idle: 20 * time.Millisecond}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		for i := range 3 {
			if got := c.ask(t.Context(), e.url, "x"); got.String() != `200 "x"` {
				t.Fatal(got)
			}
			eventually(t, "the idle connection is closed", func() bool { return e.open.Load() == 0 })
			if n := e.opened.Load(); n != int64(i+1) {
				t.Fatalf("%d connections", n)
			}
		}
	})
}

// echo answers each request with its body.
func echo(p *peer) {
	for {
		body, alive := p.request()
		if !alive {
			return
		}
		p.say(whole(body))
	}
}

// hold opens n exchanges at once and returns what ends them.
func hold(t *testing.T, c client, url string, n int) (finish func()) {
	t.Helper()
	var all []*http.Response
	for range n {
		resp, err := c.RoundTrip(newRequest(t.Context(), url, "x"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp)
	}
	return func() {
		for _, resp := range all {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
}

func TestTheConnectionThatWasUsedLastIsUsedNext(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, func(p *peer) {
			for {
				if _, alive := p.request(); !alive {
					return
				}
				p.say(whole(fmt.Sprint(p.nth)))
			}
		})
		hold(t, c, e.url, 4)()
		if n := e.opened.Load(); n != 4 {
			t.Fatalf("%d connections for four exchanges at once", n)
		}
		if c.name == theirs { // it puts them back in goroutines
			return
		}
		for range 5 {
			if got := c.ask(t.Context(), e.url, ""); got.String() != `200 "4"` {
				t.Errorf("%v, want the connection that was freed last", got)
			}
		}
	})
}

func TestNoMoreConnectionsThanAllowedAreKept(t *testing.T) {
	overBoth(t, setup{maxIdle: 2}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		finish := hold(t, c, e.url, 8)
		finish()
		eventually(t, "two connections are left", func() bool { return e.open.Load() == 2 })
		hold(t, c, e.url, 2)()
		if n := e.opened.Load(); n != 8 {
			t.Errorf("%d connections, want the two that were kept and none more", n)
		}
	})
}

func TestNoMoreConnectionsThanAllowedAreOpened(t *testing.T) {
	overBoth(t, setup{maxConns: 3}, func(t *testing.T, c client) {
		nothingLeft(t)
		var now, most atomic.Int64
		e := listen(t, func(p *peer) {
			for {
				body, alive := p.request()
				if !alive {
					return
				}
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond) // the engine works
				now.Add(-1)
				p.say(whole(body))
			}
		})
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				if got := c.ask(t.Context(), e.url, fmt.Sprint(i)); got.body != fmt.Sprint(i) || got.end != "" {
					t.Errorf("asked %d: %v", i, got)
				}
			})
		}
		wg.Wait()
		if e.opened.Load() > 3 || most.Load() > 3 {
			t.Errorf("%d connections, %d requests at once", e.opened.Load(), most.Load())
		}
	})
}

func TestAWaitForAConnectionEndsWithItsRequest(t *testing.T) {
	overBoth(t, setup{maxConns: 1}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		finish := hold(t, c, e.url, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan result, 5)
		for range cap(ends) {
			go func() { ends <- c.ask(ctx, e.url, "waits") }()
		}
		cancel()
		for range cap(ends) {
			if got := signal(t, "the wait ends", ends); got.end != canceled {
				t.Errorf("%v, want a canceled wait", got)
			}
		}
		finish()
		if got := c.ask(t.Context(), e.url, "later"); got.String() != `200 "later"` {
			t.Errorf("%v behind waits that ended", got)
		}
	})
}

func TestAFailureToConnectFreesItsPlace(t *testing.T) {
	var fails atomic.Bool
	var d net.Dialer
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if fails.Load() {
			return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
		}
		return d.DialContext(ctx, network, addr)
	}
	overBoth(t, setup{dial: dial, maxConns: 1}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		fails.Store(true)
		for range 3 {
			if got := c.ask(t.Context(), e.url, "x"); got.end != broken {
				t.Errorf("%v without a connection", got)
			}
		}
		fails.Store(false)
		if got := c.ask(t.Context(), e.url, "x"); got.String() != `200 "x"` {
			t.Errorf("%v behind failures to connect", got)
		}
	})
}
