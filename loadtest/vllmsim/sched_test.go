package vllmsim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counter is a Source that ends after a number of tokens.
type counter struct{ left, next int32 }

func (c *counter) Next() (int32, bool) {
	c.left--
	c.next++
	return c.next, c.left <= 0
}

// seq makes a sequence of n prompt tokens starting at first, with out tokens to generate.
func seq(first int32, n int, out int32) *Seq {
	q := &Seq{Source: &counter{left: out, next: 1000 + first}}
	for i := range int32(n) {
		q.Prompt = append(q.Prompt, first+i)
	}
	return q
}

func small(blocks, seqs, budget int) *Scheduler {
	return NewScheduler(Profile{Blocks: blocks, MaxSeqs: seqs, MaxBatchedTokens: budget, Base: 0.01,
		PerPrefillToken: 0.001, PerSeq: 0.002}, SchedulerOptions{})
}

// tokens is what a batch computes, per sequence in order.
func tokens(b *Batch) []int {
	var out []int
	if b != nil {
		for _, it := range b.Items {
			out = append(out, it.Tokens)
		}
	}
	return out
}

// step runs one step and returns what it computed.
func step(s *Scheduler, now *time.Duration) []int {
	b := s.Step(*now)
	if b != nil {
		s.Commit(b)
		*now = b.End
	}
	return tokens(b)
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestALongPromptIsChunkedAroundRunningDecodes(t *testing.T) {
	s, now := small(100, 8, 32), time.Duration(0)
	s.Add(seq(0, 20, 10), now)
	s.Add(seq(5000, 70, 10), now)
	expect(t, "first step fills the budget", step(s, &now), []int{20, 12})
	expect(t, "its time", now, 42*time.Millisecond)
	expect(t, "decode first, then the chunk", step(s, &now), []int{1, 31})
	expect(t, "again, the rest", step(s, &now), []int{1, 27})
	expect(t, "both decode", step(s, &now), []int{1, 1})
}

func TestSeatsLimitHowManyRun(t *testing.T) {
	s, now := small(100, 2, 1000), time.Duration(0)
	for i := range int32(3) {
		s.Add(seq(i*1000, 16, 2), now)
	}
	expect(t, "two are seated", step(s, &now), []int{16, 16})
	expect(t, "one waits", s.Counts().Waiting, 1)
	step(s, &now)
	expect(t, "the third follows", step(s, &now), []int{16})
}

func TestTheHeadOfTheQueueHoldsUpWhoWouldFit(t *testing.T) {
	s, now := small(11, 8, 1000), time.Duration(0) // 10 usable blocks
	s.Add(seq(0, 96, 50), now)                     // 6 blocks
	s.Add(seq(1000, 80, 5), now)                   // 5 blocks: does not fit
	s.Add(seq(2000, 16, 5), now)                   // would fit
	expect(t, "only the first", step(s, &now), []int{96})
	expect(t, "two wait", s.Counts().Waiting, 2)
}

func TestPrefixHitsAreCountedOnceAndSkipTheCachedBlocks(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	s.Add(seq(0, 64, 1), now)
	step(s, &now)
	q := seq(0, 64, 1)
	s.Add(q, now)
	// All four blocks are cached, but the last token must be computed again: one whole block is.
	expect(t, "one block computed", step(s, &now), []int{16})
	expect(t, "hits", [2]int{s.Counts().PrefixQueries, s.Counts().PrefixHits}, [2]int{128, 48})
	expect(t, "cached", q.Cached, 48)
	salted := seq(0, 64, 1)
	salted.Salt = 7
	s.Add(salted, now)
	expect(t, "another salt shares nothing", step(s, &now), []int{64})
}

func TestScoringReadsNoCacheButFillsIt(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	for range 2 {
		q := seq(0, 64, 1)
		q.NoCacheRead = true
		s.Add(q, now)
		expect(t, "the whole prompt", step(s, &now), []int{64})
	}
	expect(t, "not counted", s.Counts().PrefixQueries, 0)
	s.Add(seq(0, 64, 1), now)
	expect(t, "the next one hits", step(s, &now), []int{16})
}

func TestWhenBlocksRunOutTheNewestIsRecomputed(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0) // 4 usable blocks
	first, second := seq(0, 32, 20), seq(1000, 32, 20)
	s.Add(first, now)
	s.Add(second, now)
	expect(t, "both fit", step(s, &now), []int{32, 32})
	expect(t, "the second gives way", step(s, &now), []int{1})
	c := s.Counts()
	expect(t, "counts", []int{c.Running, c.Waiting, c.Preemptions}, []int{1, 1, 1})
	for first.state != seqDone {
		step(s, &now)
	}
	// The second comes back with 32 prompt tokens and one generated; its first block survived in the cache or not, but
	// the prompt is not counted as a lookup again.
	queries := s.Counts().PrefixQueries
	for second.state != seqDone {
		step(s, &now)
	}
	expect(t, "lookups", s.Counts().PrefixQueries, queries)
	expect(t, "generated", second.Generated(), 20)
	expect(t, "all free", s.Counts().BlocksUsed, 0)
}

