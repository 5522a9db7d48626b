package limits

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// silent is a node that takes everything and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_, _ = io.Copy(io.Discard, c) // until the client ends it
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func TestANodeThatForgotTheScriptIsGivenItWhileAnotherIsFrozen(t *testing.T) {
	s := serve(t)
	o, frozen := options(s.addr), silent(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { // {fg} is slot 15821
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: frozen}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: s.addr}}},
			}, nil
		},
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, DisableRoutingPolicies: true,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
	})
	t.Cleanup(func() { _ = c.Close() })
	r := join(t, o, 1)
	r.patient()
	r.redis = c
	r.run(t)
	a := Request{Tenant: "acme", Limit: Limit{RPM: 600_000}}
	for range 2 { // the second time it had them all
		if err := s.raw().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		shared := r.results(resultShared)
		within(t, 5*time.Second, "requests are counted in Redis", func() bool { r.ask(t, a); return r.results(resultShared) > shared })
	}
}

// landmine panics in place of the next command, as the client does at some replies.
type landmine struct{ armed atomic.Bool }

func (l *landmine) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *landmine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *landmine) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if l.armed.Swap(false) {
			panic("a reply")
		}
		return next(ctx, cmd)
	}
}

func TestALookupThatPanicsIsAFailedOne(t *testing.T) {
	s := serve(t)
	r := join(t, options(s.addr), 1)
	r.patient()
	mine := &landmine{}
	r.redis.AddHook(mine)
	a := Request{Tenant: "acme", Limit: Limit{RPM: 600_000}}
	within(t, 5*time.Second, "requests are counted in Redis", func() bool { r.ask(t, a); return r.results(resultShared) > 0 })
	shared, failed := r.results(resultShared), r.results(resultError)
	mine.armed.Store(true)
	if !r.ask(t, a) || r.results(resultError) != failed+1 {
		t.Errorf("%d errors", r.results(resultError)-failed)
	}
	within(t, 5*time.Second, "no lookup is under way", func() bool { return r.asker.UnderWay() == 0 })
	if !r.ask(t, a) || r.results(resultShared) == shared {
		t.Error("the next is not counted in Redis")
	}
}
