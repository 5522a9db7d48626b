package breaker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// bubble runs a test in virtual time on a miniredis: there a time.Sleep takes no time, and ends at its moment to the
// nanosecond. So a sleep is a bound that is checked, where a wait for a state would not say when the state came.
func bubble(t *testing.T, test func(t *testing.T, o *redis.Options, raw *redis.Client)) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		raw := redis.NewClient(o)
		t.Cleanup(func() { _ = raw.Close() })
		test(t, o, raw)
	})
}

// heard is the longest time until all replicas know what one has reported: a tick with its jitter, after the shortest pause.
const heard = tickEvery + tickEvery/5 + minPause

func TestSixFaultsOnAnIdleBackendOpenItForAll(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		all := fleetOf(t, o, 3, &site{})
		time.Sleep(time.Second)
		all[2].calls("a", 6, errBad)
		for _, m := range all[:2] {
			m.Retain("big", []string{"a", "b"})
		}
		time.Sleep(heard)
		for i, m := range all {
			if s := m.state("a"); s.State != Open || s.Alone || !m.Open("big", "a") || s.Remaining > 2200*time.Millisecond {
				t.Errorf("replica %d: %+v", i, s)
			}
		}
	})
}

func TestABackendThatStaysSickIsProbedByOneReplicaAtATimeAndNeverByARequest(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 8, w)
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		w.set("a", errBad)
		all[0].calls("a", 5, errBad)
		time.Sleep(heard)
		asked := 0
		for range 1200 { // two minutes
			time.Sleep(100 * time.Millisecond)
			for _, m := range all {
				asked += m.calls("a", 1, errBad)
			}
		}
		if asked > 0 {
			t.Errorf("%d requests were used to test it", asked)
		}
		probes := w.seen()
		if len(probes) < 5 || len(probes) > 8 {
			t.Errorf("%d probes in 2 minutes: %v", len(probes), probes)
		}
		for i := range probes[1:] {
			want := min(4*time.Second<<i, 30*time.Second)
			if gap := probes[i+1].at.Sub(probes[i].at); gap < want*9/10 || gap > want*11/10+time.Second {
				t.Errorf("probe %d came %v after the last, want %v", i+1, gap, want)
			}
		}
		w.set("a", nil)
		time.Sleep(35 * time.Second)
		if !every(all, "a", Closed) {
			t.Error("not closed")
		}
		last := w.seen()[len(probes):]
		if len(last) != 2 || last[0].by != last[1].by {
			t.Errorf("it was closed by %v, want two probes of one replica", last)
		}
		for _, m := range all {
			if n := m.log.count("breaker moved"); n > 3*(len(probes)+2) {
				t.Errorf("%d lines for %d probes", n, len(probes))
			}
		}
	})
}

func TestEveryOpeningOfAFleetOfEightIsTestedByExactlyOneStreamOfProbes(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 8, w)
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		cycles := 60
		switch {
		case long:
			cycles = 1000
		case raced:
			cycles = 15
		}
		for cycle := range cycles {
			all[cycle%8].calls("a", 5, errBad)
			time.Sleep(400 * time.Millisecond)
			if !every(all, "a", Open) {
				t.Fatalf("cycle %d: not open for all", cycle)
			}
			time.Sleep(5 * time.Second)
			if !every(all, "a", Closed) {
				t.Fatalf("cycle %d: not closed", cycle)
			}
			time.Sleep(10 * time.Second)
		}
		probes := w.seen()
		if len(probes) != 2*cycles {
			t.Fatalf("%d probes in %d cycles", len(probes), cycles)
		}
		for i := 0; i < len(probes); i += 2 {
			if probes[i].by != probes[i+1].by {
				t.Errorf("cycle %d was tested by %s and %s", i/2, probes[i].by, probes[i+1].by)
			}
		}
	})
}

func TestAClosedBreakerRampsOnEveryReplica(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		all := fleetOf(t, o, 3, &site{})
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		if r := all[1].Ramp("big", "a"); r != 1 {
			t.Errorf("a ramp of %v before anything", r)
		}
		all[0].calls("a", 5, errBad)
		time.Sleep(time.Second)
		for !every(all, "a", Closed) {
			time.Sleep(10 * time.Millisecond)
		}
		for i, m := range all {
			if r := m.Ramp("big", "a"); r < 0.1 || r > 0.14 {
				t.Errorf("replica %d begins at %v", i, r)
			}
		}
		time.Sleep(5 * time.Second)
		if r := all[2].Ramp("big", "a"); r < 0.54 || r > 0.6 {
			t.Errorf("%v after five seconds", r)
		}
		time.Sleep(5 * time.Second)
		if r := all[2].Ramp("big", "a"); r != 1 || all[2].Ramp("big", "nobody") != 1 {
			t.Errorf("%v after ten seconds", r)
		}
	})
}

