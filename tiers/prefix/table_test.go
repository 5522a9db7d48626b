package prefix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Unix(1_800_000_000, 0)

// numbered is a table of backends with numbers.
type numbered struct {
	*Table
	caches []*Cache
}

// tableOf has so many backends, each with a cache of so many tokens.
func tableOf(maxEntries, backends, capacity int) *numbered {
	t := &numbered{Table: NewTable(maxEntries)}
	for i, h := range hashes(backends) {
		c := &Cache{Index: i, id: fmt.Sprint(i), hash: h}
		c.SetCapacity(capacity * (1 - i%2/2))
		t.caches = append(t.caches, c)
	}
	return t
}

func (n *numbered) Place(placements []Placement, parts []Part, prompt, b int, now time.Time) []Placement {
	return n.Table.Place(placements, parts, prompt, n.caches[b], now)
}
func (n *numbered) Merge(p Placement, b int, now time.Time) { n.Table.Merge(p, n.caches[b], now) }
func (n *numbered) Remove(parts []Part, b int)              { n.Table.Remove(parts, n.caches[b]) }
func (n *numbered) Push(b, tokens int)                      { n.Table.Push(n.caches[b], tokens) }
func (n *numbered) Forget(b int)                            { n.caches[b].Forget() }
func (n *numbered) Placed(b int) float64                    { return n.caches[b].Placed() }

// prompt names the parts of a prompt: a system prompt and a conversation.
func prompt(system, conversation int) []Part {
	return []Part{{Key(Mix(uint64(system)) | 1), 0.5}, {Key(Mix(uint64(conversation)+1<<32) | 1), 1}}
}

// found is what Find tells, the most of each backend, and which are main places.
func found(t *numbered, parts []Part, prompt int) (warm map[int]int, main map[int]bool) {
	warm, main = map[int]int{}, map[int]bool{}
	t.Find(parts, prompt, func(c *Cache, tokens int, m bool) {
		b := c.Index
		if tokens > warm[b] {
			warm[b], main[b] = tokens, m
		}
	})
	return warm, main
}

// check fails where the table is not what it says it is.
func check(t testing.TB, table *numbered) {
	t.Helper()
	sums := map[*Cache]float64{}
	for at := table.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		if table.entries[e.key] != at {
			t.Fatal("the order and the map have parted")
		}
		if len(e.places) > maxPlaces {
			t.Fatalf("%d places of one part", len(e.places))
		}
		seen := map[*Cache]bool{}
		for _, p := range e.places {
			if seen[p.cache] {
				t.Fatal("a part is twice on one backend")
			}
			seen[p.cache] = true
			if p.life == p.cache.life {
				sums[p.cache] += p.own
			}
		}
	}
	if n := table.order.Len(); n != len(table.entries) || n > table.maxEntries {
		t.Fatalf("%d in order, %d in the map, %d at most", n, len(table.entries), table.maxEntries)
	}
	for b, c := range table.caches {
		if placed := c.Placed(); math.Abs(placed-sums[c]) > 1e-6*(1+sums[c]) || placed < -1e-6 {
			t.Fatalf("%v tokens are placed on backend %d, its places sum to %v", placed, b, sums[c])
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
				placements = table.Place(placements[:0], parts, rng.IntN(8000), backend, now)
			case op < 80:
				placement := Placement{Key: parts[op%2].Key, Tokens: rng.IntN(9000) - 100, Own: rng.IntN(5000) - 100, Cold: op%3 == 0}
				table.Merge(placement, backend, now)
			case op < 88:
				table.Remove(parts, backend)
			case op < 90:
				table.Forget(backend)
			case op < 91:
				table.Forget(backend)
				table.caches[backend] = NewCache(fmt.Sprint(rng.Uint64()))
			case op < 92:
				table.Rescale(0.5 + rng.Float64())
			case op < 94:
				table.Push(backend, rng.IntN(1000)-10)
			case op < 95:
				table.caches[backend].SetCapacity(rng.IntN(100_000))
			default:
				now = now.Add(time.Duration(rng.ExpFloat64() * float64(time.Minute)))
			}
			check(t, table)
		}
	}
}

