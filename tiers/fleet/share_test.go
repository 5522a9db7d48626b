package fleet

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestAReadingIsHeardByOthersWithItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		at := time.Now()
		time.Sleep(300 * time.Millisecond)
		a.Publish("small", "b0", busy(at.Add(-time.Second), 0.1))
		a.Publish("small", "b0", busy(at, 0.7))
		a.Publish("small", "b0", busy(at.Add(-time.Millisecond), 0.2)) // late
		a.Publish("nowhere", "b0", busy(at, 0.7))
		ticks(t, a)
		time.Sleep(400 * time.Millisecond)
		ticks(t, b, b, a)
		if diff := cmp.Diff(b.small.reading("b0"), busy(at, 0.7)); diff != "" {
			t.Error(diff)
		}
		if b.small.readingCalls != 1 || a.small.readingCalls != 0 || b.large.readingCalls != 0 {
			t.Errorf("heard %d times, by its own replica %d times, by another pool %d times", b.small.readingCalls, a.small.readingCalls, b.large.readingCalls)
		}
	})
}

func TestALateOldReadingDoesNotBeatANewerOne(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b, c := join(t, o, "a"), join(t, o, "b"), join(t, o, "c")
		now := time.Now()
		a.Publish("small", "b0", busy(now.Add(-time.Second), 0.9))
		b.Publish("small", "b0", busy(now.Add(-5*time.Second), 0.1))
		ticks(t, a, b, c)
		if got := c.small.reading("b0"); got.KVUsage != 0.9 {
			t.Errorf("the last writer won: %+v", got)
		}
		b.Publish("small", "b0", busy(now, 0.3))
		ticks(t, b, c)
		if got := c.small.reading("b0"); got.KVUsage != 0.3 || c.small.readingCalls != 2 {
			t.Errorf("the newest is not heard: %+v, %d times", got, c.small.readingCalls)
		}
		if n := raw.HLen(t.Context(), keyPressure+"small").Val(); n != 1 {
			t.Errorf("%d fields for one backend", n)
		}
	})
}

func TestTwoOwnersAreHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b, c := join(t, o, "a"), join(t, o, "b"), join(t, o, "c")
		last := time.Time{}
		for i := range 200 {
			time.Sleep(100 * time.Millisecond)
			for n, m := range []*member{a, b} { // both scrape b0, out of step
				m.Publish("small", "b0", busy(time.Now().Add(-time.Duration((i*37+n*53)%90)*time.Millisecond), 0.5))
			}
			ticks(t, b, a, c)
			at := c.small.reading("b0").At
			if at.Before(last) || time.Since(at) > 190*time.Millisecond {
				t.Fatalf("heard a reading of %v ago after one of %v ago", time.Since(at), time.Since(last))
			}
			last = at
		}
	})
}

func TestASequenceInTheFutureIsOverwrittenAndNotHeard(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ahead := stored(t, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), "x", busy(time.Time{}, 0.01))
		if err := raw.HSet(t.Context(), keyPressure+"small", "b0", ahead).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, a, b)
		if a.small.readingCalls+b.small.readingCalls != 0 {
			t.Error("a reading of the future was heard")
		}
		a.Publish("small", "b0", busy(time.Now(), 0.6))
		ticks(t, a, b)
		if b.small.reading("b0").KVUsage != 0.6 {
			t.Errorf("heard %+v", b.small.reading("b0"))
		}
	})
}

func TestGarbageInAHashIsCountedOnceAndTheRestIsHeard(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		now := fmt.Sprint(time.Now().UnixMilli())
		nextMillisecond(t)
		good := stored(t, now, "x", busy(time.Time{}, 0.5))
		if err := raw.HSet(t.Context(), keyPressure+"small", "n", strings.Replace(good, "0.5", "NaN", 1), "empty", "", "v9", "9"+good[1:], "long", strings.Repeat("1 ", 5000), "good", good).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, b, b, b)
		if b.small.readingCalls != 1 || b.count(errReading) != 4 || b.log.count("of no use") != 1 {
			t.Errorf("%d heard, %d counted, %d logged", b.small.readingCalls, b.count(errReading), b.log.count("of no use"))
		}
		for _, id := range []string{"n", "empty", "v9", "long"} {
			a.Publish("small", id, busy(time.Now().Add(time.Second), 0.4)) // age 0
		}
		ticks(t, a, b, b)
		if b.small.readingCalls != 5 || b.log.count("well again") != 1 {
			t.Errorf("%d heard, %d well again", b.small.readingCalls, b.log.count("well again"))
		}
	})
}

