package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

// desks runs a test with a store on miniredis and, when REDIS_ADDR is set, on Redis.
func desks(t *testing.T, test func(t *testing.T, s *Store, c *redis.Client)) {
	run := func(t *testing.T, addr string) {
		c := longTimeoutClient(addr)
		t.Cleanup(func() { _ = c.Close() })
		wipe := func() { c.Del(context.Background(), Key); c.Del(context.Background(), LogKey) }
		wipe()
		t.Cleanup(wipe)
		test(t, NewStore(c, []string{"llama"}), c)
	}
	t.Run("miniredis", func(t *testing.T) { run(t, miniredis.RunT(t).Addr()) })
	t.Run("redis", func(t *testing.T) {
		if os.Getenv("REDIS_ADDR") == "" {
			t.Skip("REDIS_ADDR is not set")
		}
		run(t, os.Getenv("REDIS_ADDR"))
	})
}

var anne = Edit{Who: "anne@desk", Why: "a test"}

// must makes a change.
func must(t *testing.T, s *Store, unset []string, set ...string) Result {
	t.Helper()
	r, err := s.Set(t.Context(), anne, hash(set...), unset)
	if err != nil {
		t.Fatalf("set %v, unset %v: %v", set, unset, err)
	}
	return r
}

// history tells the log, the newest first, as "version who: name old→new, …".
func history(t *testing.T, s *Store) []string {
	t.Helper()
	var out []string
	if err := s.History(t.Context(), func(e Entry) bool {
		var changes []string
		for _, c := range e.Changes {
			changes = append(changes, c.Name+" "+word(c.Old)+"→"+word(c.New))
		}
		out = append(out, fmt.Sprintf("%d %s: %s", e.Version, e.Who, strings.Join(changes, ", ")))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func word(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// stored is the hash.
func stored(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	h, err := c.HGetAll(t.Context(), Key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAChangeIsMadeLoggedAndRolledBack(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		if r := must(t, s, nil, "shed.low=0.7", "shed.low@llama=0.6"); r.Version != 1 || len(r.Changes) != 2 {
			t.Errorf("%+v", r)
		}
		must(t, s, []string{"shed.low@llama"}, "shed.low=0.8", "timeout.stream_idle=5s")
		if r := must(t, s, nil, "shed.low=0.8"); r.Version != 0 || len(r.Changes) != 0 {
			t.Errorf("a change that is none: %+v", r)
		}
		dry := anne
		dry.DryRun = true
		if r, err := s.Rollback(t.Context(), dry, 1); err != nil || r.Version != 0 || len(r.Changes) != 3 {
			t.Errorf("a dry run: %+v, %v", r, err)
		}
		if diff := cmp.Diff(hash("shed.low=0.8", "timeout.stream_idle=5s"), stored(t, c)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if r, err := s.Rollback(t.Context(), anne, 1); err != nil || r.Version != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(hash("shed.low=0.7", "shed.low@llama=0.6"), stored(t, c)); diff != "" {
			t.Errorf("rolled back: -want +got:\n%s", diff)
		}
		if _, err := s.Rollback(t.Context(), anne, 0); err != nil || len(stored(t, c)) != 0 {
			t.Errorf("to nothing set: %v, %v", stored(t, c), err)
		}
		want := []string{
			"4 anne@desk: shed.low 0.7→-, shed.low@llama 0.6→-",
			"3 anne@desk: shed.low 0.8→0.7, shed.low@llama -→0.6, timeout.stream_idle 5s→-",
			"2 anne@desk: shed.low 0.7→0.8, shed.low@llama 0.6→-, timeout.stream_idle -→5s",
			"1 anne@desk: shed.low -→0.7, shed.low@llama -→0.6",
		}
		if diff := cmp.Diff(want, history(t, s)); diff != "" {
			t.Errorf("log: -want +got:\n%s", diff)
		}
		var refused *RefusedError
		if _, err := s.Rollback(t.Context(), anne, 9); !errors.As(err, &refused) || err.Error() != "there is no version 9: the log holds 1 to 4" {
			t.Errorf("%v", err)
		}
	})
}

func TestAChangePastTheLogIsFoundAndARollbackStillLandsRight(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		c.HSet(t.Context(), Key, "retry.max_retries", "1", "warp.factor", "9")
		must(t, s, nil, "shed.low=0.7")
		c.HSet(t.Context(), Key, "shed.low", "0.75", "shed.normal", "0.9")
		c.HDel(t.Context(), Key, "retry.max_retries")
		r := must(t, s, nil, "timeout.stream_idle=5s")
		if r.Version != 4 || len(r.Found) != 3 {
			t.Errorf("%+v", r)
		}
		want := []string{
			"4 anne@desk: timeout.stream_idle -→5s",
			"3 unknown: retry.max_retries 1→-, shed.low 0.7→0.75, shed.normal -→0.9",
			"2 anne@desk: shed.low -→0.7",
			"1 unknown: retry.max_retries -→1, warp.factor -→9",
		}
		if diff := cmp.Diff(want, history(t, s)); diff != "" {
			t.Errorf("log: -want +got:\n%s", diff)
		}
		for version, want := range map[int64]map[string]string{
			1: hash("retry.max_retries=1", "warp.factor=9"),
			2: hash("retry.max_retries=1", "warp.factor=9", "shed.low=0.7"),
			3: hash("warp.factor=9", "shed.low=0.75", "shed.normal=0.9"),
		} {
			c.HSet(t.Context(), Key, "shed.queue_depth", fmt.Sprint(version)) // once more past the log
			if _, err := s.Rollback(t.Context(), anne, version); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, stored(t, c)); diff != "" {
				t.Errorf("version %d: -want +got:\n%s", version, diff)
			}
		}
	})
}

func TestWhatTheLogCannotKeepIsLeftAlone(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		long, foreign := strings.Repeat("x", 1000), "\xff\xfe"
		huge := strings.Repeat("x", maxValue+1)
		before := map[string]string{"notes": long, foreign: foreign, "huge": huge}
		c.HSet(t.Context(), Key, before)
		must(t, s, nil, "shed.low=0.7")
		if _, err := s.Rollback(t.Context(), anne, 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, stored(t, c)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		must(t, s, []string{"huge", foreign})
		if h := stored(t, c); len(h) != 1 {
			t.Errorf("unset, there are left: %v", len(h))
		}
	})
}

func TestABadOrderSaysWhatIsWrongAndChangesNothing(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		must(t, s, nil, "shed.low=0.5", "shed.normal=0.6", "shed.high=0.7")
		c.HSet(t.Context(), Key, "retry.budget", "lots") // bad already, which keeps nobody from anything
		before, log := stored(t, c), history(t, s)
		for _, tc := range []struct {
			set   []string
			unset []string
			want  string
		}{
			{set: []string{"shed.low=banana"}, want: `shed.low: "banana" is refused: want a plain decimal number, 0 … 1`},
			{set: []string{"shed.low=0.65"}, want: `shed.low: "0.65" is refused: shed.low 0.65 is above shed.normal 0.6`},
			{set: []string{"shed.hysteresis=0.5"}, want: `shed.hysteresis: "0.5" is refused: shed.hysteresis 0.5 is not below shed.low 0.5, so shedding would never end`},
			{set: []string{"shed.high@llama=0.55"}, want: `shed.high@llama: "0.55" is refused: shed.normal 0.6 is above shed.high 0.55`},
			{set: []string{"shed.lo=0.5"}, want: `shed.lo: unknown setting`},
			{set: []string{"shed.low@lama=0.5"}, want: `shed.low@lama: unknown route`},
			{set: []string{"breaker.open_duration@llama=3s"}, want: `breaker.open_duration@llama: "3s" is refused: is the same for every route and cannot be overridden`},
			{set: []string{"timeout.stream_idle=5", "retry.max_retries=99"}, want: `retry.max_retries: "99" is refused: out of range; want 0 … 10` + "\n" +
				`timeout.stream_idle: "5" is refused: want a duration with its unit, such as "5s" or "1500ms", 10ms … 1h`},
			{set: []string{"shed.low=0.4", "retry.max_retries=99"}, want: `retry.max_retries: "99" is refused: out of range; want 0 … 10`},
			{set: []string{"retry.max_retries=" + strings.Repeat("0", 300) + "1"}, want: `retry.max_retries: want text, the name of at most 192 bytes and the value of at most 256`},
			{unset: []string{"shed.normal"}, want: `shed.normal: cannot be removed: shed.normal 0.95 is above shed.high 0.7; 0.6 stays`},
			{unset: []string{"shed.hig"}, want: `shed.hig: is not set`},
		} {
			_, err := s.Set(t.Context(), anne, hash(tc.set...), tc.unset)
			var refused *RefusedError
			if !errors.As(err, &refused) || err.Error() != tc.want {
				t.Errorf("set %v, unset %v:\n got %v\nwant %s", tc.set, tc.unset, err, tc.want)
			}
		}
		if diff := cmp.Diff(before, stored(t, c)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff(log, history(t, s)); diff != "" {
			t.Errorf("log: -want +got:\n%s", diff)
		}
		forced := anne
		forced.Force = true
		if _, err := s.Set(t.Context(), forced, hash("warp.factor=9"), nil); err != nil || stored(t, c)["warp.factor"] != "9" {
			t.Errorf("with force: %v", err)
		}
		if _, err := s.Set(t.Context(), forced, hash("shed.low=NaN"), nil); err == nil {
			t.Error("force made a bad value of a known setting")
		}
		if r := must(t, s, nil, "shed.low=0"); len(r.Notes) != 3 || r.Notes[0] != "shed.low is 0: the whole class is turned away" ||
			!strings.HasPrefix(r.Notes[1], "retry.budget is refused by the replicas as it is: ") || !strings.HasPrefix(r.Notes[2], "warp.factor is ignored") {
			t.Errorf("notes: %q", r.Notes)
		}
	})
}

