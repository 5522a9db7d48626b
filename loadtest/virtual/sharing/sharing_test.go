package sharing

import (
	"context"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

func TestAnAnswerIsKeptForItsTimeLessATenthAtMost(t *testing.T) {
	loop := &eventloop.Loop{}
	a := &Answers{Link: &Link{Loop: loop}, Seed: 1}
	e, told := &cache.Entry{}, false
	one, two := cache.KeyOf(&cache.Parts{Tenant: "one"}), cache.KeyOf(&cache.Parts{Tenant: "two"})
	a.Put(one, e, 10*time.Second, func() { told = true })
	loop.Go(func() {
		if got, found := a.Look(context.Background(), one); got != e || found != cache.ResultHit || loop.Elapsed() != engines.Hop {
			t.Errorf("%v, %s after %v", got, found, loop.Elapsed())
		}
		if got, found := a.Look(context.Background(), two); got != nil || found != cache.ResultMiss || loop.Elapsed() != 3*engines.Hop {
			t.Errorf("%v, %s after %v", got, found, loop.Elapsed())
		}
		_ = loop.Sleep(context.Background(), 8*time.Second)
		if got, _ := a.Look(context.Background(), one); got == nil {
			t.Error("gone too soon")
		}
		_ = loop.Sleep(context.Background(), 2*time.Second)
		if got, _ := a.Look(context.Background(), one); got != nil {
			t.Error("kept for too long")
		}
	})
	for loop.Step() {
	}
	if loop.End(); !told {
		t.Error("nobody was told that it is kept")
	}
}
