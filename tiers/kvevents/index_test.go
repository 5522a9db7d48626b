package kvevents

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func ids(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i * 7)
	}
	return out
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestAChainTellsPromptsApartFromTheirFirstDifference(t *testing.T) {
	a := Chain(nil, ids(70), 16, "")
	expect(t, "full blocks", len(a), 4)
	expect(t, "a prefix", Chain(nil, ids(33), 16, ""), a[:2])
	expect(t, "appended", Chain([]uint64{1}, ids(33), 16, "")[1:], a[:2])
	other := ids(70)
	other[20]++
	b := Chain(nil, other, 16, "")
	expect(t, "before it", b[0], a[0])
	for i, chain := range [][]uint64{b[1:], Chain(nil, ids(70), 16, "s"), Chain(nil, ids(70), 8, "")} {
		for _, h := range chain {
			if slices.Contains(a, h) {
				t.Errorf("chain %d has a hash of another", i)
			}
		}
	}
	expect(t, "blocks of none", Chain(nil, ids(70), 0, ""), []uint64(nil))
}

// fed is an index with a backend whose only feed has said these events from the beginning.
func fed(t *testing.T, o Options, events ...any) (*Index, *backend, *feed) {
	t.Helper()
	x := New(o)
	b, f := x.join("b")
	x.set(b, f, true, true)
	say(t, x, b, f, events...)
	return x, b, f
}

func say(t *testing.T, x *Index, b *backend, f *feed, events ...any) {
	t.Helper()
	var ev event
	if err := decode(batch(t, events...), &ev, func(ev *event) { x.apply(b, f, ev) }); err != nil {
		t.Fatal(err)
	}
}

// cached is what Cached says of blocks of one token.
func cached(x *Index, salt string, tokens ...int32) string {
	n, known := x.Cached("b", Chain(nil, tokens, 1, salt))
	return fmt.Sprint(n, " ", known)
}

func removed(hashes ...any) obj {
	return obj{"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"}
}

func TestBlocksAreKnownFromTheFirstOnUntilTheyAreRemoved(t *testing.T) {
	x, b, f := fed(t, Options{}, stored([]uint64{10, 20}, nil, []int{1, 2}, nil), stored([]uint64{30}, 20, []int{3}, nil))
	expect(t, "all", cached(x, "", 1, 2, 3, 4), "3 true")
	expect(t, "another prompt", cached(x, "", 2, 3), "0 true")
	expect(t, "another salt", cached(x, "s", 1, 2), "0 true")
	expect(t, "block size", x.BlockSize("b"), 1)
	say(t, x, b, f, removed(20))
	expect(t, "a hole", cached(x, "", 1, 2, 3), "1 true")
	say(t, x, b, f, stored([]uint64{20}, 10, []int{2}, nil))
	expect(t, "filled again", cached(x, "", 1, 2, 3), "3 true")
	say(t, x, b, f, obj{"type": "AllBlocksCleared"})
	expect(t, "cleared", cached(x, "", 1), "0 true")
	say(t, x, b, f, stored([]uint64{11}, nil, []int{1}, obj{"extra_keys": arr{arr{"s"}}}))
	expect(t, "salted", cached(x, "s", 1), "1 true")
	expect(t, "without", cached(x, "", 1), "0 true")
	x.Forget("b")
	expect(t, "forgotten", cached(x, "s", 1), "0 false")
	x.leave("b", f)
	expect(t, "gone", cached(x, "s", 1), "0 false")
	expect(t, "nothing is left", len(x.backends), 0)
	x.Forget("b")
	expect(t, "block size", x.BlockSize("b"), 0)
}

func TestNoMoreBlocksAreKeptThanMost(t *testing.T) {
	reg := prometheus.NewRegistry()
	x, b, f := fed(t, Options{MaxBlocks: 2, Registerer: reg}, stored([]uint64{1, 2, 3}, nil, []int{1, 2, 3}, nil))
	expect(t, "the first two", cached(x, "", 1, 2, 3), "2 true")
	_, g := x.join("b")
	say(t, x, b, g, stored([]uint64{9}, nil, []int{9}, nil), stored([]uint64{10}, 9, []int{9}, nil), stored([]uint64{1}, nil, []int{1}, obj{"medium": "CPU"}))
	say(t, x, b, f, removed(2), removed(99))
	say(t, x, b, f, stored([]uint64{4, 5}, nil, []int{4, 5}, obj{"block_size": 1, "type": "BlockStored"}))
	expect(t, "kept", b.blocks, 2)
	want := `# HELP foregate_kv_events_total KV events of backends by what they came to; gap and bad count messages.
# TYPE foregate_kv_events_total counter
foregate_kv_events_total{kind="bad"} 0
foregate_kv_events_total{kind="cleared"} 0
foregate_kv_events_total{kind="foreign"} 1
foregate_kv_events_total{kind="full"} 3
foregate_kv_events_total{kind="gap"} 0
foregate_kv_events_total{kind="orphan"} 1
foregate_kv_events_total{kind="removed"} 2
foregate_kv_events_total{kind="stored"} 0
# HELP foregate_kv_index_blocks KV blocks that backends are known to have.
# TYPE foregate_kv_index_blocks gauge
foregate_kv_index_blocks 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	x.leave("b", f)
	x.leave("b", g)
	expect(t, "blocks left", testutil.ToFloat64(x.met.blocks), 0.0)
}

func TestTheLongestRunOfAnyRankCounts(t *testing.T) {
	x, b, f := fed(t, Options{}, stored([]uint64{1, 2}, nil, []int{1, 2}, nil))
	_, g := x.join("b")
	expect(t, "a rank that is down", cached(x, "", 5), "0 false")
	expect(t, "yet what the other has", cached(x, "", 1, 2, 3), "2 true")
	x.set(b, g, true, true)
	say(t, x, b, g, stored([]uint64{1, 2, 3}, nil, []int{1, 2, 3}, nil))
	expect(t, "both", cached(x, "", 1, 2, 3), "3 true")
	expect(t, "neither", cached(x, "", 5), "0 true")
	x.set(b, f, true, false)
	expect(t, "one began in the middle", cached(x, "", 5), "0 false")
	// Blocks of another size are of no use where the first were of this one.
	say(t, x, b, g, stored([]uint64{8}, nil, []int{8, 9}, obj{"block_size": 2}))
	expect(t, "others", b.blocks, 3)
}

func TestAskingAllocatesNothing(t *testing.T) {
	x, _, _ := fed(t, Options{}, stored([]uint64{1, 2}, nil, []int{1, 2}, nil))
	chain := Chain(nil, []int32{1, 2, 3}, 1, "")
	if n := testing.AllocsPerRun(100, func() { x.Cached("b", chain); x.Cached("c", chain) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkCached(b *testing.B) {
	x := New(Options{})
	be, f := x.join("b")
	x.set(be, f, true, true)
	tokens := ids(16 * 512)
	ev := event{kind: kindStored, blockSize: 16, tokens: tokens}
	for i := range 512 {
		ev.hashes = append(ev.hashes, uint64(i))
	}
	x.apply(be, f, &ev)
	chain := Chain(nil, tokens, 16, "")
	for b.Loop() {
		x.Cached("b", chain)
	}
}
