package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestACommandOfAnySizeIsAnsweredInTheProcess(t *testing.T) {
	c, stop := OpenAnswers(nil)
	defer stop()
	for _, size := range []int{0, 1, 4095, 4096, 32 << 10, 500_000, 3 << 20} {
		value := strings.Repeat("x", size)
		if err := c.Set(t.Context(), "k", []byte(value), time.Hour).Err(); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got, err := c.Get(t.Context(), "k").Result(); got != value || err != nil {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
}

func TestCommandsOfManyClientsRunOneAtATime(t *testing.T) {
	running := false
	c, stop := OpenAnswers(map[string]Script{"add": func(db DB, keys, args []string) any {
		if running {
			t.Error("another one runs")
		}
		running = true
		value, _ := db.Text(keys[0])
		db.Put(keys[0], value+args[0], time.Hour)
		running = false
		return []any{len(value), value}
	}})
	defer stop()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_, err := c.Pipelined(context.Background(), func(p redis.Pipeliner) error {
					p.EvalSha(context.Background(), "add", []string{"k"}, "x")
					p.Append(context.Background(), "k", "y")
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := c.StrLen(t.Context(), "k").Val(); got != 800 {
		t.Errorf("%d bytes of 800", got)
	}
}

func TestWhatIsAskedForOutlivesAnyNumberOfOtherKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	c, stop := OpenAnswers(nil)
	defer stop()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Set(t.Context(), "kept", "value", time.Hour).Err())
	must(c.XAdd(t.Context(), &redis.XAddArgs{Stream: "stream", Values: []string{"a", "1"}}).Err())
	must(c.XAdd(t.Context(), &redis.XAddArgs{Stream: "stream", Values: []string{"b", "2"}}).Err())
	want := fmt.Sprint(c.XRange(t.Context(), "stream", "-", "+").Val())
	for i := range 4 {
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for k := range maxMade {
				p.Set(t.Context(), fmt.Sprint(AnswerKeys, i, "-", k), "x", time.Hour)
			}
			return nil
		})
		must(err)
		if got := c.Get(t.Context(), "kept").Val(); got != "value" {
			t.Errorf("after %d others: %q", (i+1)*maxMade, got)
		}
		if ttl := c.PTTL(t.Context(), "kept").Val(); ttl < 55*time.Minute || ttl > time.Hour {
			t.Errorf("it is kept for %v", ttl)
		}
		if got := fmt.Sprint(c.XRange(t.Context(), "stream", "-", "+").Val()); got != want {
			t.Errorf("the stream holds %s, want %s", got, want)
		}
	}
	if n := c.DBSize(t.Context()).Val(); n > maxAnswers+2 {
		t.Errorf("%d keys", n)
	}
	c.Unlink(t.Context(), "kept")
	if n := c.Exists(t.Context(), "kept").Val(); n != 0 {
		t.Error("a deleted key is back")
	}
}

func TestAConnectionInTheProcessNeverWaits(t *testing.T) {
	c, stop := OpenAnswers(nil)
	defer stop()
	conn, err := c.(*redis.Client).Options().Dialer(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a reply to nothing: %v", err)
	}
	for _, b := range []byte("*1\r\n$4\r\nPING\r\n") { // in parts
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	reply := make([]byte, 32)
	if n, err := conn.Read(reply); string(reply[:n]) != "+PONG\r\n" || err != nil {
		t.Errorf("got %q, %v", reply[:n], err)
	}
	_ = conn.Close()
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a command after the end: %v", err)
	}
	if _, err := conn.Read(reply); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a reply after the end: %v", err)
	}
}

func FuzzNextCommand(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n*1"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("*1\r\n$99999999999999999999\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		args, n, err := nextCommand(b)
		if n < 0 || n > len(b) || n == 0 && args != nil || err != nil && n != 0 {
			t.Fatalf("%q: %d bytes, %q, %v", b, n, args, err)
		}
		if n == 0 || len(args) == 0 {
			return
		}
		again, m, err := nextCommand(command(args))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(args) || m != len(command(args)) {
			t.Errorf("%q becomes %q, %v", args, again, err)
		}
	})
}