func TestALongValueInAHashIsNotRead(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		b, long := join(t, o, "b"), strings.Repeat("x", 64<<10)
		for _, key := range []string{keyPressure + "small", keyDrain} {
			if err := raw.HSet(t.Context(), key, "small/long", long, long, "x").Err(); err != nil {
				t.Fatal(err)
			}
		}
		ticks(t, b)
		read := 0
		for field, value := range b.pool("small").readings {
			read += len(field) + len(value.value)
		}
		for field, value := range b.drains {
			read += len(field) + len(value.value)
		}
		if read == 0 || read > 10_000 {
			t.Errorf("%d bytes were read", read)
		}
	})
}

// climbs is longer than the longest way back to Shared.
const climbs = minHold + goneAfter

func TestAWrongTypeHarmsOnlyItsOwnKey(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	for _, key := range []string{keyReplicas, keyPressure + "small", keyPlaced + "small", keyDrain} {
		t.Run(key, func(t *testing.T) {
			stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
				a, b := join(t, o, "a"), join(t, o, "b")
				ticks(t, a, b, a)
				if err := raw.Del(t.Context(), key).Err(); err != nil {
					t.Fatal(err)
				}
				if err := raw.Set(t.Context(), key, "banana", 0).Err(); err != nil {
					t.Fatal(err)
				}
				works := func() (members, readings, placed, drains bool) {
					entries, places, values := b.small.readingCalls, len(b.small.places()), b.small.drainCalls
					for range 3 {
						a.Publish("small", "b0", busy(time.Now(), 0.5))
						a.Place("small", placements(2))
						nextMillisecond(t) // the next reading is a later one
						ticks(t, a, b)
					}
					_ = a.Drain(t.Context(), "small", fmt.Sprint("b", values), "why", 0)
					ticks(t, b)
					for begun := time.Now(); a.Mode() != Shared && time.Since(begun) < climbs; {
						ticks(t, a, b) // a busy machine may have cost a tick
					}
					return a.Mode() == Shared && len(a.Members()) == 2, b.small.readingCalls > entries, len(b.small.places()) > places, b.small.drainCalls > values
				}
				members, readings, placed, drains := works()
				if members == (key == keyReplicas) || readings == (key == keyPressure+"small") || placed == (key == keyPlaced+"small") || drains == (key == keyDrain) {
					t.Errorf("work: members %v, readings %v, placements %v, drains %v", members, readings, placed, drains)
				}
				mute := strings.HasSuffix(t.Name(), "/miniredis") && key == keyPlaced+"small" // miniredis reads any type as an empty log
				wrong, well, lines := "of no use", "well again", 1
				if key == keyReplicas { // one for each lower level
					wrong, well, lines = "who else lives cannot be read", "shared with others", 2
				}
				if n := b.log.count(wrong); n != lines && !mute {
					t.Errorf("%d log lines", n)
				}
				if err := raw.Del(t.Context(), key).Err(); err != nil {
					t.Fatal(err)
				}
				values := b.log.count(well) + 1
				redistest.Within(t, 5*time.Second, "all is shared again", func() bool { ticks(t, a, b); return a.Mode() == Shared && b.Mode() == Shared })
				if members, readings, placed, drains := works(); !members || !readings || !placed || !drains {
					t.Errorf("mended: members %v, readings %v, placements %v, drains %v", members, readings, placed, drains)
				}
				if b.log.count(well) != values && !mute {
					t.Error("nobody says that it is mended")
				}
			})
		})
	}
}

func TestAFlushedRedisIsFilledAnewWithinATick(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b, a, b)
		for i := range 5 {
			if err := raw.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			nextMillisecond(t) // ids of the new log begin behind those of the old
			a.Publish("small", "b0", busy(time.Now(), float64(i)/10))
			a.Place("small", placements(1))
			ticks(t, a, b, a)
			if got := b.small.reading("b0"); got.KVUsage != float64(i)/10 || len(b.small.places()) != i+1 {
				t.Errorf("after flush %d: %+v and %d placements", i, got, len(b.small.places()))
			}
			oneEach(t, owners("small", 50, a, b))
		}
		if n := a.count(errRedis) + b.count(errRedis); n != 0 {
			t.Errorf("%d errors", n)
		}
	})
}

