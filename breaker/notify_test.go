package breaker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAFloodOfWordsHasEverythingReadEvery25MillisecondsAtMost(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		all := fleetOf(t, o, 1, &site{})
		all[0].Retain("big", []string{"a", "b", "c", "d"})
		time.Sleep(5 * time.Second) // its own beat has come back
		before := all[0].cmds.count()
		for range 500 {
			raw.Publish(t.Context(), channelEvents, "a word")
			time.Sleep(2 * time.Millisecond)
		}
		reads := (all[0].cmds.count() - before) / 4
		if most := int(time.Second/minFull) + 2; reads > most || reads < most/2 {
			t.Errorf("everything was read %d times, and may be %d times", reads, most)
		}
		time.Sleep(2 * minFull)
		before = all[0].cmds.count()
		raw.Publish(t.Context(), channelEvents, "a word")
		time.Sleep(minPause)
		raw.Publish(t.Context(), channelEvents, "another")
		time.Sleep(2 * minFull)
		if reads := (all[0].cmds.count() - before) / 4; reads != 2 {
			t.Errorf("two words one after the other: %d reads", reads)
		}
	})
}
