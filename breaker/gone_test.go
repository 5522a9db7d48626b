package breaker

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestAGoneBackendsKeyEndsAlsoWhenRedisWasAwayMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, o := redistest.Embedded(t, redistest.Background)
		raw := redis.NewClient(o)
		t.Cleanup(func() { _ = raw.Close() })
		all := fleetOf(t, o, 1, &site{})
		all[0].Retain("big", []string{"a", "b"})
		all[0].calls("a", 5, errBad)
		time.Sleep(time.Second)
		if err := raw.Persist(t.Context(), keyBreaker+"big/a").Err(); err != nil {
			t.Fatal(err)
		}
		var cut atomic.Bool
		all[0].link.redis.(*redis.Client).AddHook(cutOff{&cut})
		cut.Store(true)
		all[0].Retain("big", []string{"b"})
		time.Sleep(5 * time.Second)
		if ttl := server.TTL(keyBreaker + "big/a"); ttl != 0 {
			t.Fatalf("the key ends in %v", ttl)
		}
		cut.Store(false)
		time.Sleep(2 * time.Second)
		if ttl := server.TTL(keyBreaker + "big/a"); ttl <= 0 || ttl > goneAfter {
			t.Errorf("a gone backend's key ends in %v", ttl)
		}
	})
}

// cutOff has round trips fail while it is set.
type cutOff struct{ off *atomic.Bool }

func (c cutOff) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c cutOff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !c.off.Load() {
			return next(ctx, cmd)
		}
		cmd.SetErr(io.ErrUnexpectedEOF)
		return io.ErrUnexpectedEOF
	}
}

func (c cutOff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !c.off.Load() {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.ErrUnexpectedEOF)
		}
		return io.ErrUnexpectedEOF
	}
}

func TestRetainCostsNothingWhereNothingHasChanged(t *testing.T) {
	s := New(Options{})
	backends := []string{"a", "b", "c"}
	s.Retain("big", backends)
	s.Retain("small", backends[:1])
	if n := testing.AllocsPerRun(100, func() { s.Retain("big", backends) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for _, change := range [][]string{{"a", "b"}, {"a", "c"}, {"d"}, {}, backends} {
		s.Retain("big", change)
		var got []string
		for _, state := range s.States() {
			if state.Pool == "big" {
				got = append(got, state.Backend)
			}
		}
		if !slices.Equal(got, change) && len(got)+len(change) > 0 {
			t.Errorf("%q, want %q", got, change)
		}
	}
}
