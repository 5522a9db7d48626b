package prefix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Unix(1_800_000_000, 0)

// tableOf has so many backends, each with a cache of so many tokens.
func tableOf(maxEntries, backends, capacity int) *Table {
	t := NewTable(maxEntries)
	for i, h := range hashes(backends) {
		t.Capacity(t.Join(h), capacity*(1-i%2/2))
	}
	return t
}

// prompt names the parts of a prompt: a system prompt and a conversation.
func prompt(system, conversation int) []Part {
	return []Part{{Key(Mix(uint64(system)) | 1), 0.5}, {Key(Mix(uint64(conversation)+1<<32) | 1), 1}}
}

// found is what Find tells, the most of each backend, and which are main places.
func found(t *Table, parts []Part, prompt int) (warm map[int]int, main map[int]bool) {
	warm, main = map[int]int{}, map[int]bool{}
	t.Find(parts, prompt, func(b, tokens int, m bool) {
		if tokens > warm[b] {
			warm[b], main[b] = tokens, m
		}
	})
	return warm, main
}

// check fails where the table is not what it says it is.
func check(t testing.TB, table *Table) {
	t.Helper()
	sums := make([]float64, len(table.backends))
	n := 0
	for e := table.ring.next; e != &table.ring; e = e.next {
		n++
		if table.entries[e.key] != e || e.next.prev != e || e.prev.next != e {
			t.Fatal("the ring and the map have parted")
		}
		if len(e.places) > maxPlaces {
			t.Fatalf("%d places of one part", len(e.places))
		}
		seen := map[int]bool{}
		for _, p := range e.places {
			if seen[p.backend] {
				t.Fatal("a part is twice on one backend")
			}
			seen[p.backend] = true
			if p.life == table.backends[p.backend].life {
				sums[p.backend] += p.own
			}
		}
	}
	if n != len(table.entries) || n > table.maxEntries {
		t.Fatalf("%d in the ring, %d in the map, %d at most", n, len(table.entries), table.maxEntries)
	}
	for b := range table.backends {
		placed := table.Placed(b)
		if math.Abs(placed-sums[b]) > 1e-6*(1+sums[b]) || placed < -1e-6 {
			t.Fatalf("%v tokens are placed on backend %d, its places sum to %v", placed, b, sums[b])
		}
	}
}

func TestSumsHoldAfterEveryOperation(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		table := tableOf(60, 20, 50_000)
		now := start
		var placements []Placement
		for range 2500 {
			parts, backend := prompt(rng.IntN(5), rng.IntN(120)), rng.IntN(20)
			switch op := rng.IntN(100); {
			case op < 60:
				placements = table.Place(placements[:0], parts, rng.IntN(8000), backend, "x", now)
			case op < 80:
				placement := Placement{Key: parts[op%2].Key, Tokens: rng.IntN(9000) - 100, Own: rng.IntN(5000) - 100, Cold: op%3 == 0}
				table.Merge(placement, backend, now)
			case op < 88:
				table.Remove(parts, backend)
			case op < 90:
				table.Forget(backend)
			case op < 91:
				table.Rejoin(backend, rng.Uint64())
			case op < 92:
				table.Rescale(0.5 + rng.Float64())
			case op < 94:
				table.Push(backend, rng.IntN(1000)-10)
			case op < 95:
				table.Capacity(backend, rng.IntN(100_000))
			default:
				now = now.Add(time.Duration(rng.ExpFloat64() * float64(time.Minute)))
			}
			check(t, table)
		}
	}
}

func TestNothingIsPlacedAnyMoreWhenAllIsForgotten(t *testing.T) {
	for name, forget := range map[string]func(*Table) time.Time{
		"by time": func(*Table) time.Time { return start.Add(2 * time.Hour) },
		"by a restart of all": func(table *Table) time.Time {
			for b := range 4 {
				table.Forget(b)
			}
			return start
		},
		"one by one": func(table *Table) time.Time {
			for i := range 500 {
				for b := range 4 {
					table.Remove(prompt(i%7, i), b)
				}
			}
			return start
		},
	} {
		table := tableOf(1000, 4, 0)
		for i := range 500 {
			table.Place(nil, prompt(i%7, i), 1000+i, i%4, "x", start)
		}
		check(t, table)
		now := forget(table)
		for range 1000 {
			table.Place(nil, nil, 0, 0, "x", now) // gives it time to expire
		}
		check(t, table)
		for b := range 4 {
			if placed := table.Placed(b); math.Abs(placed) > 1e-6 {
				t.Errorf("%s: %v tokens are still placed on %d", name, placed, b)
			}
		}
		if warm, _ := found(table, prompt(0, 0), 1000); len(warm) > 0 {
			t.Errorf("%s: still warm: %v", name, warm)
		}
	}
}

