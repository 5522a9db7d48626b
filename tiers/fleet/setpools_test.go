package fleet

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestANewPoolHearsWhatWasSharedOfItsNameBefore(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		b.Publish("small", "x", pressure.Reading{At: time.Now(), KVUsage: .25})
		b.Place("small", []prefix.Placement{{Key: 7, Backend: "x", Tokens: 64}})
		ticks(t, b, a, a)
		if a.small.reading("x").KVUsage != .25 || len(a.small.places()) != 1 {
			t.Fatalf("%+v, %+v", a.small.reading("x"), a.small.places())
		}
		fresh := &recordingPool{name: "small"}
		a.SetPools([]Pool{fresh, a.large})
		calls := a.small.readingCalls
		ticks(t, a, a)
		if fresh.reading("x").KVUsage != .25 || len(fresh.places()) != 1 || a.small.readingCalls != calls {
			t.Errorf("the new pool heard %+v, %+v; the old one was called %d times more", fresh.reading("x"), fresh.places(), a.small.readingCalls-calls)
		}
	})
}

func TestAPoolThatIsGoneIsNoLongerShared(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		a.SetPools([]Pool{a.large})
		ticks(t, b, a)
		for _, pool := range []string{"small", "large"} {
			a.Publish(pool, "x", pressure.Reading{At: time.Now(), KVUsage: .5})
			a.Place(pool, []prefix.Placement{{Key: 7, Backend: "x", Tokens: 64}})
		}
		ticks(t, a, a, b, b)
		if len(b.small.places()) != 0 || len(b.large.places()) != 1 || b.large.reading("x").KVUsage != .5 || !b.small.reading("x").At.IsZero() {
			t.Errorf("small %+v, large %+v", b.small.places(), b.large.places())
		}
	})
}
