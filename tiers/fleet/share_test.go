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
)

func TestAReadingIsHeardByOthersWithItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b, a)
		at := time.Now()
		time.Sleep(300 * time.Millisecond)
		a.Publish("small", "b0", busy(at.Add(-time.Second), 0.1))
		a.Publish("small", "b0", busy(at, 0.7))
		a.Publish("small", "b0", busy(at.Add(-time.Millisecond), 0.2)) // late
		a.Publish("small", "old", busy(at.Add(-publishable), 0.2))
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

// topic is one that remembers what it took.
func topic(name string, told map[string]string, took *[]string) Topic {
	return Topic{Name: name, Max: 3, Keep: time.Minute, Tell: func() map[string]string { return told }, Take: func(field, text string, age time.Duration) {
		*took = append(*took, fmt.Sprintf("%s %s %v", field, text, age.Round(100*time.Millisecond)))
	}}
}

// joinWith makes a replica with a topic.
func joinWith(t *testing.T, o *redis.Options, id string, told map[string]string) (*member, *[]string) {
	t.Helper()
	m, took := join(t, o, id), new([]string)
	own := topic("t", told, took)
	m.topics["t"] = &own
	return m, took
}

func TestATopicIsHeardOnceWithItsAgeAndTheLaterTextCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		told := map[string]string{"x/y": "one"}
		a, _ := joinWith(t, o, "a", told)
		b, heard := joinWith(t, o, "b", nil)
		ticks(t, a, a)
		clear(told)
		time.Sleep(time.Second)
		ticks(t, b, b)
		told["x/y"], told["long"] = "two", strings.Repeat("x", maxText+1)
		ticks(t, a, b)
		ahead := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " three")
		r.HSet(keyTold, "t/ahead", ahead, "t/none", "banana", "other/x", "1 x")
		clear(told)
		ticks(t, a, b, b)
		if diff := cmp.Diff([]string{"x/y one 1s", "x/y two 0s"}, *heard); diff != "" {
			t.Error(diff)
		}
		if b.count(errTopic) != 2 || b.log.count("of no use") != 1 {
			t.Errorf("%d counted, %d logged", b.count(errTopic), b.log.count("of no use"))
		}
	})
}

func TestATopicHasABudget(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	told := map[string]string{"1": "", "2": "", "3": "", "4": ""}
	a, _ := joinWith(t, o, "a", told)
	b, heard := joinWith(t, o, "b", nil)
	ticks(t, a, a, b)
	if len(*heard) != 3 {
		t.Errorf("sent more than three: %v", *heard)
	}
	if err := a.redis.HSet(t.Context(), keyTold, "t/5", "1 x", "t/6", "1 x").Err(); err != nil {
		t.Fatal(err)
	}
	c, heard := joinWith(t, o, "c", nil)
	ticks(t, c)
	if len(*heard) != 3 || c.count(errTopic) != 2 {
		t.Errorf("took more than three: %v", *heard)
	}
}

