package replyguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// wellFormed are replies of every kind, and how go-redis' generic command takes each is not
// asked: they must pass.
var wellFormed = []string{
	"+OK\r\n", "-ERR no\r\n", ":-12\r\n", "_\r\n", ",1.5e3\r\n", "#t\r\n", "(3492890328409238509324850943850943825024385\r\n",
	"$0\r\n\r\n", "$5\r\na\nb\r\n\r\n", "$-1\r\n", "!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n", "+\r\n",
	"*0\r\n", "*-1\r\n", "~2\r\n:1\r\n$1\r\na\r\n", "%1\r\n+a\r\n*2\r\n:1\r\n_\r\n", "%0\r\n",
	"|1\r\n+ttl\r\n:3600\r\n*3\r\n:1\r\n|1\r\n+k\r\n+v\r\n:2\r\n:3\r\n",
	">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nword\r\n", ">3\r\n+subscribe\r\n_\r\n:1\r\n", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n",
	">2\r\n$10\r\ninvalidate\r\n_\r\n", ">2\r\n$10\r\ninvalidate\r\n*-1\r\n", // all keys are gone
	strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
	"$" + fmt.Sprint(1<<20) + "\r\n" + strings.Repeat("x", 1<<20) + "\r\n",
	"+" + strings.Repeat("x", maxLine-3) + "\r\n",
}

func TestRepliesOfEveryKindPass(t *testing.T) {
	var g parser
	for range 2 { // one after the other on one connection
		for _, reply := range wellFormed {
			if err := g.pass([]byte(reply)); err != nil {
				t.Fatalf("%.60q: %v", reply, err)
			}
			if g.depth != 0 || g.bulk != 0 || g.line != 0 || g.bytes != 0 || g.message.on {
				t.Fatalf("%.60q: not over: %+v", reply, g)
			}
		}
	}
}

func TestAHashOfAHundredThousandSettingsPasses(t *testing.T) {
	const fields = 100_000
	for _, head := range []string{fmt.Sprintf("%%%d\r\n", fields), fmt.Sprintf("*%d\r\n", 2*fields)} {
		var g parser
		if err := g.pass([]byte(head + strings.Repeat("$8\r\nshed.low\r\n$4\r\n0.85\r\n", fields))); err != nil || g.depth != 0 {
			t.Errorf("%q: %v", head, err)
		}
	}
}

func TestAReplyThatIsMalformedOrExceedsABoundIsRefused(t *testing.T) {
	bulk := fmt.Sprintf("$%d\r\n", maxBulk)
	for _, c := range []struct{ reply, want string }{
		{"$966367641600\r\n", "a string of more than 34603008 bytes"},
		{"$9223372036854775806\r\n", "a string of more than"},
		{"!34603009\r\n", "a string of more than"},
		{"*8000000\r\n", "more than 262144 elements"},
		{"*2000000000\r\n", "more than 262144 elements"},
		{"%131073\r\n", "more than 262144 elements"},
		{"*200000\r\n*200000\r\n", "more than 262144 elements"},
		{strings.Repeat("*1\r\n", maxDepth+1), "deeper than 8"},
		{strings.Repeat("x", maxLine+1), "a line of more than 65536 bytes"},
		{"+" + strings.Repeat("x", maxLine), "a line of more than 65536 bytes"},
		{"*5\r\n" + strings.Repeat(bulk+strings.Repeat("x", maxBulk)+"\r\n", 2), "more than 67108864 bytes"},
		{strings.Repeat("|0\r\n", maxAttributes+1), "more than 256 attributes"},
		{"|1\r\n|0\r\n", "an attribute of an attribute"},
		{"HTTP/1.1 400 Bad Request\r\n", `no value of RESP begins with 'H'`},
		{"\r\n", "a line that is not RESP"},
		{"+OK\n", "a line that is not RESP"},
		{"$-2\r\n", "is not a length"}, {"*+1\r\n", "is not a length"}, {"$\r\n", "is not a length"}, {"|-1\r\n", "is not a length"},
		{"$00000000000000000000000000001\r\n", "is not a length"},
		{">2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n", `"message", of 2 parts`},
		{">0\r\n", "an empty message"},
		{">1\r\n:1\r\n", "without a name"},
		{">3\r\n+message\r\n*0\r\n", `"message", whose part 1 is of another type`},
		{">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n$1\r\n1\r\n", `"subscribe", whose part 2 is of another type`},
		{">4\r\n$8\r\npmessage\r\n$1\r\nc\r\n$1\r\n1\r\n_\r\n", `"pmessage", whose part 3`},
	} {
		var g parser
		err := g.pass([]byte(c.reply))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.reply, err, c.want)
		}
		if err != nil && g.pass([]byte("+OK\r\n")) == nil {
			t.Errorf("%.60q: believed again", c.reply)
		}
	}
}

