package fleet

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestADrainIsHeardByAllUntilItIsUndone(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		why := `disk "full" — ` + strings.Repeat("ü", 200)
		if err := a.order(func() error { return a.Drain(t.Context(), "small", "b0", why, 0) }); err != nil {
			t.Fatal(err)
		}
		if err := a.drain(t, "rack/7", time.Hour); err != nil {
			t.Fatal(err)
		}
		ticks(t, a, b)
		ticks(t, a, b)
		for _, m := range []*member{a, b} {
			got := m.small.drains()
			if len(got) != 2 || !strings.HasPrefix(why, got["b0"]) || len(got["b0"]) < maxWhy-3 || m.small.drainCalls > 2 || m.large.drainCalls != 0 {
				t.Errorf("%s heard %q, %d and %d times", m.self, got, m.small.drainCalls, m.large.drainCalls)
			}
		}
		for _, backend := range []string{"b0", "rack/7", "never drained"} {
			if err := b.order(func() error { return b.Undrain(t.Context(), "small", backend) }); err != nil {
				t.Fatal(err)
			}
		}
		ticks(t, a, b)
		for _, m := range []*member{a, b} {
			if len(m.small.drains()) != 0 {
				t.Errorf("%s still knows %q", m.self, m.small.drains())
			}
		}
	})
}

func TestADrainMadeWhileRedisWasAwayIsHeardByAllWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		b.run(t)
		time.Sleep(time.Second)
		r.SetError("ERR gone")
		for backend, d := range map[string]time.Duration{"open": 0, "long": time.Minute, "short": 3 * time.Second, "undone": 0} {
			if err := a.Drain(t.Context(), "small", backend, "why", d); err == nil {
				t.Fatal("Redis was away")
			}
		}
		if err := a.Undrain(t.Context(), "small", "undone"); err == nil {
			t.Fatal("Redis was away")
		}
		time.Sleep(10 * time.Second)
		r.SetError("")
		time.Sleep(2 * time.Second)
		for _, m := range []*member{a, b} {
			if diff := cmp.Diff(map[string]string{"open": "why", "long": "why"}, m.small.drains()); diff != "" {
				t.Errorf("%s: %s", m.self, diff)
			}
		}
		if err := b.Undrain(t.Context(), "small", "open"); err != nil { // another replica than the one that drained
			t.Fatal(err)
		}
		time.Sleep(49 * time.Second)
		for _, m := range []*member{a, b} {
			if got := m.small.drains(); len(got) != 0 {
				t.Errorf("%s: %v after their end", m.self, got)
			}
		}
	})
}

func TestDrainsThatRedisLostAreOrderedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		b.run(t)
		time.Sleep(time.Second)
		for backend, d := range map[string]time.Duration{"open": 0, "long": time.Minute, "undone": 0} {
			if err := a.Drain(t.Context(), "small", backend, "why", d); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if err := b.Undrain(t.Context(), "small", "undone"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.FlushAll()
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if diff := cmp.Diff(map[string]string{"open": "why", "long": "why"}, b.small.drains()); diff != "" {
				t.Fatal(diff)
			}
		}
		c := join(t, o, "c")
		ticks(t, c)
		if diff := cmp.Diff(map[string]string{"open": "why", "long": "why"}, c.small.drains()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[string]string{"open": "why"}, b.small.drains()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestADrainEndsByItselfEvenWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		b.run(t)
		time.Sleep(time.Second)
		begun := time.Now()
		for backend, d := range map[string]time.Duration{"short": 10 * time.Second, "long": time.Minute, "open": 0} {
			if err := b.Drain(t.Context(), "small", backend, "why", d); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(b.small.drains()) != 3 {
			t.Errorf("who drained does not hear of it at once: %v", b.small.drains())
		}
		time.Sleep(600 * time.Millisecond)
		all := map[string]string{"short": "why", "long": "why", "open": "why"}
		if diff := cmp.Diff(a.small.drains(), all); diff != "" {
			t.Error(diff)
		}
		for len(a.small.drains()) == 3 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begun); took < 10*time.Second || took > 10*time.Second+560*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
		r.SetError("ERR gone")
		time.Sleep(time.Minute)
		if diff := cmp.Diff(a.small.drains(), map[string]string{"open": "why"}); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnOrderIsKnownForADayAndOneInForceForAsLongAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		for _, backend := range []string{"open", "undone"} {
			if err := a.drain(t, backend, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.order(func() error { return b.Undrain(t.Context(), "small", "undone") }); err != nil { // which it has not heard of
			t.Fatal(err)
		}
		for range 4 {
			ticks(t, a, b, a)
			if diff := cmp.Diff(map[string]string{"open": "why"}, a.small.drains()); diff != "" || len(b.small.drains()) != 1 {
				t.Errorf("%s, %v", diff, b.small.drains())
			}
			time.Sleep(keepDrain/2 + time.Minute)
		}
		fields, err := r.HKeys(keyTold)
		if err != nil || cmp.Diff([]string{topicDrains + "/small/open"}, fields) != "" || len(a.drains) != 1 {
			t.Errorf("Redis has %v, %v; a replica knows %v", fields, err, a.drains)
		}
	})
}

func TestTextsThatAreNoDrainsAreCountedAndOfTwoOrdersTheLaterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a := join(t, o, "a")
		ticks(t, a)
		if err := a.drain(t, "b0", 0); err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixMilli()
		say := func(backend, text string) { r.HSet(keyTold, topicDrains+"/small/"+backend, fmt.Sprint(now, " ", text)) }
		for backend, text := range map[string]string{"b1": "banana", "b2": `{"until":-1}`, "b3": `{"at":1e999}`, "b0": `{"at":5,"undone":true}`, "b4": fmt.Sprintf(`{"at":%d,"why":"me"}`, now)} {
			say(backend, text)
		}
		ticks(t, a, a)
		if diff := cmp.Diff(map[string]string{"b0": "why", "b4": "me"}, a.small.drains()); diff != "" || a.count(errDrain) != 3 {
			t.Errorf("%s, %d errors", diff, a.count(errDrain))
		}
	})
}

func TestDrainRefusesWhatItCannotKeep(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a := join(t, o, "a")
	for _, c := range []struct {
		pool, backend string
		d             time.Duration
	}{{"nowhere", "b0", 0}, {"small", "", 0}, {"small", strings.Repeat("b", 300), 0}, {"small", "b0", -time.Second}, {"small", "b0", time.Microsecond}} {
		if err := a.Drain(t.Context(), c.pool, c.backend, "why", c.d); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