func TestAWrongTypeHarmsOnlyItsOwnKey(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	for _, key := range []string{keyReplicas, keyTold, keyPlaced + "small"} {
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
					_ = a.drain(t, fmt.Sprint("b", values), 0)
					ticks(t, b)
					return a.heartbeatError == nil && len(a.Members()) == 2, b.small.readingCalls > entries, len(b.small.places()) > places, b.small.drainCalls > values
				}
				members, readings, placed, drains := works()
				if members == (key == keyReplicas) || readings == (key == keyTold) || placed == (key == keyPlaced+"small") || drains == (key == keyTold) {
					t.Errorf("work: members %v, readings %v, placements %v, drains %v", members, readings, placed, drains)
				}
				mute := strings.HasSuffix(t.Name(), "/miniredis") && key == keyPlaced+"small" // miniredis reads any type as an empty log
				mute = mute || key == keyReplicas                                             // it is told once a replica is alone
				if n := b.log.count("of no use"); n != 1 && !mute {
					t.Errorf("%d log lines", n)
				}
				if err := raw.Del(t.Context(), key).Err(); err != nil {
					t.Fatal(err)
				}
				if members, readings, placed, drains := works(); !members || !readings || !placed || !drains {
					t.Errorf("mended: members %v, readings %v, placements %v, drains %v", members, readings, placed, drains)
				}
				if b.log.count("well again") != 1 && !mute {
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
			// Readings are told by their age, to which the way to b adds: they are farther apart than that, as an engine's are.
			a.Publish("small", "b0", busy(time.Now().Add(time.Duration(i-5)*200*time.Millisecond), float64(i)/10))
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
		if a.LostData() != nil || len(told) > 0 {
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
		if told[a] != 2 || told[b] != 2 || b.LostData() == nil || b.log.count("lost data") != 2 || testutil.ToFloat64(b.metrics.lostData) != 2 {
			t.Errorf("told %d and %d times, at %v", told[a], told[b], b.LostData())
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
		if b.small.readingCalls != 1 || len(b.small.places()) != 2 || !a.Sharing() || a.count(errRedis) != 0 {
			t.Errorf("%d readings, %d placements, %s, %d errors", b.small.readingCalls, len(b.small.places()), a.Level(), a.count(errRedis))
		}
		if n := a.trips.count() - trips; n != 3 {
			t.Errorf("%d round trips", n)
		}
	})
}

func TestTextsThatNobodyTellsAgainAreDeletedByTheFirstReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, _ := joinWith(t, o, "a", map[string]string{"kept": "x"})
		b, _ := joinWith(t, o, "b", nil)
		a.run(t)
		b.run(t)
		time.Sleep(time.Second)
		r.HSet(keyTold, "t/banana", "banana", "t/far", "99999999999999 x", "other/old", "1 x", "t/gone", fmt.Sprint(time.Now().UnixMilli(), " x"))
		time.Sleep(50 * time.Second)
		if fields, err := r.HKeys(keyTold); err != nil || cmp.Diff([]string{"t/gone", "t/kept"}, fields) != "" {
			t.Errorf("after 50 s: %v, %v", fields, err)
		}
		time.Sleep(50 * time.Second)
		if fields, err := r.HKeys(keyTold); err != nil || cmp.Diff([]string{"t/kept"}, fields) != "" {
			t.Errorf("after 100 s: %v, %v", fields, err)
		}
	})
}

func TestAHashTooLargeToReadIsDroppedAndToldAnewAndDrainsAreKept(t *testing.T) {
	server := redistest.Start(t) // nobody else writes into an embedded Redis, and it reads so many fields for a second
	o, raw := redistest.Background(server.Addr), server.Client
	a, b := join(t, o, "a"), join(t, o, "b")
	ticks(t, a, b)
	var many []any
	for i := range MaxTold + 1 {
		many = append(many, fmt.Sprint("f", i), "banana")
	}
	if err := a.drain(t, "b0", 0); err != nil {
		t.Fatal(err)
	}
	if err := raw.HSet(t.Context(), keyTold, many...).Err(); err != nil {
		t.Fatal(err)
	}
	const most = 20 // a busy machine may read so many fields too late
	for n := 0; n < most && a.count(errTopic) == 0; n++ {
		ticks(t, a)
	}
	for n := 0; n < most && b.small.reading("b0").KVUsage != 0.5; n++ {
		a.Publish("small", "b0", busy(time.Now(), 0.5))
		ticks(t, a, b)
	}
	if b.small.reading("b0").KVUsage != 0.5 || a.count(errTopic) != 1 {
		t.Errorf("%+v, %d errors", b.small.reading("b0"), a.count(errTopic))
	}
	if fresh := join(t, o, "c"); b.small.drains()["b0"] != "why" {
		t.Error("a drain has ended")
	} else if ticks(t, fresh, fresh); fresh.small.drains()["b0"] != "why" {
		t.Error("a drain is not told anew")
	}
}