func TestWhatNobodyAsksForCountsNoMoreAfterFiveMinutesAndIsGoneAfterAnHour(t *testing.T) {
	table := tableOf(1000, 1, 0)
	table.Place(nil, prompt(1, 1), 4000, 0, "x", start)
	table.Place(nil, nil, 0, 0, "x", start.Add(fresh-time.Second))
	if table.Placed(0) != 4000 {
		t.Errorf("before: %v", table.Placed(0))
	}
	table.Place(nil, nil, 0, 0, "x", start.Add(fresh))
	if warm, _ := found(table, prompt(1, 1), 4000); table.Placed(0) != 0 || warm[0] != 4000 {
		t.Errorf("after five minutes: %v placed, %v warm", table.Placed(0), warm)
	}
	table.Place(nil, prompt(1, 1), 4000, 0, "x", start.Add(fresh))
	if table.Placed(0) != 4000 {
		t.Errorf("used again: %v", table.Placed(0))
	}
	table.Place(nil, nil, 0, 0, "x", start.Add(fresh+life))
	if warm, _ := found(table, prompt(1, 1), 4000); len(warm) > 0 || len(table.entries) > 0 {
		t.Errorf("after an hour: %v", warm)
	}
}

func TestTheLeastRecentlyUsedPartAndTheSeventeenthPlaceMakeRoom(t *testing.T) {
	table := tableOf(10, 20, 0)
	for i := range 10 {
		table.Place(nil, prompt(i, i)[1:], 1000, 0, "x", start.Add(time.Duration(i)))
	}
	table.Place(nil, prompt(0, 0)[1:], 1000, 0, "x", start.Add(20)) // used again
	table.Place(nil, prompt(0, 99)[1:], 1000, 0, "x", start.Add(30))
	for i, want := range []bool{true, false, true} {
		if warm, _ := found(table, prompt(i, i)[1:], 1000); (len(warm) > 0) != want {
			t.Errorf("part %d: %v, want %v", i, warm, want)
		}
	}
	for b := range 20 {
		table.Place(nil, prompt(0, 0)[1:], 1000, b, "x", start.Add(time.Second+time.Duration(b)))
	}
	warm, _ := found(table, prompt(0, 0)[1:], 1000)
	if _, first := warm[0]; len(warm) != maxPlaces || first {
		t.Errorf("%d places, %v", len(warm), warm)
	}
	check(t, table)
}

func TestWhatIsComputedPushesOlderPartsOutTailFirst(t *testing.T) {
	table := tableOf(10, 1, 10_000)
	table.Place(nil, prompt(0, 1)[1:], 4000, 0, "x", start)
	for _, c := range []struct{ push, want int }{{6000, 4000}, {1000, 3000}, {2500, 500}, {600, 0}} {
		table.Push(0, c.push)
		if warm, _ := found(table, prompt(0, 1)[1:], 4000); warm[0] != c.want {
			t.Errorf("%d more: %v, want %d", c.push, warm, c.want)
		}
	}
	placements := table.Place(nil, prompt(0, 1)[1:], 4000, 0, "x", start.Add(time.Second))
	if len(placements) != 1 || !placements[0].Cold {
		t.Errorf("what was pushed out is cold: %+v", placements)
	}
}

func TestForgetLeaveRejoinAndRescale(t *testing.T) {
	table := tableOf(100, 3, 100_000)
	for b := range 3 {
		table.Place(nil, prompt(1, 1), 4000, b, "x", start)
	}
	table.Forget(1)
	if warm, _ := found(table, prompt(1, 1), 4000); len(warm) != 2 || warm[1] != 0 || table.Placed(1) != 0 {
		t.Errorf("after a restart: %v", warm)
	}
	table.Remove(prompt(1, 1), 2)
	if warm, _ := found(table, prompt(1, 1), 4000); len(warm) != 1 || table.Placed(2) != 0 {
		t.Errorf("after leaving: %v", warm)
	}
	table.Rescale(1.5)
	if warm, _ := found(table, prompt(1, 1), 8000); warm[0] != 6000 || table.Placed(0) != 6000 {
		t.Errorf("rescaled: %v, %v", warm, table.Placed(0))
	}
	table.Rejoin(0, 77)
	if warm, _ := found(table, prompt(1, 1), 8000); len(warm) != 0 || table.Placed(0) != 0 {
		t.Errorf("another backend under the same number: %v", warm)
	}
	table.Capacity(0, 1000)
	table.Rejoin(0, 78)
	table.Place(nil, prompt(1, 1), 4000, 0, "x", start)
	if warm, _ := found(table, prompt(1, 1), 4000); warm[0] != 4000 {
		t.Errorf("its cache is as small as the other's: %v", warm)
	}
	check(t, table)
	// A new life is warm again.
	table.Place(nil, prompt(1, 1), 4000, 1, "x", start)
	if warm, _ := found(table, prompt(1, 1), 4000); warm[1] != 4000 || table.Placed(1) != 4000 {
		t.Errorf("in its second life: %v", warm)
	}
}