func TestWhoIsAloneWithAnOpenBreakerTestsItsOwnWay(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 2, w)
		w.set("a", errBad) // as this replica's probes see it
		asked := 0
		for i := range 300 { // half a minute
			all[0].calls("a", 20, nil)
			time.Sleep(100 * time.Millisecond)
			switch {
			case i == 10:
				all[1].calls("a", 6, errBad)
			case i > 10:
				asked += all[1].calls("a", 1, nil)
			}
		}
		if all[0].log.count("breaker moved") > 0 || !all[1].state("a").Alone || asked > 0 {
			t.Errorf("%+v, %d requests; the other: %s", all[1].state("a"), asked, all[0].log)
		}
		w.set("a", nil)
		time.Sleep(13 * time.Second)
		if s := all[1].state("a"); s.State != Closed || s.Alone {
			t.Errorf("%+v", s)
		}
		for _, p := range w.seen() {
			if p.by != "r1" {
				t.Errorf("probed by %s", p.by)
			}
		}
	})
}

func TestALeaseOfAReplicaThatDiesIsTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 3, w)
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		all[0].calls("a", 5, errBad)
		time.Sleep(1500 * time.Millisecond) // less than the shortest open time
		k := keyBreaker + "big/a"
		// Somebody else took the lease and is not heard of again.
		until := time.Now().Add(lease).UnixMilli()
		raw.HSet(t.Context(), k, "st", 1, "pt", "the dead one's", "pu", until, "ps", 0)
		time.Sleep(4 * time.Second)
		if n := len(w.seen()); n > 0 {
			t.Fatalf("%d probes while another had the lease", n)
		}
		time.Sleep(2500 * time.Millisecond)
		if !every(all, "a", Closed) || len(w.seen()) != 2 {
			t.Errorf("not taken over: %v", w.seen())
		}
	})
}

func TestAFleetsBreakerOfABackendThatWasRestartedIsTestedBeforeItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 3, w)
		w.set("a", errBad)
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		time.Sleep(time.Second)
		all[2].calls("a", 6, errBad)
		time.Sleep(8 * time.Second) // two probes have failed: the next one is after 8 s
		w.set("a", nil)
		all[0].Restarted("big", "a")
		time.Sleep(1200 * time.Millisecond)
		if !every(all, "a", Closed) {
			t.Errorf("not tested after its restart: %+v", all[1].state("a"))
		}
	})
}

func TestWithoutRedisAViewRunsOutAndTheOwnBreakerRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, o := redistest.Embedded(t, redistest.Background)
		all := fleetOf(t, o, 2, &site{})
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		all[0].calls("a", 5, errBad)
		time.Sleep(350 * time.Millisecond)
		mini.SetError("ERR away")
		time.Sleep(1150 * time.Millisecond)
		if !all[1].Open("big", "a") {
			t.Error("the view that there was is not kept")
		}
		time.Sleep(time.Second) // its open time, 2.2 s at most, is over, and it is stale
		if all[1].Open("big", "a") || all[1].calls("a", 5, errBad) != 5 || !all[1].Open("big", "a") {
			t.Error("the own breaker does not rule")
		}
		if !all[0].Open("big", "a") {
			t.Error("the own open time of ten seconds does not hold")
		}
		time.Sleep(13 * time.Second) // of virtual time: its open time, 12 s at most, and two probes behind it
		if n := all[1].calls("a", 3, errBusy); n != 3 || all[1].Open("big", "a") {
			t.Errorf("%d of 3 requests were let through: probes have not closed it", n)
		}
		if all[1].log.count("level\":\"error") > 0 || all[1].log.count("Redis") > 0 || all[1].failures() == 0 {
			t.Errorf("%d errors counted, log:\n%s", all[1].failures(), all[1].log)
		}
	})
}

