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
