package process

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upcase is a server that answers each line in capitals.
func upcase(t *testing.T) string { return answering(t, strings.ToUpper) }

// answering is a server that answers each line.
func answering(t *testing.T, answer func(line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewReader(c); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, answer(line)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func newProxy(t *testing.T) *Proxy {
	t.Helper()
	p, err := NewProxy(upcase(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// caller is a client of a proxy.
type caller struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func call(t *testing.T, addr string) *caller {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

// ask says a line and returns the answer, with the error that ended it.
func (c *caller) ask(line string, limit time.Duration) (string, error) {
	c.t.Helper()
	if err := c.c.SetDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.WriteString(c.c, line+"\n"); err != nil {
		return "", err
	}
	answer, err := c.r.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// says asks and insists on the answer.
func (c *caller) says(line, want string) {
	c.t.Helper()
	if got, err := c.ask(line, 10*time.Second); err != nil || got != want {
		c.t.Fatalf("%q was answered with %q, %v; want %q", line, got, err, want)
	}
}

// silent asks and insists on there being no answer.
func (c *caller) silent(line string) {
	c.t.Helper()
	if got, err := c.ask(line, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q was answered with %q, %v; want silence", line, got, err)
	}
}

func TestAMutedConnectionStaysABlackHoleAndOthersWorkAgain(t *testing.T) {
	p := newProxy(t)
	old := call(t, p.Addr)
	old.says("a", "A")
	p.Set(NetworkFault{Mute: true})
	old.silent("b")
	fresh := call(t, p.Addr)
	fresh.silent("c")
	p.Set(NetworkFault{})
	old.silent("d")
	fresh.silent("e")
	call(t, p.Addr).says("f", "F")
}

func TestABlackHoleSwallowsOldConnectionsOnly(t *testing.T) {
	p := newProxy(t)
	old := call(t, p.Addr)
	old.says("a", "A")
	p.BlackHole()
	old.silent("b")
	call(t, p.Addr).says("c", "C")
}

func TestADelayedAnswerComesWholeAndLate(t *testing.T) {
	p := newProxy(t)
	c := call(t, p.Addr)
	p.Set(NetworkFault{Delay: time.Hour})
	c.silent("a")
	other := call(t, p.Addr)
	p.Set(NetworkFault{Delay: time.Millisecond})
	other.says("b", "B")
}

func TestAnAnswerIsCutAfterSoManyBytes(t *testing.T) {
	for _, reset := range []bool{false, true} {
		p := newProxy(t)
		c := call(t, p.Addr)
		p.Set(NetworkFault{CutAfter: 5, Reset: reset})
		c.says("abc", "ABC")
		got, err := c.ask("defg", 10*time.Second)
		want := io.EOF
		if reset {
			want = syscall.ECONNRESET
		}
		if !errors.Is(err, want) || !reset && got != "D" {
			t.Errorf("reset %v: the answer was %q, %v; want %v", reset, got, err, want)
		}
	}
}

func TestAProxyLeadsWhoComesToAnotherServer(t *testing.T) {
	p := newProxy(t)
	old := call(t, p.Addr)
	old.says("a", "A")
	p.SetUpstream(answering(t, func(string) string { return "other\n" }))
	old.says("b", "B")
	call(t, p.Addr).says("c", "other")
	p.Cut()
	if _, err := old.ask("c", 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was cut met %v, want its end", err)
	}
}

func TestATapSeesBothWaysAndEndsAConnectionWhereItSays(t *testing.T) {
	for end, want := range map[End]error{EndFIN: io.EOF, EndRST: syscall.ECONNRESET, EndStall: os.ErrDeadlineExceeded} {
		var asked, answered string
		p, err := NewProxy(upcase(t), func() Tap {
			return func(answer bool, piece []byte) (int, End) {
				if !answer {
					asked += string(piece)
					return len(piece), GoesOn
				}
				answered += string(piece)
				if len(answered) < 4 {
					return len(piece), GoesOn
				}
				return 1, end
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		c := call(t, p.Addr)
		c.says("a", "A")
		if got, err := c.ask("bcd", 100*time.Millisecond); !errors.Is(err, want) || got != "B" && end != EndRST {
			t.Errorf("end %d: the answer was %q, %v; want %v", end, got, err, want)
		}
		if p.Close(); asked != "a\nbcd\n" || answered != "A\nBCD\n" {
			t.Errorf("end %d: the tap saw %q asked, %q answered", end, asked, answered)
		}
	}
}
