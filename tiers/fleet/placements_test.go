package fleet

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/prefix"
)

// placements are n that differ, by backend as they are told.
func placements(n int) []prefix.Placement {
	var placements []prefix.Placement
	for i := range n {
		placements = append(placements, prefix.Placement{Key: prefix.Key(i) << 40, Backend: fmt.Sprint("b", i*7/max(n, 7)), Tokens: 1000 + i, Own: i, Cold: i%2 == 0})
	}
	return placements
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

func TestPlacementsComeBackAsTheyWere(t *testing.T) {
	for _, n := range []int{1, 2, 100, maxPlaced} {
		packed := encodePlacements(placements(n))
		got, err := decodePlacements(nil, packed)
		if err != nil || !cmp.Equal(got, placements(n)) {
			t.Errorf("%d placements: %v, %s", n, err, cmp.Diff(got, placements(n)))
		}
	}
	long := make([]prefix.Placement, maxPlaced)
	for i := range long {
		long[i] = prefix.Placement{Key: math.MaxUint64, Backend: fmt.Sprintf("%0256d", i), Tokens: math.MaxInt32, Own: math.MaxInt32, Cold: true}
	}
	packed := encodePlacements(long)
	if got, err := decodePlacements(nil, packed); err != nil || !cmp.Equal(got, long) {
		t.Errorf("the longest entry, %d bytes: %v", len(packed), err)
	}
}

func TestPlacementsOutOfRangeAreLeftOut(t *testing.T) {
	bad := []prefix.Placement{
		{Key: 1, Tokens: 5, Own: 5},
		{Key: 1, Backend: strings.Repeat("b", maxID+1), Tokens: 5},
		{Key: 1, Backend: "b", Tokens: 5, Own: 6},
		{Key: 1, Backend: "b", Tokens: -5, Own: -6},
		{Key: 1, Backend: "b", Tokens: math.MaxInt32 + 1},
	}
	if packed := encodePlacements(bad); packed != "" {
		t.Errorf("%q", packed)
	}
}

func TestACutOrSpoiltEntryIsNoPlacements(t *testing.T) {
	packed := encodePlacements(placements(20))
	for i := range packed {
		if _, err := decodePlacements(nil, packed[:i]); err == nil {
			t.Errorf("cut after %d bytes it is taken", i)
		}
	}
	before := placements(3)
	for _, bad := range []string{packed + "x", `{"b":[{"k":-1,"n":1}]}`, `{"b":[{"k":1,"n":1,"o":2}]}`, `{"":[{"k":1,"n":1}]}`, strings.Repeat(" ", maxPayload+1)} {
		if got, err := decodePlacements(before, bad); err == nil || !cmp.Equal(got, placements(3)) {
			t.Errorf("%.20q is taken: %v", bad, err)
		}
	}
}

func TestPlacementsAreHeardInOneOrderByAll(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		a, b, c := join(t, o, "a"), join(t, o, "b"), join(t, o, "c")
		ticks(t, a, b, c)
		for i := range 20 {
			a.Place("small", []prefix.Placement{{Key: prefix.Key(2 * i), Backend: "b0", Tokens: 300, Own: 300}})
			b.Place("small", []prefix.Placement{{Key: prefix.Key(2*i + 1), Backend: "b1", Tokens: 300, Own: 300}})
			if i%2 == 0 {
				ticks(t, b, a)
			} else {
				ticks(t, a, b, c)
			}
		}
		ticks(t, a, b, c)
		if n := len(c.small.places()); n != 40 {
			t.Errorf("c heard %d of 40", n)
		}
		only := func(odd prefix.Key) (placements []prefix.Placement) {
			for _, p := range c.small.places() {
				if p.Key%2 == odd {
					placements = append(placements, p)
				}
			}
			return placements
		}
		if diff := cmp.Diff(a.small.places(), only(1)); diff != "" {
			t.Errorf("a heard other than b's: %s", diff)
		}
		if diff := cmp.Diff(b.small.places(), only(0)); diff != "" {
			t.Errorf("b heard other than a's: %s", diff)
		}
		if len(c.large.places()) != 0 {
			t.Error("another pool heard of it")
		}
		d, e := join(t, o, "d"), join(t, o, "e")
		ticks(t, d, e) // which asks for the time
		ticks(t, d, e)
		if diff := cmp.Diff(d.small.places(), e.small.places()); diff != "" || len(d.small.places()) != 40 {
			t.Errorf("two fresh replicas heard %d: %s", len(d.small.places()), diff)
		}
	})
}

