package prefix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// engine is a real prefix cache: the simulator's blocks, taken least recently used
// first.
type engine struct {
	sched *vllmsim.Scheduler
	now   time.Duration
}

func newEngine(tokens int) *engine {
	return &engine{sched: vllmsim.NewScheduler(vllmsim.Profile{
		Blocks: tokens/vllmsim.BlockSize + 1, MaxSeqs: 4, MaxBatchedTokens: 8192, Base: 0.01,
	}, vllmsim.SchedulerOptions{})}
}

// answer is a source of so many tokens.
type answer struct{ left, next int32 }

func (a *answer) Next() (int32, bool) {
	a.left--
	a.next++
	return a.next, a.left <= 0
}

// serve computes a prompt and its answer, and tells how many tokens of it were cached.
func (e *engine) serve(prompt []int32, out int32) int {
	q := &vllmsim.Seq{Prompt: prompt, Source: &answer{left: out, next: -1 << 20}}
	e.sched.Add(q, e.now)
	for {
		b := e.sched.Step(e.now)
		if b == nil {
			return q.Cached
		}
		e.sched.Commit(b)
		e.now = b.End
	}
}

// talk is a conversation: a system prompt and turns behind it.
type talk struct {
	system int
	ids    []int32
	number int
}

// traffic makes conversations that take turns.
type traffic struct {
	rng      *rand.Rand
	systems  int // variants of the system prompt
	tokens   int // of it
	question int // tokens of one turn, at most
	turns    int // of a conversation, at most
	open     []*talk
	begun    int
}

// next is the next request: its conversation, grown by a turn.
func (tr *traffic) next() *talk {
	for len(tr.open) < 40 {
		tr.begun++
		k := &talk{number: tr.begun, system: int(math.Pow(tr.rng.Float64(), 2) * float64(tr.systems))}
		for i := range tr.tokens {
			k.ids = append(k.ids, int32(k.system*100_000+i))
		}
		tr.open = append(tr.open, k)
	}
	i := int(math.Pow(tr.rng.Float64(), 1.5) * float64(len(tr.open)))
	k := tr.open[i]
	for range 1 + tr.rng.IntN(tr.question) {
		k.ids = append(k.ids, tr.rng.Int32())
	}
	if tr.rng.IntN(tr.turns) == 0 {
		tr.open = append(tr.open[:i], tr.open[i+1:]...)
	}
	return k
}

func (tr *traffic) parts(k *talk) []Part {
	h := Head{Tenant: "t", First: fmt.Append(nil, k.number)}
	n := 1
	if tr.tokens > 0 {
		h.System = append(make([]byte, 4*tr.tokens-1), byte(k.system))
		n = 2
	}
	parts := h.Parts(4 * len(k.ids))
	return parts[:n]
}

// TestWhatIsThoughtToBeWarmIsWarmInAnEngine drives tables and real caches with the
// same prompts and compares what they find: the mean error must be within a share of
// the mean prompt. Where the cache has room for a few prompts only, a table expects too
// much: an engine needs room for the prompt that it computes, too. It never expects much
// too little.
func TestWhatIsThoughtToBeWarmIsWarmInAnEngine(t *testing.T) {
	for name, c := range map[string]struct {
		tr       traffic
		capacity int
		within   float64
	}{
		"everything fits":               {traffic{systems: 8, tokens: 1000, question: 400, turns: 8}, 2_000_000, 0.02},
		"twice what there is room for":  {traffic{systems: 8, tokens: 1000, question: 400, turns: 8}, 60_000, 0.02},
		"many times that":               {traffic{systems: 8, tokens: 2000, question: 800, turns: 8}, 16_000, 0.20},
		"long contexts, a third fits":   {traffic{systems: 60, tokens: 6000, question: 100, turns: 2}, 150_000, 0.02},
		"no system prompt":              {traffic{tokens: 0, question: 900, turns: 10}, 60_000, 0.01},
		"one too short to be worth it":  {traffic{systems: 8, tokens: 200, question: 500, turns: 10}, 60_000, 0.04},
		"the same, and everything fits": {traffic{systems: 8, tokens: 200, question: 500, turns: 10}, 2_000_000, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			tr := c.tr
			tr.rng = rand.New(rand.NewPCG(1, 2))
			now := time.Unix(1_800_000_000, 0)
			table, at, cache := NewTable(10_000), NewCache("a"), newEngine(c.capacity)
			at.SetCapacity(c.capacity)
			var off, prompts, found, expected float64
			const requests = 1500
			for i := range requests {
				k := tr.next()
				now = now.Add(time.Duration(tr.rng.IntN(100)) * time.Millisecond)
				warm := 0
				table.Find(tr.parts(k), len(k.ids), func(_ *Cache, tokens int, _ bool) { warm = max(warm, tokens) })
				out := 1 + tr.rng.Int32N(50)
				cached := cache.serve(k.ids, out)
				table.Place(nil, tr.parts(k), len(k.ids), at, now)
				table.Push(at, int(out))
				if i < requests/3 {
					continue // both begin empty, which is easy
				}
				off += math.Abs(float64(warm - cached))
				prompts += float64(len(k.ids))
				found += float64(cached)
				expected += float64(warm)
			}
			t.Logf("hits %.3f of the prompts' tokens, expected %.3f, mean error %.3f", found/prompts, expected/prompts, off/prompts)
			if off > c.within*prompts {
				t.Errorf("mean error %.3f of the prompt, want %.3f at most", off/prompts, c.within)
			}
			if expected < found-0.05*prompts {
				t.Errorf("expected %.3f, found %.3f of all prompt tokens", expected/prompts, found/prompts)
			}
		})
	}
}