func TestAfterTheWayBackOnlyTheLastTenSecondsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, o := redistest.Embedded(t, redistest.Background)
		raw := redis.NewClient(o)
		t.Cleanup(func() { _ = raw.Close() })
		all := fleetOf(t, o, 1, &site{})
		time.Sleep(time.Second)
		mini.SetError("ERR away")
		time.Sleep(time.Second)
		all[0].calls("a", 40, nil)
		time.Sleep(11 * time.Second)
		all[0].calls("a", 7, nil)
		all[0].calls("a", 2, errBad)
		time.Sleep(2 * time.Second)
		mini.SetError("")
		time.Sleep(400 * time.Millisecond)
		finished, faults := 0, 0
		for f, v := range raw.HGetAll(t.Context(), keyBreaker+"big/a").Val() {
			n := 0
			_, _ = fmt.Sscan(v, &n)
			switch {
			case strings.HasPrefix(f, "t:"):
				finished += n
			case strings.HasPrefix(f, "f:"):
				faults += n
			}
		}
		if finished != 9 || faults != 2 {
			t.Errorf("told of %d calls and %d faults, want 9 and 2", finished, faults)
		}
	})
}

func TestAKeyOfTheWrongTypeMakesOneBackendLocalAndIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		w := &site{}
		all := fleetOf(t, o, 2, w)
		for _, m := range all {
			m.Retain("big", []string{"a", "b", "c", "d"})
		}
		k := keyBreaker + "big/a"
		if err := raw.Set(t.Context(), k, "nonsense", 0).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		all[0].calls("a", 5, errBad)
		all[0].calls("b", 5, errBad)
		time.Sleep(500 * time.Millisecond)
		if !all[0].Open("big", "a") || all[1].Open("big", "a") || all[0].state("a").Alone {
			t.Errorf("a: %+v and %+v", all[0].state("a"), all[1].state("a"))
		}
		if !all[0].Open("big", "b") || !all[1].Open("big", "b") {
			t.Errorf("b: %+v and %+v", all[0].state("b"), all[1].state("b"))
		}
		if n := all[0].log.count("of no use"); n != 1 || all[0].failures() == 0 {
			t.Errorf("%d lines, %d counted", n, all[0].failures())
		}
		if err := raw.Del(t.Context(), k).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n, m := all[0].log.count("of no use"), all[0].log.count("well again"); n != 1 || m != 1 || !all[0].state("a").Alone {
			t.Errorf("%d and %d lines, %+v", n, m, all[0].state("a"))
		}
	})
}

func TestWhatIsClosedAndIdleLeavesNoKeyAndAGoneBackendsKeyEnds(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		all := fleetOf(t, o, 1, &site{})
		all[0].Retain("big", []string{"a", "b"})
		all[0].calls("a", 5, errBad)
		all[0].calls("b", 3, nil)
		time.Sleep(time.Second)
		if n := raw.Exists(t.Context(), keyBreaker+"big/a", keyBreaker+"big/b").Val(); n != 2 {
			t.Fatalf("%d keys", n)
		}
		if ttl := raw.PTTL(t.Context(), keyBreaker+"big/a").Val(); ttl <= 9*time.Minute || ttl > 10*time.Minute {
			t.Errorf("a gone backend's key ends in %v", ttl)
		}
		time.Sleep(15 * time.Second)
		if n := raw.Exists(t.Context(), keyBreaker+"big/b").Val(); n != 0 {
			t.Error("an idle backend's key stays")
		}
	})
}

func TestAReplicaWithABrokenNetworkOpensNobodyElses(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		well := &site{}
		all := fleetOf(t, o, 7, well)
		cut := &site{}
		for _, b := range members {
			cut.set(b, errUnreachable)
		}
		sick := join(t, o, "sick", cut)
		sick.run(t)
		for _, m := range append(all, sick) {
			m.Retain("big", members)
		}
		for i := range 200 { // more than two windows
			for _, b := range members {
				for _, m := range all {
					if m.calls(b, 1, nil) != 1 {
						t.Fatalf("%v: %s is open for %s", time.Duration(i)*100*time.Millisecond, b, m.id)
					}
				}
				if i > 10 {
					sick.calls(b, 1, errUnreachable)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := sick.shut(members); len(got) != len(members) || len(well.seen()) != 0 {
			t.Errorf("the sick one keeps out %v; the others probed %d times", got, len(well.seen()))
		}
		for _, b := range members {
			if !sick.state(b).Alone {
				t.Errorf("%+v", sick.state(b))
			}
		}
	})
}
