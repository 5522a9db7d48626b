package live

import (
	"context"
	"time"
)

// clock tells the profiles' time since the start of the run.
type clock struct {
	start time.Time
	scale float64
}

// now is the time of the run.
func (c clock) now() time.Duration { return c.of(time.Since(c.start)) }

// of converts a stretch of the wall's time.
func (c clock) of(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * c.scale)
}

// wall converts a stretch of the profiles' time.
func (c clock) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.scale)
}

// until waits for a time of the run; false means that ctx ended before.
func (c clock) until(ctx context.Context, at time.Duration) bool {
	left := time.Until(c.start.Add(c.wall(at)))
	if left <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
