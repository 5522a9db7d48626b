package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// looked is a connection that can be looked at: there is never anything to be seen.
type looked struct {
	net.Conn
	raw syscall.RawConn // of a socket to which nobody writes
}

func (c looked) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// silentSocket is a socket to which nobody writes.
func silentSocket(t testing.TB) syscall.RawConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// inMemory has a Transport connect to scripts, each with the server's end of a connection whose request it has read.
func inMemory(t *testing.T, o Options, script func(conn net.Conn)) *Transport {
	t.Helper()
	raw := silentSocket(t)
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer func() { _ = there.Close() }()
			for r := bufio.NewReader(there); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				script(there)
			}
		}()
		return looked{here, raw}, nil
	}
	tr := New(o)
	t.Cleanup(func() {
		tr.Close()
		time.Sleep(time.Minute) // of the bubble: the scripts see the end
	})
	return tr
}

const aHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestWaitsEndExactlyInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := inMemory(t, Options{}, func(conn net.Conn) {
			time.Sleep(3 * time.Second)
			_, _ = io.WriteString(conn, aHead)
			for {
				time.Sleep(900 * time.Millisecond)
				if _, err := io.WriteString(conn, "1\r\na\r\n"); err != nil {
					return
				}
			}
		})
		began := time.Now()
		elapsed := func(want time.Duration) {
			t.Helper()
			if d := time.Since(began); d != want {
				t.Errorf("after %v, not %v", d, want)
			}
			began = time.Now()
		}
		var resp Response
		if err := tr.Do(t.Context(), &Request{Base: "http://x", Path: "/", Wait: 2 * time.Second}, &resp); !errors.Is(err, ErrTimeout) {
			t.Errorf("no head: %v", err)
		}
		elapsed(2 * time.Second)
		if err := tr.Do(t.Context(), &Request{Base: "http://x", Path: "/", Wait: 4 * time.Second}, &resp); err != nil {
			t.Fatal(err)
		}
		elapsed(3 * time.Second)
		p := make([]byte, 100)
		for range 20 { // each with the whole of its second, however long ago the deadline of the socket was set
			resp.Body.SetWait(time.Second)
			if _, err := resp.Body.Read(p); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // of the reader's own are no wait
		}
		elapsed(20*900*time.Millisecond + 200*time.Millisecond)
		resp.Body.SetWait(2 * time.Second) // for several reads together
		var err error
		for n := 0; err == nil; n++ {
			_, err = resp.Body.Read(p)
		}
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("in the body: %v", err)
		}
		elapsed(2 * time.Second)
		if _, again := resp.Body.Read(p); again != err {
			t.Errorf("behind it: %v", again)
		}
		if len(tr.pools.byKey) != 0 {
			t.Error("a connection is left")
		}
	})
}

func TestIdleConnectionsAreClosedOnTimeAndTheTimerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := inMemory(t, Options{IdleTimeout: 4 * time.Second}, func(conn net.Conn) {
			time.Sleep(time.Second)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		ask := func(reused bool) {
			t.Helper()
			var resp Response
			if err := tr.Do(t.Context(), &Request{Base: "http://x", Path: "/"}, &resp); err != nil || resp.Reused != reused {
				t.Errorf("reused %v, %v", resp.Reused, err)
			}
		}
		open := func() int {
			tr.pools.mu.Lock()
			defer tr.pools.mu.Unlock()
			n := 0
			for _, p := range tr.pools.byKey {
				n += p.open
			}
			return n
		}
		ask(false)
		time.Sleep(3 * time.Second)
		ask(true)
		time.Sleep(4*time.Second - time.Millisecond)
		synctest.Wait()
		if n := open(); n != 1 {
			t.Errorf("%d open before the time", n)
		}
		time.Sleep(2 * minSweep)
		synctest.Wait()
		if n := open(); n != 0 || tr.pools.armed {
			t.Errorf("%d open behind the time, timer %v", n, tr.pools.armed)
		}
		ask(false)
	})
}