func TestWhatNobodyAsksForCountsNoMoreAfterFiveMinutesAndIsGoneAfterAnHour(t *testing.T) {
	table := tableOf(1000, 1, 0)
	table.Place(nil, prompt(1, 1), 4000, 0, start)
	table.Place(nil, nil, 0, 0, start.Add(fresh-time.Second))
	if table.Placed(0) != 4000 {
		t.Errorf("before: %v", table.Placed(0))
	}
	table.Place(nil, nil, 0, 0, start.Add(fresh))
	if warm, _ := found(table, prompt(1, 1), 4000); table.Placed(0) != 0 || warm[0] != 4000 {
		t.Errorf("after five minutes: %v placed, %v warm", table.Placed(0), warm)
	}
	table.Place(nil, prompt(1, 1), 4000, 0, start.Add(fresh))
	if table.Placed(0) != 4000 {
		t.Errorf("used again: %v", table.Placed(0))
	}
	table.Place(nil, nil, 0, 0, start.Add(fresh+life))
	if warm, _ := found(table, prompt(1, 1), 4000); len(warm) > 0 || len(table.entries) > 0 {
		t.Errorf("after an hour: %v", warm)
	}
}

func TestTheLeastRecentlyUsedPartAndTheSeventeenthPlaceMakeRoom(t *testing.T) {
	table := tableOf(10, 20, 0)
	for i := range 10 {
		table.Place(nil, prompt(i, i)[1:], 1000, 0, start.Add(time.Duration(i)))
	}
	table.Place(nil, prompt(0, 0)[1:], 1000, 0, start.Add(20)) // used again
	table.Place(nil, prompt(0, 99)[1:], 1000, 0, start.Add(30))
	for i, want := range []bool{true, false, true} {
		if warm, _ := found(table, prompt(i, i)[1:], 1000); (len(warm) > 0) != want {
			t.Errorf("part %d: %v, want %v", i, warm, want)
		}
	}
	for b := range 20 {
		table.Place(nil, prompt(0, 0)[1:], 1000, b, start.Add(time.Second+time.Duration(b)))
	}
	warm, _ := found(table, prompt(0, 0)[1:], 1000)
	if _, first := warm[0]; len(warm) != maxPlaces || first {
		t.Errorf("%d places, %v", len(warm), warm)
	}
	check(t, table)
}

func TestWhatIsComputedPushesOlderPartsOutTailFirst(t *testing.T) {
	table := tableOf(10, 1, 10_000)
	table.Place(nil, prompt(0, 1)[1:], 4000, 0, start)
	for _, c := range []struct{ push, want int }{{6000, 4000}, {1000, 3000}, {2500, 500}, {600, 0}} {
		table.Push(0, c.push)
		if warm, _ := found(table, prompt(0, 1)[1:], 4000); warm[0] != c.want {
			t.Errorf("%d more: %v, want %d", c.push, warm, c.want)
		}
	}
	placements := table.Place(nil, prompt(0, 1)[1:], 4000, 0, start.Add(time.Second))
	if len(placements) != 1 || !placements[0].Cold {
		t.Errorf("what was pushed out is cold: %+v", placements)
	}
}

func TestForgetLeaveAndRescale(t *testing.T) {
	table := tableOf(100, 3, 100_000)
	for b := range 3 {
		table.Place(nil, prompt(1, 1), 4000, b, start)
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
	check(t, table)
	// A new life is warm again.
	table.Place(nil, prompt(1, 1), 4000, 1, start)
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
	table.Place(nil, parts, 1000, first, start)
	table.Place(nil, parts, 1000, home, start.Add(together+time.Millisecond))
	table.Place(nil, parts, 1000, second, start.Add(5*time.Second))
	if got := mainOf(); got != first {
		t.Errorf("main is %d, want the first, %d", got, first)
	}
	table.Forget(first)
	if got := mainOf(); got != home {
		t.Errorf("main is %d, want the next, %d", got, home)
	}
	other := tableOf(100, 3, 0)
	other.Place(nil, parts, 1000, second, start)
	other.Place(nil, parts, 1000, home, start.Add(together))
	table = other
	if got := mainOf(); got != home {
		t.Errorf("main is %d, want that nearest home, %d", got, home)
	}
}

func TestAReplicaThatHearsFindsWhatTheOneThatPlacedFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	here, there := tableOf(5000, 8, 0), tableOf(5000, 8, 0)
	now, tellings := start, 0
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
		for _, placement := range here.Place(nil, parts, lengths[conversation], b, now) {
			there.Merge(placement, b, heard)
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
		n += len(table.Place(nil, prompt(0, 1)[1:], 1000, 0, start.Add(time.Duration(s)*time.Second)))
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
