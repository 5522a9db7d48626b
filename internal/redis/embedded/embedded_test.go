package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAnEmbeddedRedisKeepsNoMoreAnswersThanItsBound(t *testing.T) {
	s := Open()
	defer s.Stop()
	c, m := s.Client, s.mini
	const size = 1000
	c.AddHook(newEviction(10*(size+int64(len(AnswerKeys)+3)), 1000, func(key string) { m.Del(key) }))
	set := func(key string) {
		t.Helper()
		if err := c.Set(t.Context(), key, strings.Repeat("x", size), time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("foregate:settings") // what is no answer is not counted
	for i := range 10 {
		set(fmt.Sprintf("%s%03d", AnswerKeys, i))
	}
	set(AnswerKeys + "000") // written again, it is the youngest
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := 10; i < 15; i++ {
			p.Set(t.Context(), fmt.Sprintf("%s%03d", AnswerKeys, i), []byte(strings.Repeat("x", size)), time.Hour)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"000", "006", "007", "008", "009", "010", "011", "012", "013", "014"}
	if got := m.Keys(); strings.Join(got, " ") != AnswerKeys+strings.Join(want, " "+AnswerKeys)+" foregate:settings" {
		t.Errorf("kept are %v", got)
	}
}

func TestAnEmbeddedRedisKeepsNoMoreThanSoManyAnswers(t *testing.T) {
	var evicted []string
	r := newEviction(1<<30, 3, func(key string) { evicted = append(evicted, key) })
	for i := range 5 {
		evicted = append(evicted, r.take(answer{fmt.Sprint(i), 1})...)
	}
	if fmt.Sprint(evicted) != "[0 1]" || r.has != 3 || r.ages.Len() != 3 || len(r.keys) != 3 {
		t.Errorf("gone are %v, %d bytes, %d and %d answers are left", evicted, r.has, r.ages.Len(), len(r.keys))
	}
	if evicted := r.take(answer{"large", 1 << 31}); len(evicted) != 4 || r.has != 0 {
		t.Errorf("for one that is larger than all may be, %v go, and %d bytes are left", evicted, r.has)
	}
}

func TestAnswersInAnEmbeddedRedisExpireAlsoWhenNobodyAsks(t *testing.T) {
	c, stop := OpenAnswers(nil)
	defer stop()
	if err := c.Set(t.Context(), AnswerKeys+"x", "y", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.DBSize(t.Context()).Result(); err != nil || n != 1 {
		t.Fatalf("%d keys, %v", n, err)
	}
	eventually(t, "it is gone", func() bool { n, err := c.DBSize(t.Context()).Result(); return err == nil && n == 0 }) // which looks at no key
}

func TestAnErrorOfAnEmbeddedRedisIsToldThoughAnswersAreCounted(t *testing.T) {
	c, stop := OpenAnswers(nil)
	defer stop()
	pipeline := func() error {
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), AnswerKeys+"x", "y", time.Hour)
			p.RPush(t.Context(), AnswerKeys+"x", "z")
			return nil
		})
		return err
	}
	if err := pipeline(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("of a pipeline: %v", err)
	}
	if err := c.RPush(t.Context(), AnswerKeys+"x", "z").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("of a command: %v", err)
	}
	stop()
	if err := pipeline(); err == nil {
		t.Error("a pipeline to a Redis that has stopped is well")
	}
	if err := c.Set(t.Context(), AnswerKeys+"x", "y", time.Hour).Err(); err == nil {
		t.Error("a command to a Redis that has stopped is well")
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