func TestOnAConnectionThatSubscribedArraysAreMessagesToo(t *testing.T) {
	short := []byte("*2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n")
	for _, c := range []struct {
		subscribed bool
		reply      []byte
		refused    bool
	}{
		{false, short, false}, // a hash may have a field of that name
		{true, short, true},
		{true, []byte("*0\r\n"), true},
		{true, []byte("%1\r\n+a\r\n+b\r\n"), true},
		{true, []byte("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nword\r\n"), false},
		{true, []byte("*2\r\n$4\r\npong\r\n$0\r\n\r\n"), false},
		{true, []byte("+PONG\r\n"), false},
	} {
		g := parser{subscribed: c.subscribed}
		if err := g.pass(c.reply); (err != nil) != c.refused {
			t.Errorf("%q, subscribed %v: %v", c.reply, c.subscribed, err)
		}
	}
	for reply, want := range map[string]bool{
		"*2\r\n$9\r\nsubscribe\r\n$16\r\nforegate:{fg}:ev\r\n":              true,
		"*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n":     true,
		"*3\r\n$3\r\nget\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n":                 false,
		"*1\r\n$4\r\nping\r\n*2\r\n$9\r\nsubscribe\r\n$16\r\nforegate:\r\n": false,
		"": false,
	} {
		if subscribes([]byte(reply)) != want {
			t.Errorf("%q: %v", reply, !want)
		}
	}
}

// FuzzReplies: however a stream is cut, the verdict is the same; what is refused stays
// so; and the guard takes no memory. Well-formed replies before it change nothing.
func FuzzReplies(f *testing.F) {
	for _, s := range append(wellFormed, "*2\r\n*8000000\r\n", ">2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n", ">4\r\n+pmessage\r\n+a\r\n+b\r\n:1\r\n") {
		if len(s) < 1000 {
			f.Add([]byte(s), uint16(1), false)
			f.Add([]byte(s+s), uint16(0x5a31), true)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, cuts uint16, subscribed bool) {
		whole, cut := parser{subscribed: subscribed}, parser{subscribed: subscribed}
		want := whole.pass(stream)
		for rest, i := stream, 0; len(rest) > 0; i++ {
			n := min(1+int(cuts>>(i%16)&7), len(rest))
			_ = cut.pass(rest[:n]) // the verdict is what counts
			rest = rest[n:]
		}
		if fmt.Sprint(want) != fmt.Sprint(cut.err) {
			t.Fatalf("whole: %v, in parts: %v", want, cut.err)
		}
		if want == nil && (whole.depth != cut.depth || whole.bulk != cut.bulk || whole.line != cut.line) {
			t.Fatalf("whole: %+v, in parts: %+v", whole, cut)
		}
		if want == nil && (whole.depth > maxDepth || whole.bytes > maxReply+maxLine || whole.elements > maxElements || whole.bulk > maxBulk+2) {
			t.Fatalf("beyond a bound: %+v", whole)
		}
	})
}

// FuzzMessages: go-redis does not panic at anything that comes on a subscription.
func FuzzMessages(f *testing.F) {
	for _, s := range append(wellFormed, ">2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n", "*0\r\n", "~1\r\n+pong\r\n", ">4\r\n+pmessage\r\n+a\r\n+b\r\n:1\r\n") {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
	f.Fuzz(subscription)
}

// subscription has go-redis hear a stream on a subscription.
func subscription(t *testing.T, stream []byte) {
	ours, theirs := net.Pipe()
	c := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return Conn(ours), nil },
	})
	defer func() { _ = c.Close() }()
	go func() {
		defer func() { _ = theirs.Close() }()
		buf := make([]byte, 1<<10)
		for {
			n, err := theirs.Read(buf)
			switch {
			case err != nil:
				return
			case subscribes(buf[:n]):
				_, _ = theirs.Write(stream) // until it is refused
				return
			case strings.Contains(string(buf[:n]), "hello"):
				_, _ = io.WriteString(theirs, "-ERR unknown command\r\n")
			default:
				_, _ = io.WriteString(theirs, "+OK\r\n")
			}
		}
	}()
	sub := c.Subscribe(t.Context(), "c")
	defer func() { _ = sub.Close() }()
	for range 100 {
		if _, err := sub.ReceiveTimeout(t.Context(), time.Second); err != nil {
			if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "closed") {
				return
			}
		}
	}
}

func BenchmarkReplies(b *testing.B) {
	small := []byte("*6\r\n:2\r\n:1800000000000\r\n:2000\r\n:0\r\n:0\r\n$0\r\n\r\n")
	hash := []byte("%100\r\n" + strings.Repeat("$8\r\nshed.low\r\n$4\r\n0.85\r\n", 100))
	bulk := []byte("$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n")
	for _, c := range []struct {
		name  string
		reply []byte
	}{{"script", small}, {"hash of 100", hash}, {"bulk of 1 MiB", bulk}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.reply)))
			b.ReportAllocs()
			var g parser
			for b.Loop() {
				for rest := c.reply; len(rest) > 0; {
					n := min(len(rest), 32<<10) // as go-redis reads
					if err := g.pass(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}

func TestAGuardedConnectionCanBeCheckedWhereItsSocketCan(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	if _, ok := Conn(ours).(syscall.Conn); ok {
		t.Error("a pipe has a socket")
	}
	if _, ok := Conn(tls.Client(ours, &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12})).(syscall.Conn); ok {
		t.Error("TLS has a socket of its own")
	}
	if _, ok := Conn(&net.TCPConn{}).(syscall.Conn); !ok {
		t.Error("the socket is hidden")
	}
}
