package http1

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestARequestThatIsCanceledBeforeItBeginsIsNotSent(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := c.ask(ctx, e.url, "x"); got.end != canceled {
			t.Errorf("%v, want a canceled one", got)
		}
		if got := c.ask(t.Context(), e.url, "x"); got.String() != `200 "x"` || e.opened.Load() != 1 {
			t.Errorf("%v on %d connections", got, e.opened.Load())
		}
		if got := c.ask(ctx, e.url, "x"); got.end != canceled {
			t.Errorf("%v, want a canceled one", got)
		}
	})
}

func TestACanceledDialIsLeft(t *testing.T) {
	dialing := make(chan context.Context, 2)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialing <- ctx
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	overBoth(t, setup{dial: dial, maxConns: 1}, func(t *testing.T, c client) {
		if c.name == theirs { // it dials on, for whoever comes next
			return
		}
		nothingLeft(t)
		for range 2 { // the second finds the place of the first
			ctx, cancel := context.WithCancel(t.Context())
			end := make(chan result, 1)
			go func() { end <- c.ask(ctx, "http://127.0.0.1:1", "x") }()
			signal(t, "the dial begins", dialing)
			cancel()
			if got := signal(t, "the request ends", end); got.end != canceled {
				t.Errorf("%v, want a canceled one", got)
			}
		}
	})
}

// aborts are moments at which a caller leaves: what the engine has done by then, and how far the caller is.
var aborts = []struct {
	name string
	body string
	// script ends when the engine has come to the moment; it tells how many bytes of a body the caller gets.
	script func(p *peer)
	reads  int // bytes of the body that the caller reads before it leaves
}{
	{name: "while a large body is written", body: large, script: func(p *peer) { _, _ = p.r.Peek(1000) }, reads: -1},
	{name: "before the head", script: func(p *peer) { _, _ = p.request() }, reads: -1},
	{name: "behind an informational response", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 100 Continue\r\n\r\n")
	}, reads: -1},
	{name: "in the status line", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 2")
	}, reads: -1},
	{name: "in the head", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nContent-Len")
	}, reads: -1},
	{name: "behind the head", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
	}},
	{name: "in a body with a length", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
	}, reads: 5},
	{name: "in a chunk", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhello")
	}, reads: 5},
	{name: "in a chunk's size", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5")
	}, reads: 5},
	{name: "behind a chunk", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	}, reads: 5},
	{name: "in the trailers", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: ")
	}, reads: 5},
	{name: "in a body to the end", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\n\r\nhello")
	}, reads: 5},
	{name: "in a stream that never ends", script: func(p *peer) {
		_, _ = p.request()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		go func() {
			for {
				if _, err := io.WriteString(p, "5\r\nhello\r\n"); err != nil {
					return
				}
			}
		}()
	}, reads: 16 << 10},
	{name: "in an early answer while the body is written", body: large, script: func(p *peer) {
		_, _ = p.r.Peek(1000)
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	}, reads: 5},
}

func TestTheEngineSeesThatTheCallerLeft(t *testing.T) {
	for _, row := range aborts {
		for _, way := range []string{"canceled", "canceled in a read", "closed"} {
			if row.reads < 0 && way != "canceled" {
				continue // there is nothing to close
			}
			t.Run(row.name+"/"+way, func(t *testing.T) {
				overBoth(t, setup{maxConns: 2}, func(t *testing.T, c client) {
					if c.name == theirs && row.name == "in the trailers" { // it hands out the last bytes only with them
						return
					}
					nothingLeft(t)
					for range 2 {
						leave(t, c, row.body, row.script, row.reads, way)
					}
				})
			})
		}
	}
}

