package world

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// play runs a test in a bubble of time, with tasks that have begun. At most three run, and each waits a minute for a slot.
func play(t *testing.T, test func(t *testing.T, tasks *Tasks, panicked *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var panicked atomic.Int64
		tasks := NewTasks(TaskOptions{World: System{}, Max: 3, Patience: time.Minute, OnPanic: func() { panicked.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		tasks.Begin(ctx)
		test(t, tasks, &panicked)
		cancel()
		tasks.Wait()
	})
}

func TestNoMoreTasksRunThanThereMay(t *testing.T) {
	play(t, func(t *testing.T, tasks *Tasks, _ *atomic.Int64) {
		hold, started := make(chan struct{}), 0
		for range 9 {
			if tasks.Start(time.Hour, func(context.Context) { <-hold }) {
				started++
			}
		}
		if started != 3 || tasks.Free() {
			t.Errorf("%d run, and there may be 3", started)
		}
		close(hold)
		if synctest.Wait(); !tasks.Free() {
			t.Error("none may start when the others are over")
		}
	})
}

func TestAPanicEndsItsTaskOnly(t *testing.T) {
	play(t, func(t *testing.T, tasks *Tasks, panicked *atomic.Int64) {
		for range 6 {
			tasks.Start(time.Hour, func(context.Context) { panic("of a test") })
			synctest.Wait()
		}
		if panicked.Load() != 6 || !tasks.Free() {
			t.Errorf("%d panics were told; free %v", panicked.Load(), tasks.Free())
		}
	})
}

func TestTasksWaitForASlotAsLongAsTheirPatience(t *testing.T) {
	play(t, func(t *testing.T, tasks *Tasks, _ *atomic.Int64) {
		var at, done, gaveUp atomic.Int64
		for range 3 {
			tasks.Start(time.Hour, func(ctx context.Context) {
				if !tasks.Enter(ctx, 1) {
					gaveUp.Add(1)
					return
				}
				defer tasks.Leave()
				if at.Add(1) > 1 {
					t.Error("two are at the pools")
				}
				time.Sleep(45 * time.Second)
				at.Add(-1)
				done.Add(1)
			})
		}
		if time.Sleep(10 * time.Minute); done.Load() != 2 || gaveUp.Load() != 1 {
			t.Errorf("%d done, %d gave up; two fit into the minute", done.Load(), gaveUp.Load())
		}
	})
}

func TestNothingStartsBeforeTheBeginningOrAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := NewTasks(TaskOptions{World: System{}, Max: 3})
		never := func(context.Context) { t.Error("it runs") }
		if tasks.Free() || tasks.Start(time.Hour, never) {
			t.Error("before it begins")
		}
		ctx, cancel := context.WithCancel(t.Context())
		tasks.Begin(ctx)
		if cancel(); tasks.Free() || tasks.Start(time.Hour, never) {
			t.Error("when its time is over")
		}
		tasks.Wait()
		tasks.Wait()
	})
}