func TestPriorityOrdersTheQueueAndChoosesTheVictim(t *testing.T) {
	s, now := small(5, 1, 1000), time.Duration(0)
	s.priority = true
	low, high := seq(0, 16, 2), seq(1000, 16, 2)
	low.Priority, high.Priority = 5, -5
	s.Add(low, now)
	s.Add(high, now)
	step(s, &now)
	expect(t, "the urgent one runs", [2]seqState{high.state, low.state}, [2]seqState{seqRunning, seqWaiting})

	s, now = small(5, 8, 1000), 0 // 4 usable blocks
	s.priority = true
	low, high = seq(0, 16, 40), seq(1000, 16, 40)
	low.Priority = 5
	s.Add(low, now)
	step(s, &now)
	s.Add(high, now)
	for s.Counts().Preemptions == 0 {
		step(s, &now)
	}
	expect(t, "the unimportant one gave way", [2]seqState{high.state, low.state}, [2]seqState{seqRunning, seqWaiting})
}

// However requests come, go and leave, blocks are neither lost nor given out twice.
func TestBlocksAreNeverLost(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, now := small(12+r.IntN(30), 1+r.IntN(6), 8+r.IntN(64)), time.Duration(0)
		s.priority = seed%2 == 1
		room := (s.pool.usable() - 1) * blockSize
		var live []*Seq
		for range 200 {
			switch r.IntN(4) {
			case 0, 1:
				n := 1 + r.IntN(room/2)
				q := seq(int32(r.IntN(3)*1000), n, int32(1+r.IntN(room/2)))
				q.NoCacheRead, q.Priority = r.IntN(5) == 0, int64(r.IntN(3))
				s.Add(q, now)
				live = append(live, q)
			case 2:
				if len(live) > 0 {
					s.Abort(live[r.IntN(len(live))])
				}
			}
			step(s, &now)
			checkBlocks(t, s)
		}
		for s.Counts().Running+s.Counts().Waiting > 0 {
			if step(s, &now) == nil {
				t.Fatalf("seed %d: stuck with %+v", seed, s.Counts())
			}
			checkBlocks(t, s)
		}
		expect(t, "blocks in use at the end", s.Counts().BlocksUsed, 0)
	}
}

func checkBlocks(t *testing.T, s *Scheduler) {
	t.Helper()
	refs := make([]int32, len(s.pool.blocks))
	for _, q := range s.running {
		for _, b := range q.blocks {
			refs[b]++
		}
		if q.computed > len(q.blocks)*blockSize {
			t.Fatalf("%d tokens computed in %d blocks", q.computed, len(q.blocks))
		}
	}
	free := 0
	for i := s.pool.blocks[0].next; i != 0; i = s.pool.blocks[i].next {
		free++
		if refs[i] != 0 {
			t.Fatalf("block %d is free and held", i)
		}
	}
	held := 0
	for i, n := range refs[1:] {
		if s.pool.blocks[i+1].ref != n {
			t.Fatalf("block %d has %d references, counts %d", i+1, n, s.pool.blocks[i+1].ref)
		}
		if n > 0 {
			held++
		}
	}
	if free != s.pool.free || free+held != s.pool.usable() {
		t.Fatalf("%d free (counted %d) and %d held of %d", free, s.pool.free, held, s.pool.usable())
	}
	for h, i := range s.pool.byHash {
		if s.pool.blocks[i].hash != h {
			t.Fatalf("the index holds block %d under a hash that it lost", i)
		}
	}
}
