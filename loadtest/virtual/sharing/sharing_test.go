package sharing

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
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
		if got, found := a.Look(context.Background(), one, nil); got != e || found != cache.FoundHit || loop.Elapsed() != engines.Hop {
			t.Errorf("%v, %s after %v", got, found, loop.Elapsed())
		}
		if got, found := a.Look(context.Background(), two, nil); got != nil || found != cache.FoundNone || loop.Elapsed() != 3*engines.Hop {
			t.Errorf("%v, %s after %v", got, found, loop.Elapsed())
		}
		_ = loop.Sleep(context.Background(), 8*time.Second)
		if got, _ := a.Look(context.Background(), one, nil); got == nil {
			t.Error("gone too soon")
		}
		_ = loop.Sleep(context.Background(), 2*time.Second)
		if got, _ := a.Look(context.Background(), one, nil); got != nil {
			t.Error("kept for too long")
		}
	})
	for loop.Step() {
	}
	if loop.End(); !told {
		t.Error("nobody was told that it is kept")
	}
}

// shared is two replicas that join identical requests.
type shared struct {
	*Generations
	here, there pipeline.Generations
}

func newShared() shared {
	g := NewGenerations(&Link{Loop: &eventloop.Loop{}})
	return shared{g, g.Of(0), g.Of(1)}
}

// next is what a subscriber hears, and when.
type next struct {
	cache.Event
	at  time.Duration
	err error
}

// play has subscribers wait, one coroutine each, until each has heard so many events.
func (s shared) play(events int, during func(), subscribers ...pipeline.Subscriber) [][]next {
	clock := s.link.Loop
	heard := make([][]next, len(subscribers))
	for i, sub := range subscribers {
		clock.Go(func() {
			for range events {
				e, err := sub.Next(context.Background(), clock.Now().Add(time.Minute))
				heard[i] = append(heard[i], next{e, clock.Elapsed(), err})
			}
		})
	}
	clock.After(time.Second, during)
	for clock.Step() {
	}
	clock.End()
	return heard
}

func TestWhoFollowsInAnotherReplicaHearsByWayOfRedis(t *testing.T) {
	s := newShared()
	id := cache.GenerationID{Stream: true}
	leader, near, far := s.here.Join(id), s.here.Join(id), s.there.Join(id)
	lead, _ := leader.Next(t.Context(), time.Time{})
	if lead.Kind != cache.EventLead || !near.Shared() {
		t.Fatalf("the first does not lead: %+v", lead)
	}
	entry := &cache.Entry{Tier: "target"}
	got := s.play(2, func() {
		lead.Leader.Append([]byte("a"))
		s.link.Loop.After(time.Second, func() {
			lead.Leader.Append([]byte("b"))
			lead.Leader.Complete(entry, nil)
		})
	}, near, far)
	for i, way := range []time.Duration{0, 2 * engines.Hop} {
		if e := got[i]; string(e[0].Text) != "a" || e[0].at != time.Second+way || e[1].at != 2*time.Second+way || e[1].Entry != entry {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if other := s.here.Join(id); other.Shared() {
		t.Error("a generation that is over is joined")
	}
}

func TestAnotherLeadsOnceWhereALeaderFails(t *testing.T) {
	s := newShared()
	first, second, third := s.here.Join(cache.GenerationID{}), s.there.Join(cache.GenerationID{}), s.there.Join(cache.GenerationID{})
	lead, _ := first.Next(t.Context(), time.Time{})
	why := errors.New("why")
	got := s.play(1, func() {
		lead.Leader.Append([]byte("said"))
		lead.Leader.Fail(why, false)
	}, second)
	next := got[0][0]
	if next.Kind != cache.EventLead || string(next.Leader.Sent()) != "said" || next.at != time.Second {
		t.Fatalf("%+v", next)
	}
	next.Leader.Fail(why, false)
	if e, err := third.Next(t.Context(), time.Time{}); e.Kind != cache.EventFailed || e.Err != why || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAGenerationThatNobodyWantsIsCancelled(t *testing.T) {
	s := newShared()
	leader, follower := s.here.Join(cache.GenerationID{}), s.there.Join(cache.GenerationID{})
	lead, _ := leader.Next(t.Context(), time.Time{})
	ctx, cancel := s.link.Loop.WithCancel(context.Background())
	lead.Leader.Begin(cancel)
	leader.Depart()
	leader.Depart()
	if ctx.Err() != nil {
		t.Fatal("cancelled though one follows")
	}
	if follower.Depart(); ctx.Err() == nil {
		t.Error("it goes on for nobody")
	}
}

func TestWhoHasHeardNothingInTimeGoesAlone(t *testing.T) {
	s := newShared()
	leader, follower := s.here.Join(cache.GenerationID{}), s.here.Join(cache.GenerationID{})
	_, _ = leader.Next(t.Context(), time.Time{})
	got := s.play(1, func() {}, follower)
	if e := got[0][0]; e.Kind != cache.EventAlone || e.at != time.Minute || leader.Shared() {
		t.Errorf("%+v", e)
	}
}
