package panics

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesBeforeARestartGrowAndAreShortAgainAfterAHealthyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		var pauses []time.Duration
		runs, last := 0, time.Now()
		ctx := OnPanic(t.Context(), func(err error) { told = append(told, err) })
		Supervise(ctx, func(context.Context) error {
			runs++
			if runs > 1 {
				pauses = append(pauses, time.Since(last))
			}
			defer func() { last = time.Now() }()
			switch runs {
			case 1:
				panic("of a loop")
			case 8:
				time.Sleep(healthy)
			case 10:
				return nil
			}
			return errors.New("of a loop")
		}, func(error, time.Duration) {})
		var want []time.Duration
		for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30, 1, 2} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if len(told) != 1 {
			t.Fatalf("told %v", told)
		}
		if e, ok := errors.AsType[*Error](told[0]); !ok || e.Value != "of a loop" || !strings.Contains(string(e.Stack), "panics_test.go") {
			t.Errorf("told %v", told)
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
