package panics

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkThatPanicsIsDoneAgainASecondLaterAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler []error
		began, runs := time.Now(), 0
		KeepRunning(OnPanic(t.Context(), func(err error) { handler = append(handler, err) }), func(context.Context) {
			if runs++; runs <= 2 {
				panic("of a loop")
			}
		})
		if took := time.Since(began); runs != 3 || took != 2*pause {
			t.Errorf("%d runs in %v", runs, took)
		}
		if len(handler) != 2 || !strings.HasPrefix(handler[0].Error(), "panic: of a loop\n") {
			t.Errorf("told %v", handler)
		}
	})
}

func TestWorkIsNotDoneAgainAfterItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	KeepRunning(ctx, func(context.Context) {
		runs++
		cancel()
		panic("nobody is told")
	})
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}
