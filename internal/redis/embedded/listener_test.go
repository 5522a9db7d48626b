package embedded

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// listening is an embedded Redis that clients of this machine may reach.
func listening(t *testing.T) (*miniredis.Miniredis, *Listener) {
	t.Helper()
	s := Open()
	t.Cleanup(s.Stop)
	l, err := s.Listen(t.Context(), "127.0.0.1:0", "right")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return s.mini, l
}

// tell writes to the listener and reads all it answers until it closes, or until want has come.
func tell(t *testing.T, l *Listener, text, want string) string {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for b := make([]byte, 256); want == "" || !strings.Contains(got.String(), want); {
		n, err := c.Read(b)
		got.Write(b[:n])
		if err != nil {
			break
		}
	}
	return got.String()
}

func TestAnEmbeddedRedisIsReachedWithItsPasswordAlone(t *testing.T) {
	m, l := listening(t)
	m.HSet("h", "f", "v")
	auth, get := string(command([]string{"AUTH", "right"})), string(command([]string{"HGET", "h", "f"}))
	for _, c := range []struct{ name, send, want string }{
		{"the password", auth + get, "+OK\r\n$1\r\nv\r\n"},
		{"the password of the default user", string(command([]string{"auth", "default", "right"})) + get, "+OK\r\n$1\r\nv\r\n"},
		{"the password in HELLO", string(command([]string{"HELLO", "2", "AUTH", "default", "right"})) + get, "$1\r\nv\r\n"},
		{"a command of nothing behind it", auth + "*0\r\n" + get, "+OK\r\n$1\r\nv\r\n"},
		{"what redis-cli asks at its prompt", auth + string(command([]string{"COMMAND", "DOCS"})) + get, "+OK\r\n-ERR unknown command `COMMAND_DOCS`, with args beginning with: \r\n$1\r\nv\r\n"},
		{"a second try", string(command([]string{"AUTH", "wrong"})) + auth + get, "-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n$1\r\nv\r\n"},
		{"none", get + get, "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n"},
		{"a wrong one in HELLO", string(command([]string{"HELLO", "3", "AUTH", "default", ""})), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"another user", string(command([]string{"AUTH", "root", "right"})), "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"no command", "*0\r\n", "-NOAUTH Authentication required.\r\n"},
	} {
		if got := tell(t, l, c.send, c.want); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	for _, odd := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PING\r\n", "*-1\r\n", "*9\r\n", "*1\r\n$99999\r\n", "*1\r\n$1\r\nxyz", "*1\n", strings.Repeat("x", 10<<10)} {
		if got := tell(t, l, odd, ""); got != "" {
			t.Errorf("%.20q: got %q", odd, got)
		}
	}
}

func TestClientsOfRedisWorkWithAnEmbeddedOne(t *testing.T) {
	m, l := listening(t)
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: l.Addr().String(), Password: "right", Protocol: protocol})
		defer func() { _ = c.Close() }()
		if err := c.HSet(t.Context(), "foregate:settings", "shed.low", "0.7").Err(); err != nil {
			t.Fatal(err)
		}
		big := strings.Repeat("x", 1<<20)
		if err := c.Set(t.Context(), "big", big, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(t.Context(), "big").Result(); err != nil || got != big {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if m.HGet("foregate:settings", "shed.low") != "0.7" {
		t.Error("it is not the same Redis")
	}
}

func TestAnEmbeddedRedisHasSoManyClientsAndEndsThem(t *testing.T) {
	_, l := listening(t)
	var held []net.Conn
	for range maxClients {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		defer func() { _ = c.Close() }()
	}
	eventually(t, "all have a place", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.conns) == maxClients })
	if got := tell(t, l, "", ""); got != "" {
		t.Errorf("one too many: %q", got)
	}
	l.Stop()
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("a connection outlives the listener")
		}
	}
}

func TestAnEmbeddedRedisListensOnLoopbackAlone(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:0": "must be on loopback", ":6379": "must be on loopback", "localhost:0": "must be on loopback", "nonsense": "missing port", "127.0.0.1:x": "unknown port",
	} {
		l, err := Open().Listen(t.Context(), address, "right")
		if err == nil {
			l.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	_, first := listening(t)
	second, err := Open().Listen(t.Context(), first.Addr().String(), "right")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	if second.Addr().Port == first.Addr().Port {
		t.Error("two have one port")
	}
}

func FuzzCommandsBeforeThePassword(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nAUTH\r\n$5\r\nright\r\n"))
	f.Add([]byte("*0\r\n*1\r\n$0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		args, err := readCommand(bufio.NewReader(bytes.NewReader(data)), maxAuthArgs, maxAuthBytes)
		if err != nil {
			return
		}
		if n := len(strings.Join(args, "")); len(args) > maxAuthArgs || n > maxAuthBytes {
			t.Fatalf("%d strings of %d bytes", len(args), n)
		}
		again, err := readCommand(bufio.NewReader(bytes.NewReader(command(args))), maxAuthArgs, maxAuthBytes)
		if err != nil || !slices.Equal(args, again) {
			t.Fatalf("%q became %q, %v", args, again, err)
		}
		if _, reply := (&Listener{Password: "longer than " + string(data)}).judge(args); reply == "" || reply == "+OK" {
			t.Fatalf("%q is let in", args)
		}
	})
}
