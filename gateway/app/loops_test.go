package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
)

func TestALoopThatEndsIsStartedAgainAfterAPauseThatGrowsAndResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var starts []time.Duration
		panicked := 0
		stop := supervisor{zerolog.Nop(), func() { panicked++ }}.start([]loop{{"flaky", func(ctx context.Context) error {
			starts = append(starts, time.Since(began))
			switch len(starts) {
			case 1:
				panic("a bug in the background")
			case 2:
				return errors.New("it failed")
			case 3:
				time.Sleep(healthyRun)
				return nil
			}
			var child sync.WaitGroup
			child.Go(func() {
				defer panics.Recover(ctx)
				panic("a bug in what a loop starts")
			})
			child.Wait()
			<-ctx.Done()
			return nil
		}}})
		time.Sleep(time.Hour)
		stop()
		want := []time.Duration{0, time.Second, 3 * time.Second, healthyRun + 4*time.Second}
		if len(starts) != 4 || starts[1] != want[1] || starts[2] != want[2] || starts[3] != want[3] {
			t.Errorf("started after %v, want %v", starts, want)
		}
		if panicked != 2 {
			t.Errorf("%d panics were counted, want 2", panicked)
		}
	})
}
