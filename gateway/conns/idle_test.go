package conns

import (
	"testing"
	"time"
)

func TestIdleConnectionsLiveTheShorterTheFullerTheTable(t *testing.T) {
	const longest = 75 * time.Second
	for _, c := range []struct {
		open int
		want time.Duration
	}{{0, longest}, {500, longest}, {625, 40 * time.Second}, {750, minIdle}, {1000, minIdle}, {2000, minIdle}} {
		if got := idleTime(c.open, 1000, longest); got != c.want {
			t.Errorf("%d of 1000 open: %v, want %v", c.open, got, c.want)
		}
	}
	for _, limit := range []int{1, 2, 3, 4, 7, 32, 9968} {
		last := longest
		for open := range limit + 2 {
			now := idleTime(open, limit, longest)
			if now > last || now < minIdle {
				t.Fatalf("%d of %d open: %v after %v", open, limit, now, last)
			}
			last = now
		}
		if last != minIdle {
			t.Errorf("a full table of %d: %v", limit, last)
		}
	}
	if got := idleTime(1000, 1000, time.Second); got != time.Second {
		t.Errorf("longer than the longest: %v", got)
	}
}
