package eventloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// play plays all events, and ends the run.
func play(t testing.TB, l *Loop) {
	t.Helper()
	for l.Step() {
	}
	l.End()
}

// diary is what happened, and when.
type diary struct {
	loop  *Loop
	lines []string
}

func (d *diary) note(what string) {
	d.lines = append(d.lines, fmt.Sprintf("%v %s", d.loop.Elapsed(), what))
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(d.lines, "\n"), strings.Join(lines, "\n"))
	}
}

func TestEventsHappenByTimeAndThenInTheOrderOfPlanning(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	l.At(2*time.Second, func() { d.note("c") })
	l.At(time.Second, func() {
		d.note("a")
		l.At(0, func() { d.note("late is now") })
		l.At(2*time.Second, func() { d.note("d") })
		l.After(time.Second, func() { d.note("e") })
	})
	l.At(time.Second, func() { d.note("b") })
	play(t, l)
	d.want(t, "1s a", "1s b", "1s late is now", "2s c", "2s d", "2s e")
}

func TestManyEventsComeInOrder(t *testing.T) {
	l := &Loop{}
	random := rand.New(rand.NewPCG(1, 2))
	var last time.Duration
	var lastNumber, n int
	for i := range 10_000 {
		at := time.Duration(random.IntN(500))
		l.At(at, func() {
			if at < last || at == last && i < lastNumber || l.Elapsed() != at {
				t.Errorf("event %d of %v at %v behind event %d of %v", i, at, l.Elapsed(), lastNumber, last)
			}
			last, lastNumber = at, i
			n++
		})
	}
	play(t, l)
	if n != 10_000 {
		t.Errorf("%d events happened", n)
	}
}

func TestNobodyWaitsUnderAContextOfAnotherWorld(t *testing.T) {
	l := &Loop{}
	foreign, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.Go(func() { _ = l.Sleep(foreign, time.Second) })
	defer func() {
		if p, ok := recover().(*PanicError); !ok || !strings.Contains(p.Error(), "another world") {
			t.Errorf("panic %v", p)
		}
	}()
	play(t, l)
}

func TestCoroutinesTakeTurnsInTheOrderOfPlanning(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	for _, name := range []string{"a", "b"} {
		l.Go(func() {
			for i := range 2 {
				if err := l.Sleep(context.Background(), time.Second); err != nil {
					t.Error(err)
				}
				d.note(fmt.Sprint(name, i))
			}
			l.Go(func() { d.note(name + " nested") })
			d.note(name + " over")
		})
	}
	play(t, l)
	d.want(t, "1s a0", "1s b0", "2s a1", "2s a over", "2s b1", "2s b over", "2s a nested", "2s b nested")
}

func TestASleepEndsWithItsContextAndTellsTheCause(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	why := errors.New("why")
	parent, cancel := l.WithCancel(context.Background())
	child, _ := l.WithCancel(parent)
	type key struct{}
	ctx := context.WithValue(child, key{}, 1)
	l.Go(func() {
		d.note(fmt.Sprint("derived ", l.Sleep(ctx, time.Minute)))
		d.note(fmt.Sprint("again ", l.Sleep(ctx, time.Minute)))
		d.note(fmt.Sprint("cause ", context.Cause(ctx), ", error ", ctx.Err()))
		d.note(fmt.Sprint("apart ", l.Sleep(context.WithoutCancel(ctx), time.Minute)))
	})
	l.After(time.Second, func() { cancel(why) })
	play(t, l)
	d.want(t, "1s derived why", "1s again why", "1s cause why, error context canceled", "1m1s apart <nil>")
}

func TestAnEndedChildDoesNotEndItsParent(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	parent, cancelParent := l.WithCancel(context.Background())
	var cancels []context.CancelCauseFunc
	for i := range 5 {
		child, cancel := l.WithCancel(parent)
		cancels = append(cancels, cancel)
		l.Go(func() { d.note(fmt.Sprint(i, " ", l.Sleep(child, time.Hour))) })
	}
	l.Go(func() { d.note(fmt.Sprint("parent ", l.Sleep(parent, time.Hour))) })
	for i := range 4 {
		l.After(time.Second, func() { cancels[3-i](nil) })
	}
	l.After(2*time.Second, func() { cancelParent(nil) })
	play(t, l)
	d.want(t, "1s 3 context canceled", "1s 2 context canceled", "1s 1 context canceled", "1s 0 context canceled",
		"2s parent context canceled", "2s 4 context canceled")
}