func TestTheMainPlaceIsTheFirstAndOfThoseAtOnceTheOneNearestHome(t *testing.T) {
	table := tableOf(100, 3, 0)
	parts := prompt(0, 1)[1:]
	all := hashes(3)
	home := homeOf(parts[0].Key, all)
	first, second := (home+1)%3, (home+2)%3
	mainOf := func() int {
		_, main := found(table, parts, 1000)
		at := -1
		for b, m := range main {
			if m && at >= 0 {
				t.Fatal("two main places")
			}
			if m {
				at = b
			}
		}
		return at
	}
	table.Place(nil, parts, 1000, first, "x", start)
	table.Place(nil, parts, 1000, home, "x", start.Add(together+time.Millisecond))
	table.Place(nil, parts, 1000, second, "x", start.Add(5*time.Second))
	if got := mainOf(); got != first {
		t.Errorf("main is %d, want the first, %d", got, first)
	}
	table.Forget(first)
	if got := mainOf(); got != home {
		t.Errorf("main is %d, want the next, %d", got, home)
	}
	other := tableOf(100, 3, 0)
	other.Place(nil, parts, 1000, second, "x", start)
	other.Place(nil, parts, 1000, home, "x", start.Add(together))
	table = other
	if got := mainOf(); got != home {
		t.Errorf("main is %d, want that nearest home, %d", got, home)
	}
}

func TestAReplicaThatHearsFindsWhatTheOneThatPlacedFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	here, there := tableOf(5000, 8, 0), tableOf(5000, 8, 0)
	now, tellings := start, 0
	ids := map[string]int{}
	for b := range 8 {
		ids[fmt.Sprint(b)] = b
	}
	lengths := map[int]int{}
	for i := range 3000 {
		now = now.Add(time.Duration(rng.IntN(30)) * time.Millisecond)
		conversation, b := rng.IntN(400), rng.IntN(8)
		if lengths[conversation] == 0 {
			lengths[conversation] = 2048 << rng.IntN(3)
		}
		parts := prompt(conversation%20, conversation)
		parts[0].Share = 1024 / float64(lengths[conversation])
		heard := now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
		for _, placement := range here.Place(nil, parts, lengths[conversation], b, fmt.Sprint(b), now) {
			there.Merge(placement, ids[placement.Backend], heard)
			tellings++
		}
		if i%100 > 0 {
			continue
		}
		for c, length := range lengths {
			parts := prompt(c%20, c)
			parts[0].Share = 1024 / float64(length)
			a, _ := found(here, parts, length)
			b, _ := found(there, parts, length)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("at %d, conversation %d: %v here, %v there", i, c, a, b)
			}
		}
	}
	for b := range 8 {
		// Copies that are out of use count no more by each replica's own uses, so the sums
		// may differ somewhat, and never much.
		if a, b := here.Placed(b), there.Placed(b); math.Abs(a-b) > 0.2*a {
			t.Errorf("placed %v here, %v there", a, b)
		}
	}
	if tellings > 8*(400+20)*3 {
		t.Errorf("%d tellings of 3,000 placements of 420 parts on 8 backends", tellings)
	}
}

func TestOthersAreToldOfWhatIsColdAndOfTheRestEachMinute(t *testing.T) {
	table := tableOf(100, 1, 0)
	n := 0
	for s := range 600 { // ten minutes, a use each second
		n += len(table.Place(nil, prompt(0, 1)[1:], 1000, 0, "x", start.Add(time.Duration(s)*time.Second)))
	}
	if n != 10 {
		t.Errorf("told %d times", n)
	}
	for _, placement := range []Placement{{Key: 1, Tokens: 100, Own: 300}, {Key: 1, Tokens: 1000, Own: 10}, {Key: 1, Tokens: -5, Own: -9}} {
		if table.Merge(placement, 0, start); table.entries[1] != nil {
			t.Errorf("%+v was believed", placement)
		}
	}
}

func TestALongRunStaysBoundedAndKnownPartsCostNoMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	table := tableOf(500, 8, 40_000)
	now := start
	var placements []Placement
	for i := range 100_000 {
		now = now.Add(time.Duration(rng.IntN(100)) * time.Millisecond)
		placements = table.Place(placements[:0], prompt(rng.IntN(30), rng.IntN(5000)), rng.IntN(6000), rng.IntN(8), "x", now)
		if i%20_000 == 0 {
			check(t, table)
		}
	}
	check(t, table)
	if len(table.entries) > 500 || len(table.backends) != 8 {
		t.Fatalf("%d parts", len(table.entries))
	}
	free := 0
	for e := table.free; e != nil; e = e.next {
		free++
	}
	if free > 8 {
		t.Errorf("%d entries are kept for nothing", free)
	}
	known := prompt(1, 1)
	placements = table.Place(placements[:0], known, 4000, 3, "x", now)
	sum := 0
	if n := testing.AllocsPerRun(200, func() {
		now = now.Add(time.Second)
		placements = table.Place(placements[:0], known, 4000, 3, "x", now)
		table.Find(known, 4000, func(_, tokens int, _ bool) { sum += tokens })
	}); n > 0 {
		t.Errorf("%v allocations for a part that is known", n)
	}
	if sum == 0 {
		t.Error("nothing was found")
	}
}
