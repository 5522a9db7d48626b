package beat

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLoopsWakeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := map[time.Duration]map[time.Time]bool{}
		for _, period := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			woken[period] = map[time.Time]bool{}
			time.Sleep(123 * time.Millisecond) // a loop begins at any time
			for begin := time.Now(); time.Since(begin) < 10*time.Second; {
				next := Next(period)
				if next < period/4 || next > period+period/4 {
					t.Fatalf("%v until the next beat of %v", next, period)
				}
				time.Sleep(next)
				at := time.Now()
				if at.Add(phase).UnixNano()%int64(period) != 0 {
					t.Fatalf("%v is no beat of %v", at, period)
				}
				woken[period][at] = true
			}
			if n := len(woken[period]); n < int(10*time.Second/period)-1 {
				t.Errorf("%d beats of %v in ten seconds", n, period)
			}
		}
	})
}