// leave makes one exchange that the caller leaves.
func leave(t *testing.T, c client, body string, script func(p *peer), reads int, way string) {
	t.Helper()
	come, left, gone := make(chan bool, 1), make(chan bool), make(chan bool, 1)
	e := listen(t, func(p *peer) {
		if p.nth > 1 {
			echo(p)
			return
		}
		script(p)
		come <- true
		<-left
		n, _ := io.Copy(io.Discard, p.r) // what the kernel holds, and the end
		if n >= int64(len(large)) {
			t.Errorf("the engine got %d bytes of a request that was left", n)
		}
		gone <- true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if reads < 0 {
		end := make(chan result, 1)
		go func() { end <- c.ask(ctx, e.url, body) }()
		signal(t, "the engine has come so far", come)
		cancel()
		if got := signal(t, "the request ends", end); got.end != canceled || got.status != 0 {
			t.Errorf("%v, want a canceled one", got)
		}
	} else {
		resp, err := c.RoundTrip(newRequest(ctx, e.url, body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, int64(reads)); err != nil {
			t.Fatal(err)
		}
		signal(t, "the engine has come so far", come)
		leaveBody(t, resp, cancel, way)
	}
	close(left)
	signal(t, "the engine sees the end", gone)
	if got := c.ask(t.Context(), e.url, "next"); got.String() != `200 "next"` {
		t.Errorf("the next: %v", got)
	}
	c.CloseIdleConnections()
}

// leaveBody leaves an answer in the middle.
func leaveBody(t *testing.T, resp *http.Response, cancel func(), way string) {
	t.Helper()
	switch way {
	case "closed":
		_ = resp.Body.Close()
		return
	case "canceled":
		cancel()
	case "canceled in a read":
		go func() {
			runtime.Gosched()
			cancel()
		}()
	}
	if _, err := io.Copy(io.Discard, resp.Body); endOf(err) != canceled {
		t.Errorf("the body ends with %v, want a canceled one", err)
	}
	_ = resp.Body.Close()
	_ = resp.Body.Close()
}

func TestACancelBehindTheEndTouchesNoLaterRequest(t *testing.T) {
	overBoth(t, setup{}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, echo)
		cancel := func() {}
		for i := range 300 {
			ctx, next := context.WithCancel(t.Context())
			last := cancel
			go last() // while the next is under way, on the same connection
			if got := c.ask(ctx, e.url, fmt.Sprint(i)); got.String() != fmt.Sprintf(`200 "%d"`, i) {
				t.Fatalf("request %d: %v", i, got)
			}
			cancel = next
		}
		cancel()
	})
}

// answerTo is the body that the engine of the test below gives to a request: its own words again and again.
func answerTo(body string) string { return strings.Repeat(body+";", 200) }

// moody answers in one of the ways that there are. If it is rude, it also sends responses that nobody asked for.
func moody(p *peer, rude bool) {
	for {
		body, alive := p.request()
		if !alive {
			return
		}
		raw, extra := whole(answerTo(body)), ""
		switch rand.IntN(8) {
		case 0:
			p.reset()
			return
		case 1: // cut
			p.say(raw[:rand.IntN(len(raw))])
			return
		case 2:
			if rude {
				extra = whole(answerTo("wrong"))
			}
		case 3, 4, 5:
			raw = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(answerTo(body), 1+rand.IntN(500))
		}
		for len(raw) > 1000 {
			n := 1 + rand.IntN(1000)
			p.say(raw[:n])
			raw = raw[n:]
			runtime.Gosched()
		}
		p.say(raw + extra) // at once: against what comes later, when the next request is under way, HTTP/1.1 has no means
		if rand.IntN(20) == 0 {
			return // closes the idle connection
		}
	}
}

func TestNoCallerGetsAnotherOnesBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	overBoth(t, setup{maxConns: 24}, func(t *testing.T, c client) {
		nothingLeft(t)
		e := listen(t, func(p *peer) { moody(p, c.name == ours) }) // net/http sometimes takes such a response for the next request's
		var wg sync.WaitGroup
		for who := range 32 {
			wg.Go(func() {
				for i := range 40 {
					leaveSomewhere(t, c, e.url, fmt.Sprintf("caller %d, request %d", who, i))
				}
			})
		}
		wg.Wait()
		c.CloseIdleConnections()
		eventually(t, "all connections are closed", func() bool { return e.open.Load() == 0 })
	})
}

// leaveSomewhere makes an exchange that is often left at a random moment, and checks the bytes that came.
func leaveSomewhere(t *testing.T, c client, url, body string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mood := rand.IntN(4)
	if mood == 0 {
		timer := time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	resp, err := c.RoundTrip(newRequest(ctx, url, body))
	if err != nil {
		if endOf(err) == "hanging" {
			t.Errorf("%s: %v", body, err)
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	want := answerTo(body)
	var got []byte
	if mood == 1 {
		got = make([]byte, rand.IntN(len(want)))
		n, _ := io.ReadFull(resp.Body, got)
		got = got[:n]
	} else if got, err = io.ReadAll(resp.Body); err == nil && string(got) != want {
		t.Errorf("%s: %d bytes are whole, want %d", body, len(got), len(want))
	}
	if endOf(err) == "hanging" || !strings.HasPrefix(want, string(got)) {
		t.Errorf("%s: %.200q, %v", body, got, err)
	}
}
