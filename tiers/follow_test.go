package tiers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
)

// crowd sends requests alike at once; the first leads.
func (b *bench) crowd(n int, q question) (all []*asked, over func()) {
	b.t.Helper()
	var ends []chan struct{}
	for range n {
		a, done := b.begin(q)
		synctest.Wait() // it has subscribed
		all, ends = append(all, a), append(ends, done)
	}
	return all, func() {
		for _, end := range ends {
			<-end
		}
	}
}

func TestIdenticalRequestsShareOneGeneration(t *testing.T) {
	for _, stream := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, b *bench) {
			all, over := b.crowd(50, question{stream: stream})
			over()
			all[0].is(t, "the leader", "It is answer 1.", cache.ResultMiss)
			for _, a := range all[1:] {
				a.is(t, "a follower", "It is answer 1.", cache.ResultCoalesced)
				if a.record.Receipt != nil || a.record.Entry == nil {
					t.Errorf("a follower: %+v", a.record)
				}
			}
			if n := b.speaker.generations(); n != 1 || b.shared.Subscribers() != 0 || b.store.kept() != 1 {
				t.Errorf("%d generations, %d subscribers are left, %d kept", n, b.shared.Subscribers(), b.store.kept())
			}
		})
	}
}

func TestRequestsOfAnotherClassTenantOrShapeDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		for _, q := range []question{
			{}, {stream: true}, {caller: identity.Caller{Tenant: "beta"}}, {caller: identity.Caller{Priority: identity.High}},
			{control: CacheControl{NoCache: true}}, {more: `,"temperature":0.7`},
		} {
			b.begin(q)
		}
		synctest.Wait()
		if n := b.speaker.generations(); n != 6 {
			t.Errorf("%d generations", n)
		}
		time.Sleep(time.Minute)
	})
}

func TestALeaderThatLeavesDoesNotTakeTheAnswerAlong(t *testing.T) {
	for _, stream := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, b *bench) {
			ctx, leave := context.WithCancelCause(t.Context())
			leader, closeErr := b.begin(question{stream: stream, ctx: ctx})
			synctest.Wait()
			follower, done := b.begin(question{stream: stream})
			synctest.Wait()
			leave(errLeft)
			<-closeErr
			<-done
			if leader.err == nil {
				t.Error("the leader has an answer")
			}
			follower.is(t, "the follower", "It is answer 1.", cache.ResultCoalesced)
			if len(b.speaker.cancelled()) != 0 || b.store.kept() != 1 {
				t.Errorf("cancelled: %v, %d kept", b.speaker.cancelled(), b.store.kept())
			}
		})
	}
}

func TestAGenerationThatNobodyWantsIsCancelled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		ctx, leave := context.WithCancelCause(t.Context())
		all, over := b.crowd(3, question{stream: true, ctx: ctx})
		leave(errLeft)
		over()
		for _, a := range all {
			if a.err == nil {
				t.Errorf("%+v", a.record)
			}
		}
		if len(b.speaker.cancelled()) != 1 || b.store.kept() != 0 || b.shared.Subscribers() != 0 {
			t.Errorf("cancelled: %v, %d kept, %d subscribers", b.speaker.cancelled(), b.store.kept(), b.shared.Subscribers())
		}
	})
}

func TestAGenerationEndsWithThePipeline(t *testing.T) {
	errEnd := errors.New("the gateway is draining")
	synctest.Test(t, func(t *testing.T) {
		base, end := context.WithCancelCause(t.Context())
		b := newBench(t, func(o *PipelineOptions) { o.Base = base })
		all, over := b.crowd(2, question{})
		end(errEnd)
		over()
		for _, a := range all {
			if !errors.Is(a.err, errEnd) {
				t.Errorf("%v, want %v", a.err, errEnd)
			}
		}
	})
}

func TestAFollowerThatWaitsTooLongGoesByItself(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.speaker.pace = 45 * time.Second
		began := time.Now()
		all, over := b.crowd(2, question{}) // an answer takes 90 seconds
		over()
		all[0].is(t, "the leader", "It is answer 1.", cache.ResultMiss)
		all[1].is(t, "the follower", "It is answer 2.", cache.ResultMiss)
		if took := time.Since(began); took != coalesceTimeout+90*time.Second {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		told, over := b.crowd(2, question{stream: true, more: `,"seed":1`})
		over()
		told[1].is(t, "one that has something", "It is answer 3.", cache.ResultCoalesced)
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAFailureIsEverybodysAndIsNotTriedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.speaker.fails = func(int) error { return errEngine }
		all, over := b.crowd(10, question{})
		over()
		for i, a := range all {
			if !errors.Is(a.err, errEngine) || a.head != nil {
				t.Errorf("request %d: %v", i, a.err)
			}
		}
		if n := b.speaker.generations(); n != 1 {
			t.Errorf("%d generations", n)
		}
	})
}

func TestAnAnswerThatCannotBeSharedIsMadeForEach(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.says(strings.Repeat("on and ", 1<<18), "on.") // more than is told
		all, over := b.crowd(3, question{})
		over()
		for i, a := range all {
			if text, whole := a.text(t); a.err != nil || !whole || !strings.HasSuffix(text, "on.") || a.record.Cache != cache.ResultMiss {
				t.Errorf("request %d: %v, %d bytes, %s", i, a.err, len(text), a.record.Cache)
			}
		}
		if n := b.speaker.generations(); n != 3 || b.store.kept() != 0 {
			t.Errorf("%d generations, %d kept", n, b.store.kept())
		}
	})
}

func TestWhatIsMoreThanTextIsToldWhenItIsWhole(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.speaker.opaque = true
		all, over := b.crowd(2, question{stream: true})
		time.Sleep(1500 * time.Millisecond)
		if text, _ := all[1].text(t); text != "" {
			t.Errorf("the follower has %q of it", text)
		}
		over()
		all[1].is(t, "the follower", "It is answer 1.", cache.ResultCoalesced)
	})
}

func TestAGenerationThatBreaksOffBreaksTheStreamsOfAll(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.speaker.breaks = func(int) error { return errEngine }
		all, over := b.crowd(2, question{stream: true})
		over()
		for _, a := range all {
			if _, broken := errors.AsType[*BrokenError](a.err); !broken || !errors.Is(a.err, errEngine) {
				t.Errorf("%v", a.err)
			}
		}
	})
}

func TestAPanicOfAGenerationIsHeardAndEndsNobodyElse(t *testing.T) {
	var heard atomic.Int64
	inBubble(t, func(o *PipelineOptions) { o.OnPanic = func(string, any) { heard.Add(1) } }, func(t *testing.T, b *bench) {
		b.speaker.fails = func(n int) error {
			if n == 1 {
				panic("a bug")
			}
			return nil
		}
		all, over := b.crowd(2, question{})
		over()
		if !errors.Is(all[0].err, ErrPanicked) || heard.Load() != 1 {
			t.Errorf("%v, %d heard", all[0].err, heard.Load())
		}
		all[1].is(t, "the other", "It is answer 2.", cache.ResultMiss)
	})
}
