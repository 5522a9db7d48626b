package tiers

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redis/calls"
)

func TestARequestWaitsForASilentRedisOnceForCacheAndLimitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // no name to look up
			MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }() // ends with its connection
				return here, nil
			},
		})
		const budget = 15 * time.Millisecond
		store := cache.NewStore(cache.Options{Redis: silent})
		store.ReadEpochs(map[string]string{"all": "1"}, nil, time.Now())
		p := NewPipeline(PipelineOptions{
			Cascade: newBench(t, nil).Cascade, Store: store, Ledger: ledger.New(ledger.Options{Redis: silent}),
			HighShare: func() float64 { return 1 },
		})
		for range 3 { // fewer than make it be left alone
			a := &Metadata{Caller: identity.Caller{Tenant: "acme", RPM: 6000, TPM: 1_000_000}}
			q := &request{Request: &Request{Arrival: Arrival{Metadata: a}, Services: p.services}, p: p, record: &Record{}, cacheable: true}
			ctx := calls.WithWaited(t.Context(), &q.patience)
			began := time.Now()
			if e, result := q.lookUp(ctx); e != nil || result != cache.ResultLate {
				t.Errorf("the look: %v", result)
			}
			reserved, err := p.reserve(ctx, a, estimate{prompt: 1, answer: 1}, q.record)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != budget {
				t.Errorf("the request waited for %v, want %v", took, budget)
			}
			reserved.Settle(-1, 0)
		}
		_ = silent.Close()
		time.Sleep(time.Minute) // what was asked ends
	})
}

func TestACopyIsNotServedForLongerThanAnswersAreKept(t *testing.T) {
	m := miniredis.RunT(t)
	store := cache.NewStore(cache.Options{
		Redis: redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true}), Budget: func() time.Duration { return 5 * time.Second },
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = store.Run(ctx) }()
	store.ReadEpochs(map[string]string{"all": "1"}, nil, time.Now())
	key, kept := cache.KeyOf(&cache.Parts{Tenant: "acme"}), make(chan struct{})
	store.Put(key, &cache.Entry{Created: time.Now().Add(-time.Minute), Answer: []byte("a")}, time.Hour, func() { close(kept) })
	<-kept
	if _, result := store.Look(t.Context(), key); result != cache.ResultHit {
		t.Fatalf("the look: %v", result)
	}
	for ttl, want := range map[time.Duration]bool{2 * time.Minute: true, 30 * time.Second: false} {
		p := NewPipeline(PipelineOptions{Cascade: newBench(t, nil).Cascade, Store: store})
		q := &request{Request: &Request{Services: p.services}, p: p, key: key, cacheable: true, cfg: cache.Config{TTL: ttl}}
		if e := q.local(); (e != nil) != want {
			t.Errorf("kept for %v, made a minute ago: served %t", ttl, e != nil)
		}
	}
}