func TestATimeoutAndAnEventAtOneTimeHappenInTheOrderOfPlanning(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	l.Go(func() {
		ctx, cancel := l.WithTimeout(context.Background(), time.Second) // planned before the sleep
		defer cancel()
		if at, ok := ctx.Deadline(); !ok || at != l.Now().Add(time.Second) {
			t.Errorf("deadline %v", at)
		}
		d.note(fmt.Sprint(l.Sleep(ctx, time.Second), ctx.Err(), context.Cause(ctx)))
	})
	l.Go(func() {
		s := l.NewSignal()
		l.After(time.Second, s.Set)
		ctx, cancel := l.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.note(fmt.Sprint(s.Wait(ctx)))
		d.note(fmt.Sprint(ctx.Err()))
	})
	play(t, l)
	d.want(t, "1s context deadline exceeded context deadline exceeded context deadline exceeded", "1s <nil>", "1s context deadline exceeded")
}

func TestASignalIsForWhoWaitsAndWhoWill(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	s := l.NewSignal()
	over, cancel := l.WithCancel(context.Background())
	cancel(nil)
	l.Go(func() {
		d.note(fmt.Sprint("in vain ", s.Wait(over)))
		d.note(fmt.Sprint(l.Sleep(context.Background(), time.Minute)))
	})
	l.Go(func() { d.note(fmt.Sprint("before ", s.Wait(context.Background()))) })
	l.Go(func() {
		_ = l.Sleep(context.Background(), time.Second)
		d.note(fmt.Sprint("given ", s.IsSet()))
		s.Set()
		s.Set()
		d.note(fmt.Sprint("given ", s.IsSet()))
		d.note(fmt.Sprint("after ", s.Wait(over)))
	})
	play(t, l)
	d.want(t, "0s in vain context canceled", "1s given false", "1s given true", "1s after <nil>", "1s before <nil>", "1m0s <nil>")
}

func TestWhoWasWokenOnceIsNotWokenByWhatItWaitedForBefore(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	s := l.NewSignal()
	l.Go(func() {
		ctx, cancel := l.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.note(fmt.Sprint(s.Wait(ctx)))
		d.note(fmt.Sprint(l.Sleep(context.Background(), time.Minute))) // neither the signal nor the timeout ends it
	})
	l.After(2*time.Second, s.Set)
	play(t, l)
	d.want(t, "1s context deadline exceeded", "1m1s <nil>")
}

func TestAWaiterIsWokenForEachWaitAnew(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	var w Waiter
	w.Wake(l) // nobody waits: it is forgotten
	l.Go(func() {
		for range 3 {
			d.note(fmt.Sprint(w.Wait(context.Background(), l)))
		}
	})
	for i := range 3 {
		l.At(time.Duration(i+1)*time.Second, func() { w.Wake(l); w.Wake(l) })
	}
	play(t, l)
	d.want(t, "1s <nil>", "2s <nil>", "3s <nil>")
}

func TestWhatFollowsAContextHappensOnceAndBehindItsEnd(t *testing.T) {
	l := &Loop{}
	d := &diary{loop: l}
	ctx, cancel := l.WithCancel(context.Background())
	l.OnCancel(ctx, func() { d.note("a") })
	stop := l.OnCancel(ctx, func() { d.note("stopped") })
	l.OnCancel(context.Background(), func() { d.note("never") })
	if !stop() || stop() {
		t.Error("a stop did not stop, or did so twice")
	}
	l.After(time.Second, func() {
		cancel(nil)
		d.note("cancelled")
		if l.OnCancel(ctx, func() { d.note("b") })() {
			t.Error("what was under way was stopped")
		}
	})
	play(t, l)
	d.want(t, "1s cancelled", "1s a", "1s b")
}

func TestTheEndOfARunEndsEveryCoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	l := &Loop{}
	ended := 0
	for range 100 {
		l.Go(func() {
			defer func() { ended++ }()
			ctx, cancel := l.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if err := l.NewSignal().Wait(ctx); err != ErrEnded {
				t.Errorf("a signal: %v", err)
			}
			if err := l.Sleep(ctx, time.Second); err != ErrEnded {
				t.Errorf("a sleep behind the end: %v", err)
			}
			l.Go(func() { t.Error("a task began behind the end") })
		})
	}
	l.Go(func() {
		_ = l.Sleep(context.Background(), time.Second)
		l.Go(func() { t.Error("begun behind the end") })
	})
	for l.Elapsed() < time.Second {
		l.Step()
	}
	l.End()
	if l.Step() || ended != 100 {
		t.Errorf("%d of 100 coroutines ended", ended)
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func explode() { panic("sparks") }

func TestAPanicOfACoroutineComesOutOfTheLoopWithItsStack(t *testing.T) {
	l := &Loop{}
	l.Go(func() { _ = l.Sleep(context.Background(), time.Hour) })
	l.Go(explode)
	defer func() {
		p, ok := recover().(*PanicError)
		if !ok || p.Value != "sparks" || !strings.Contains(p.Error(), "eventloop.explode") {
			t.Errorf("came out: %v", p)
		}
		l.End()
		if len(l.alive) > 0 {
			t.Errorf("%d coroutines are left", len(l.alive))
		}
	}()
	play(t, l)
}
