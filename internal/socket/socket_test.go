package socket

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a TCP connection; wrapped says whether the first is one of this package's.
func pair(t testing.TB, wrapped bool) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	if wrapped {
		a = New(a)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func TestBytesArriveInBothDirections(t *testing.T) {
	sent := make([]byte, 4<<20) // more than both ends buffer
	_, _ = rand.Read(sent)
	for name, size := range map[string]int{"in one write": len(sent), "in pieces": 100_001} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, true)
			var group sync.WaitGroup
			for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
				group.Go(func() {
					for rest := sent; len(rest) > 0; {
						n, err := ends[0].Write(rest[:min(size, len(rest))])
						if err != nil {
							t.Error(err)
							return
						}
						rest = rest[n:]
					}
				})
				group.Go(func() {
					got := make([]byte, len(sent))
					if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, sent) {
						t.Errorf("%v; the bytes are the same: %t", err, bytes.Equal(got, sent))
					}
				})
			}
			group.Wait()
		})
	}
}

func TestConcurrentWritesAreNotMixed(t *testing.T) {
	a, b := pair(t, true)
	const writers, size = 8, 300_000
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			if n, err := a.Write(bytes.Repeat([]byte{byte(i)}, size)); n != size || err != nil {
				t.Error(n, err)
			}
		})
	}
	piece := make([]byte, size)
	for range writers {
		if _, err := io.ReadFull(b, piece); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(piece, piece[:1]) != size {
			t.Fatal("bytes of several writes")
		}
	}
	group.Wait()
}

// same fails the test if an error is not like the net package's.
func same(t *testing.T, what string, got, want error) {
	t.Helper()
	for _, kind := range []error{io.EOF, os.ErrDeadlineExceeded, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(got, kind) != errors.Is(want, kind) {
			t.Errorf("%s: %v, the net package has %v", what, got, want)
			return
		}
	}
	g, gok := errors.AsType[*net.OpError](got)
	w, wok := errors.AsType[*net.OpError](want)
	if gok != wok || gok && (g.Op != w.Op || g.Timeout() != w.Timeout() || g.Net != w.Net) {
		t.Errorf("%s: %#v, the net package has %#v", what, got, want)
	}
}

func TestErrorsAreThoseOfTheNetPackage(t *testing.T) {
	p, large := make([]byte, 10), make([]byte, 64<<20)
	for name, fault := range map[string]func(a, b net.Conn) error{
		"an end": func(a, b net.Conn) error { _ = b.Close(); _, err := a.Read(p); return err },
		"a reset": func(a, b net.Conn) error {
			_ = b.(*net.TCPConn).SetLinger(0)
			_ = b.Close()
			_, err := a.Read(p)
			return err
		},
		"a closed":          func(a, _ net.Conn) error { _ = a.Close(); _, err := a.Read(p); return err },
		"a closed, written": func(a, _ net.Conn) error { _ = a.Close(); _, err := a.Write(p); return err },
		"closed in a read": func(a, _ net.Conn) error {
			time.AfterFunc(10*time.Millisecond, func() { _ = a.Close() })
			_, err := a.Read(p)
			return err
		},
		"a deadline": func(a, _ net.Conn) error {
			_ = a.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := a.Read(p)
			return err
		},
		"a deadline that is over": func(a, b net.Conn) error {
			_, _ = b.Write(p)
			_ = a.SetReadDeadline(time.Unix(1, 0))
			_, err := a.Read(p)
			return err
		},
		"a deadline of a write": func(a, _ net.Conn) error {
			_ = a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			n, err := a.Write(large)
			if n == 0 || n == len(large) {
				t.Errorf("%d bytes were written", n)
			}
			return err
		},
		"a write to a closed peer": func(a, b net.Conn) (err error) {
			_ = b.(*net.TCPConn).SetLinger(0)
			_ = b.Close()
			for err == nil {
				_, err = a.Write(p)
			}
			return err
		},
		"no memory":      func(a, _ net.Conn) error { _, err := a.Read(nil); return err },
		"nothing to say": func(a, _ net.Conn) error { _, err := a.Write(nil); return err },
	} {
		var errs [2]error
		for i, wrapped := range []bool{true, false} {
			a, b := pair(t, wrapped)
			errs[i] = fault(a, b)
		}
		same(t, name, errs[0], errs[1])
	}
}

func TestOtherConnectionsAreLeftAlone(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if New(a) != a {
		t.Error("a pipe was changed")
	}
}

func TestVectorsAreWrittenAtOnce(t *testing.T) {
	a, b := pair(t, true)
	v := net.Buffers{[]byte("ab"), []byte("cd")}
	if n, err := v.WriteTo(a); n != 4 || err != nil {
		t.Error(n, err)
	}
	p := make([]byte, 4)
	if _, err := io.ReadFull(b, p); string(p) != "abcd" {
		t.Errorf("%q, %v", p, err)
	}
}

func TestReadsAndWritesDoNotAllocate(t *testing.T) {
	a, b := pair(t, true)
	p := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = b.Write(p)
		_, _ = a.Read(p)
		_, _ = a.Write(p)
		_, _ = b.Read(p)
	}); n > 0 {
		t.Errorf("%.1f allocations", n)
	}
}

// BenchmarkEcho is a read and a write for each of the peer's, with nothing else to do between them.
func BenchmarkEcho(b *testing.B) {
	for name, wrapped := range map[string]bool{"net": false, "socket": true} {
		b.Run(name, func(b *testing.B) {
			mine, peer := pair(b, wrapped)
			go func() { _, _ = io.Copy(struct{ io.Writer }{peer}, struct{ io.Reader }{peer}) }()
			p := make([]byte, 300)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mine.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(mine, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
