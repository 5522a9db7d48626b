package sharing

import (
	"context"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

// at has things done at times of a loop, and plays it to its end.
func at(loop *eventloop.Loop, when map[time.Duration]func()) {
	for t, do := range when {
		loop.At(t, func() { loop.Go(do) })
	}
	for loop.Step() {
	}
	loop.End()
}

func TestAReplicaIsLocalSharesAndAsksAsLongAfterALossAsAGateway(t *testing.T) {
	loop := &eventloop.Loop{}
	l := &Link{Loop: loop}
	want := func(sharing, local, asked bool) func() {
		return func() {
			if l.Sharing() != sharing || l.Local() != local || l.asked() != asked {
				t.Errorf("after %v: sharing %v, local %v, asked %v", loop.Elapsed(), l.Sharing(), l.Local(), l.asked())
			}
		}
	}
	at(loop, map[time.Duration]func(){
		1 * time.Second:          want(true, false, true),
		10 * time.Second:         l.Lose,
		11 * time.Second:         want(false, false, false),
		12 * time.Second:         want(false, true, false),
		20 * time.Second:         l.Restore,
		20100 * time.Millisecond: want(false, true, false),
		20300 * time.Millisecond: want(false, false, false),
		20600 * time.Millisecond: want(false, false, true),
		21300 * time.Millisecond: want(true, false, true),
	})
}

func TestTheCacheIsUsedAsLongAsPurgesAreHeard(t *testing.T) {
	loop := &eventloop.Loop{}
	a := &Answers{Link: &Link{Loop: loop}}
	key, entry := cache.KeyOf(&cache.Parts{Tenant: "one"}), &cache.Entry{}
	hears := func(want bool) func() {
		return func() {
			if _, ok := a.Epochs("", ""); ok != want {
				t.Errorf("after %v purges are heard: %v", loop.Elapsed(), ok)
			}
		}
	}
	finds := func(want cache.Result) func() {
		return func() {
			if _, found := a.Look(context.Background(), key); found != want {
				t.Errorf("after %v a look-up finds %s, want %s", loop.Elapsed(), found, want)
			}
		}
	}
	at(loop, map[time.Duration]func(){
		0:                        func() { a.Put(key, entry, time.Hour, nil) },
		9 * time.Second:          finds(cache.ResultHit),
		10 * time.Second:         a.Link.Lose,
		10500 * time.Millisecond: hears(true),
		10600 * time.Millisecond: finds(cache.ResultError),
		10900 * time.Millisecond: hears(false),
		20100 * time.Millisecond: a.Link.Restore,
		20200 * time.Millisecond: hears(false),
		20300 * time.Millisecond: hears(true),
		20400 * time.Millisecond: finds(cache.ResultAway),
		20700 * time.Millisecond: finds(cache.ResultHit),
	})
}