func TestEveryReplicaIsToldOnceThatRedisLostData(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		told := map[*member]int{}
		for _, m := range []*member{a, b} {
			m.lost = []func(){func() { told[m]++ }}
		}
		ticks(t, a, b, a, b)
		if _, lost := a.LostData(); lost || len(told) > 0 {
			t.Fatalf("told %v of a Redis that kept all", told)
		}
		older := raw.Get(t.Context(), keyRun).Val()
		ticks(t, a, b)
		if err := raw.Set(t.Context(), keyRun, older, 0).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, a, b, a, b)
		if err := raw.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, a, b, a, b)
		at, lost := b.LostData()
		if told[a] != 2 || told[b] != 2 || !lost || at.IsZero() || b.log.count("lost data") != 2 || testutil.ToFloat64(b.metrics.lostData) != 2 {
			t.Errorf("told %d and %d times, at %v", told[a], told[b], at)
		}
	})
}

func TestLostScriptsHealWithinTheTickAndNothingIsToldTwice(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b, a, b)
		if err := raw.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		a.Publish("small", "b0", busy(time.Now(), 0.5))
		a.Place("small", placements(2))
		trips := a.trips.count()
		ticks(t, a, b)
		if b.small.readingCalls != 1 || len(b.small.places()) != 2 || a.Mode() != Shared || a.count(errRedis) != 0 {
			t.Errorf("%d readings, %d placements, %s, %d errors", b.small.readingCalls, len(b.small.places()), a.Mode(), a.count(errRedis))
		}
		if n := a.trips.count() - trips; n != 3 {
			t.Errorf("%d round trips", n)
		}
		if err := raw.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := a.Drain(t.Context(), "small", "b0", "why", 0); err != nil {
			t.Error(err)
		}
	})
}

func TestFieldsThatNobodyRenewsAreDeletedByTheFirstReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		b.run(t)
		for i := range maxTidied + 50 {
			r.HSet(keyPressure+"small", fmt.Sprint("old", i), stored(t, fmt.Sprint(time.Now().UnixMilli()), "x", busy(time.Time{}, 0.5)))
		}
		r.HSet(keyPressure+"small", "banana", "banana", "far", stored(t, "99999999999999", "x", pressure.Reading{}))
		left := func() int {
			fields, err := r.HKeys(keyPressure + "small")
			if err != nil && r.Exists(keyPressure+"small") {
				t.Fatal(err)
			}
			return len(fields)
		}
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			b.Publish("small", "b0", busy(time.Now(), 0.5))
		}
		if n := left(); n != maxTidied+51 {
			t.Errorf("%d fields after 50 s", n)
		}
		for range 80 {
			time.Sleep(500 * time.Millisecond)
			b.Publish("small", "b0", busy(time.Now(), 0.5))
		}
		if n := left(); n != 51 {
			t.Errorf("%d fields after 90 s", n)
		}
		time.Sleep(2 * time.Minute)
		if n := left(); n != 0 {
			t.Errorf("%d fields in the end", n)
		}
	})
}

func TestAHashTooLargeToReadIsDroppedAndToldAnew(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		var many []any
		for i := range maxBackends + 1 {
			many = append(many, fmt.Sprint("f", i), "banana")
		}
		if err := raw.HSet(t.Context(), keyPressure+"small", many...).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, a)
		a.Publish("small", "b0", busy(time.Now(), 0.5))
		ticks(t, a, b)
		if b.small.reading("b0").KVUsage != 0.5 || a.count(errPressure) != 1 {
			t.Errorf("%+v, %d errors", b.small.reading("b0"), a.count(errPressure))
		}
		if err := raw.HSet(t.Context(), keyDrain, many...).Err(); err != nil {
			t.Fatal(err)
		}
		ticks(t, a)
		if n := raw.HLen(t.Context(), keyDrain).Val(); n != maxBackends+1 {
			t.Errorf("people's drains were dropped, %d are left", n)
		}
		if err := a.Drain(t.Context(), "small", "b0", "why", 0); err == nil {
			t.Error("a drain was added to too many")
		}
	})
}

func TestReadingsWaitForRedisAndOldOnesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		r.SetError("LOADING")
		a.Publish("small", "old", busy(time.Now(), 0.1))
		ticks(t, a)
		time.Sleep(publishable)
		a.Publish("small", "new", busy(time.Now(), 0.2))
		a.Place("small", placements(3))
		ticks(t, a)
		time.Sleep(time.Second)
		r.SetError("")
		ticks(t, a, b)
		if b.small.readingCalls != 1 || b.small.reading("new").KVUsage != 0.2 || len(b.small.places()) != 0 {
			t.Errorf("%d heard, %+v, %d placements", b.small.readingCalls, b.small.reading("new"), len(b.small.places()))
		}
	})
}
