package world

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errGone = errors.New("gone")

func TestSleepEndsByTimeOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := System{}, time.Now()
		if err := w.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := w.WithCancel(t.Context())
		w.Go(func() { cancel(errGone) })
		if err := w.Sleep(ctx, time.Minute); !errors.Is(err, errGone) {
			t.Errorf("%v, want the context's cause", err)
		}
	})
}

func TestASignalThatWasGivenWinsOverAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := System{}
		s := w.NewSignal()
		ctx, cancel := w.WithCancel(t.Context())
		cancel(errGone)
		if err := s.Wait(ctx); !errors.Is(err, errGone) || s.IsSet() {
			t.Errorf("not given: %v", err)
		}
		w.Go(s.Set)
		if err := s.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		s.Set() // once more does nothing
		if err := s.Wait(ctx); err != nil || !s.IsSet() {
			t.Errorf("given: %v", err)
		}
	})
}

func TestAForkEndsWithItsParentUntilItIsReleased(t *testing.T) {
	for _, released := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			parent, end := System{}.WithCancel(t.Context())
			forked, release, cancel := Fork(parent, System{})
			defer cancel(nil)
			if released {
				release()
			}
			end(errGone)
			synctest.Wait()
			if got := context.Cause(forked); (got == nil) != released || !released && !errors.Is(got, errGone) {
				t.Errorf("released %v: %v", released, got)
			}
		})
	}
}

func TestAContextWithADeadlineIsAStandardOneWithACause(t *testing.T) {
	w, cause := System{}, errors.New("a cause")
	at := time.Now().Add(time.Hour)
	ctx, cancel := w.WithDeadline(t.Context(), at)
	child, end := context.WithTimeout(ctx, 2*time.Hour)
	defer end()
	if got, ok := child.Deadline(); !ok || !got.Equal(at) || ctx.Err() != nil {
		t.Errorf("ends at %v (%v), %v", got, ok, ctx.Err())
	}
	cancel(cause)
	<-child.Done()
	if ctx.Err() != context.Canceled || context.Cause(ctx) != cause || context.Cause(child) != cause {
		t.Errorf("%v, causes %v and %v", ctx.Err(), context.Cause(ctx), context.Cause(child))
	}

	over, cancel := w.WithDeadline(t.Context(), time.Now())
	<-over.Done()
	cancel(cause)
	if over.Err() != context.DeadlineExceeded || context.Cause(over) != context.DeadlineExceeded {
		t.Errorf("%v, cause %v", over.Err(), context.Cause(over))
	}

	above, leave := context.WithDeadline(t.Context(), at)
	defer leave()
	for _, later := range []time.Time{{}, at.Add(time.Hour)} {
		under, cancel := w.WithDeadline(above, later)
		if got, ok := under.Deadline(); !ok || !got.Equal(at) {
			t.Errorf("below %v: ends at %v (%v)", at, got, ok)
		}
		cancel(nil)
		if under.Err() != context.Canceled || context.Cause(under) != context.Canceled {
			t.Errorf("%v, cause %v", under.Err(), context.Cause(under))
		}
	}
}
