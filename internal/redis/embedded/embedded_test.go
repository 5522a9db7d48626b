package embedded

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAnEmbeddedRedisForgetsAnswersBeforeTheyAreTooMany(t *testing.T) {
	s, w := newAnswers()
	defer s.Stop()
	value := make([]byte, 1<<10)
	w.bytes.Store(maxAnswerBytes - 4<<10) // as if much had been written: the fourth of these values is the last
	set := func(key string) {
		t.Helper()
		if err := s.Client.Set(t.Context(), key, value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	has := func() int64 { n, _ := s.Client.DBSize(t.Context()).Result(); return n }
	for i := range 3 {
		set(strconv.Itoa(i))
	}
	if s.pass(w); has() != 3 {
		t.Errorf("%d answers are left of 3", has())
	}
	set("3")
	s.pass(w)
	eventually(t, "they are gone", func() bool { n, err := s.Client.DBSize(t.Context()).Result(); return err == nil && n == 0 })
	set("4")
	if s.pass(w); has() != 1 {
		t.Errorf("%d answers are kept, want 1", has())
	}
}

func TestAnswersInAnEmbeddedRedisExpireAlsoWhenNobodyAsks(t *testing.T) {
	c, stop := OpenAnswers()
	defer stop()
	if err := c.Set(t.Context(), "x", []byte("y"), 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.DBSize(t.Context()).Result(); err != nil || n != 1 {
		t.Fatalf("%d keys, %v", n, err)
	}
	eventually(t, "it is gone", func() bool { n, err := c.DBSize(t.Context()).Result(); return err == nil && n == 0 }) // which looks at no key
}

func TestAPipelineOfAnySizeIsAnsweredInTheProcess(t *testing.T) {
	s := Open()
	defer s.Stop()
	value := strings.Repeat("x", 1<<16) // far more than both ends buffer
	_, err := s.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 20 {
			p.Set(t.Context(), strconv.Itoa(i), value, 0)
			p.Get(t.Context(), strconv.Itoa(i))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnEmbeddedRedisMayStopWhileItIsDialed(t *testing.T) {
	for range 100 { // go-redis keeps idle connections in the background
		s := Open()
		if err := s.Client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.Stop()
	}
}

func TestAnEmbeddedRedisOpensNoPort(t *testing.T) {
	s := Open()
	defer s.Stop()
	c, m := s.Client, s.mini
	eventually(t, "it answers", func() bool { return c.Set(t.Context(), "k", "v", 200*time.Millisecond).Err() == nil })
	eventually(t, "a key expires", func() bool { n, err := c.Exists(t.Context(), "k").Result(); return err == nil && n == 0 })
	if addr := m.Addr(); addr != "" {
		t.Errorf("it listens at %s", addr)
	}
}

// eventually polls until ok, 20 s at most. Package redistest cannot be used here, because it uses this one.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestClientsOfRedisWorkWithAnEmbeddedOne(t *testing.T) {
	s := Open()
	defer s.Stop()
	addr, stop, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: addr.String(), Password: s.Password, Protocol: protocol})
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
	wrong := redis.NewClient(&redis.Options{Addr: addr.String(), Password: "wrong"})
	defer func() { _ = wrong.Close() }()
	if err := wrong.Ping(t.Context()).Err(); err == nil {
		t.Error("another password lets in")
	}
	if s.mini.HGet("foregate:settings", "shed.low") != "0.7" {
		t.Error("it is not the same Redis")
	}
}

func TestAnEmbeddedRedisListensOnLoopbackAlone(t *testing.T) {
	s := Open()
	defer s.Stop()
	for address, want := range map[string]string{
		"0.0.0.0:0": "must be on loopback", ":6379": "must be on loopback", "localhost:0": "must be on loopback", "nonsense": "missing port", "127.0.0.1:x": "unknown port",
	} {
		if _, _, err := s.Listen(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	first, stop, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	second, stop, err := s.Listen(t.Context(), first.String())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if second.Port == first.Port {
		t.Error("two have one port")
	}
}