func TestAFreshReplicaHearsTheLastMinuteOnce(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		if err := raw.XAdd(t.Context(), &redis.XAddArgs{
			Stream: keyPlaced + "small", ID: fmt.Sprintf("%d-1", time.Now().Add(-2*firstAge).UnixMilli()),
			Values: []any{"by", "x", "said", encodePlacements(placements(1))},
		}).Err(); err != nil {
			t.Fatal(err)
		}
		const n = 20
		a := join(t, o, "a")
		for i := range n {
			a.Place("small", []prefix.Placement{{Key: prefix.Key(i), Backend: "b0", Tokens: 300, Own: 300}})
			ticks(t, a)
		}
		b := join(t, o, "b")
		for range 3 { // the first one asks for the time
			ticks(t, b)
		}
		if placements := b.small.places(); len(placements) != n || placements[0].Key != 0 || placements[n-1].Key != n-1 {
			t.Fatalf("heard %v", placements)
		}
	})
}

func TestPlacementsBeyondTheBoundAreDropped(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a, b := join(t, o, "a"), join(t, o, "b")
	ticks(t, a, b)
	for range 3 {
		a.Place("small", placements(200))
	}
	a.Place("large", placements(3))
	a.Place("nowhere", placements(3))
	ticks(t, a, b)
	if n := len(b.small.places()); n != maxPlaced {
		t.Errorf("%d were heard", n)
	}
	if diff := cmp.Diff(b.large.places(), placements(3)); diff != "" {
		t.Error(diff)
	}
}

func TestALogFarBehindIsReadInBoundedParts(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a, b := join(t, o, "a"), join(t, o, "b")
	ticks(t, b)
	for i := range readEntries + 10 {
		a.Place("small", []prefix.Placement{{Key: prefix.Key(i), Backend: "b0", Tokens: 300, Own: 300}})
		ticks(t, a)
	}
	ticks(t, b)
	if n := len(b.small.places()); n != readEntries {
		t.Errorf("%d entries were read in one tick", n)
	}
	ticks(t, b)
	placements := b.small.places()
	if len(placements) != readEntries+10 || placements[len(placements)-1].Key != readEntries+9 {
		t.Errorf("%d entries were read in two", len(placements))
	}
}

func TestForeignEntriesOfALogAreSkippedAndCounted(t *testing.T) {
	stores(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		a, b := join(t, o, "a"), join(t, o, "b")
		ticks(t, a, b)
		for _, values := range [][]any{{"banana", "1"}, {"by", "x"}, {"by", "x", "said", "[1]"}} {
			if err := raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keyPlaced + "small", Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		a.Place("small", placements(5))
		ticks(t, a, b)
		ticks(t, a, b)
		if diff := cmp.Diff(b.small.places(), placements(5)); diff != "" {
			t.Error(diff)
		}
		if b.count(errPlaced) != 1 || b.log.count("of no use") != 1 {
			t.Errorf("%d ticks counted, %d logged", b.count(errPlaced), b.log.count("of no use"))
		}
	})
}

func FuzzDecodePlacements(f *testing.F) {
	for _, n := range []int{1, 5, 50} {
		packed := encodePlacements(placements(n))
		f.Add(packed)
	}
	f.Add(`{"b":[{"k":18446744073709551615,"n":2147483647,"o":1,"c":true}],"a":[]}`)
	f.Fuzz(func(t *testing.T, packed string) {
		placements, err := decodePlacements(nil, packed)
		if err != nil {
			return
		}
		if len(placements) > maxPlaced {
			t.Fatalf("%d placements", len(placements))
		}
		again := encodePlacements(placements)
		same, err := decodePlacements(nil, again)
		if len(placements) > 0 && (err != nil || !cmp.Equal(same, placements)) {
			t.Fatalf("%v became %v, %v", placements, same, err)
		}
	})
}
