package virtual

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
)

func TestARunLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	s := scenario(t, small+"audits: 20\n")
	s.Duration = 10 * time.Second
	row(t, s, 1)
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestWhatTheLabCannotRunItSaysAtTheStart(t *testing.T) {
	for settings, said := range map[string]string{
		"speculation.mode: judge":                          "judge",
		"speculation.mode: verify":                         "temperature",
		"speculation.mode: risk, risk.label: judge":        "risk.label",
		"speculation.mode: shadow, risk.label: regenerate": "risk.label",
	} {
		s := scenario(t, replace(small, "speculation.mode: confidence", settings, "max_tokens: 512", "max_tokens: 512, temperature: 0.7"))
		if _, err := Run(t.Context(), s, &s.Cases[0], 1); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: error %v, want one that names %s", settings, err, said)
		}
	}
}

func TestARequestIsWhatItsBodySays(t *testing.T) {
	q := &loadtest.Request{
		Messages:  []loadtest.Message{{Role: "system", Content: "Be \"brief\".\n"}, {Role: "user", Content: "Why?"}},
		MaxTokens: 7, IgnoreEOS: true, Temperature: 0.5, Stream: true,
	}
	r := bodyOf(q)
	system, first := r.Head()
	if r.Model != route || r.MaxTokens != 7 || !r.IgnoresEOS() || r.Temperature != 0.5 || !r.Stream || !r.SinglePlain {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(string(system), "brief") || !strings.Contains(string(first), "Why?") {
		t.Errorf("it begins with %q and %q", system, first)
	}
	if open := bodyOf(&loadtest.Request{Messages: q.Messages}); open.MaxTokens != -1 || open.IgnoresEOS() || open.Stream {
		t.Errorf("%+v", open)
	}
}

// shared is two replicas that join identical requests.
type shared struct {
	*flights
	here, there replicaFlights
}

func newShared() shared {
	f := newFlights(&lab{clock: &eventloop.Loop{}})
	return shared{f, replicaFlights{f, &replica{index: 0}}, replicaFlights{f, &replica{index: 1}}}
}

// next is what a subscriber hears, and when.
type next struct {
	pipeline.Event
	at  time.Duration
	err error
}

// play has subscribers wait, one coroutine each, until each has heard so many events.
func (s shared) play(events int, during func(), subscribers ...pipeline.Subscriber) [][]next {
	clock := s.lab.clock
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
	id := cache.FlightID{Stream: true}
	leader, near, far := s.here.Join(id), s.here.Join(id), s.there.Join(id)
	lead, _ := leader.Next(t.Context(), time.Time{})
	if lead.Kind != cache.EventLead || !near.Shared() {
		t.Fatalf("the first does not lead: %+v", lead)
	}
	entry := &cache.Entry{Tier: "target"}
	got := s.play(2, func() {
		lead.Leader.Append([]byte("a"))
		s.lab.clock.After(time.Second, func() {
			lead.Leader.Append([]byte("b"))
			lead.Leader.Complete(entry, nil)
		})
	}, near, far)
	for i, way := range []time.Duration{0, 2 * hop} {
		if e := got[i]; string(e[0].Text) != "a" || e[0].at != time.Second+way || e[1].at != 2*time.Second+way || string(e[1].Text) != "b" {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if e, _ := near.Next(t.Context(), time.Time{}); e.Kind != cache.EventLanded || e.Entry != entry {
		t.Errorf("%+v", e)
	}
	if other := s.here.Join(id); other.Shared() {
		t.Error("a flight that is over is joined")
	}
}

func TestAnotherLeadsOnceWhereALeaderFails(t *testing.T) {
	s := newShared()
	first, second, third := s.here.Join(cache.FlightID{}), s.there.Join(cache.FlightID{}), s.there.Join(cache.FlightID{})
	lead, _ := first.Next(t.Context(), time.Time{})
	why := errors.New("why")
	got := s.play(1, func() {
		lead.Leader.Append([]byte("said"))
		lead.Leader.Fail(why, false)
	}, second)
	next := got[0][0]
	if next.Kind != cache.EventLead || string(next.Leader.Said()) != "said" || next.at != time.Second {
		t.Fatalf("%+v", next)
	}
	next.Leader.Fail(why, false)
	if e, err := third.Next(t.Context(), time.Time{}); e.Kind != cache.EventFailed || e.Err != why || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAGenerationThatNobodyWantsIsCancelled(t *testing.T) {
	s := newShared()
	leader, follower := s.here.Join(cache.FlightID{}), s.there.Join(cache.FlightID{})
	lead, _ := leader.Next(t.Context(), time.Time{})
	ctx, cancel := s.lab.clock.WithCancel(context.Background())
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
	leader, follower := s.here.Join(cache.FlightID{}), s.here.Join(cache.FlightID{})
	_, _ = leader.Next(t.Context(), time.Time{})
	got := s.play(1, func() {}, follower)
	if e := got[0][0]; e.Kind != cache.EventAlone || e.at != time.Minute || leader.Shared() {
		t.Errorf("%+v", e)
	}
}