// TestManyWritersLoseNothing has six people set a field of their own and one in common.
func TestManyWritersLoseNothing(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		const people, each = 6, 4
		var wg sync.WaitGroup
		var mu sync.Mutex
		confirmed := map[int64]string{}
		for i := range people {
			wg.Go(func() {
				forced := Edit{Who: fmt.Sprint("p", i), Force: true}
				for n := range each {
					r, err := s.Set(t.Context(), forced, map[string]string{fmt.Sprintf("mine-%d", i): fmt.Sprint(n), "ours": fmt.Sprintf("%d-%d", i, n)}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if confirmed[r.Version] != "" {
						t.Errorf("version %d was given twice", r.Version)
					}
					confirmed[r.Version] = fmt.Sprintf("%d-%d", i, n)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		var entries []Entry
		if err := s.History(t.Context(), func(e Entry) bool { entries = append(entries, e); return true }); err != nil {
			t.Fatal(err)
		}
		if len(confirmed) != people*each {
			t.Errorf("%d changes were confirmed", len(confirmed))
		}
		if !maps.Equal(entries[0].after, stored(t, c)) {
			t.Errorf("the log ends with %v, the settings are %v", entries[0].after, stored(t, c))
		}
		for i := range people {
			if got := stored(t, c)[fmt.Sprintf("mine-%d", i)]; got != fmt.Sprint(each-1) {
				t.Errorf("mine-%d is %q", i, got)
			}
		}
		for _, e := range entries {
			if want, ok := confirmed[e.Version]; ok && e.after["ours"] != want {
				t.Errorf("version %d: ours is %s, want %s", e.Version, e.after["ours"], want)
			}
			delete(confirmed, e.Version)
		}
		if len(confirmed) > 0 {
			t.Errorf("confirmed and not in the log: %v", confirmed)
		}
		for i := 1; i < len(entries); i++ { // each continues where the one before ended
			if !maps.Equal(undo(entries[i-1].after, entries[i-1].Changes), entries[i].after) {
				t.Errorf("version %d does not begin where %d ended", entries[i-1].Version, entries[i].Version)
			}
		}
	})
}

func TestAHashOfTooManyFieldsIsToldAndMended(t *testing.T) {
	desks(t, func(t *testing.T, s *Store, c *redis.Client) {
		must(t, s, nil, "shed.low=0.8")
		must(t, s, nil, "shed.low=0.7")
		for i := range maxFields {
			c.HSet(t.Context(), Key, fmt.Sprint("x", i), "1")
		}
		if _, err := s.Set(t.Context(), anne, hash("shed.low=0.6"), nil); err == nil || !strings.Contains(err.Error(), "more than 256 fields") {
			t.Errorf("%v", err)
		}
		c.Del(t.Context(), Key)
		if _, err := s.Rollback(t.Context(), anne, 2); err != nil || !maps.Equal(hash("shed.low=0.7"), stored(t, c)) {
			t.Errorf("%v, %v", stored(t, c), err)
		}
	})
}

// FuzzParseEntry checks that an entry of the log that was accepted fits together and can
// be written again.
func FuzzParseEntry(f *testing.F) {
	f.Add("1-0", "1", "a", "b", `[{"name":"x","old":null,"new":"1"}]`, `{"x":"1"}`)
	f.Add("0", "9223372036854775807", "\xff", "", "null", "{}")
	f.Add("x", "-1", "", "", `[{}]`, `{"":""}`)
	f.Fuzz(func(t *testing.T, id, version, who, why, changes, after string) {
		e, err := parseEntry(redis.XMessage{ID: id, Values: map[string]any{"version": version, "who": who, "why": why, "changes": changes, "settings": after}})
		if err != nil {
			return
		}
		_ = undo(e.after, e.Changes)
		again, err := e.values()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		for i := 0; i < len(again); i += 2 {
			values[again[i]] = again[i+1]
		}
		back, err := parseEntry(redis.XMessage{ID: id, Values: values})
		if err != nil || !maps.Equal(back.after, e.after) || back.Version != e.Version || len(back.Changes) != len(e.Changes) {
			t.Errorf("%+v came back as %+v, %v", e, back, err)
		}
	})
}
