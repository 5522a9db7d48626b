package vllmsim

import (
	"testing"
	"time"
)

// cached is how many tokens of a prompt would be found in the cache now. It changes nothing.
func cached(s *Scheduler, q *Seq) int {
	again := &Seq{Salt: q.Salt, ids: q.Prompt}
	again.hashTo(len(q.Prompt) - 1)
	run, _ := s.pool.match(again.hashes)
	return len(run) * BlockSize
}

// noRead is seq with its prompt's logprobs wanted.
func noRead(first int32, n int, out int32) *Seq {
	q := seq(first, n, out)
	q.NoCacheRead = true
	return q
}

// join makes a sequence that ends with its first token, of prompts one after the other.
func join(parts ...*Seq) *Seq {
	q := &Seq{Source: &counter{left: 1}}
	for _, p := range parts {
		q.Prompt = append(q.Prompt, p.Prompt...)
	}
	return q
}

// lookups are the tokens asked for and found.
func lookups(s *Scheduler) [2]int { return [2]int{s.Counts().PrefixQueries, s.Counts().PrefixHits} }

// W has 4 full blocks and 6 tokens. Q is the same for 50 tokens, 3 full blocks and 2 tokens, then differs for 30:
// 80-48 = 32 are computed.
func TestAHitIsTheLongestRunOfFullBlocks(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	serve(s, &now, seq(0, 70, 1))
	q := join(seq(0, 50, 1), seq(5000, 30, 1))
	s.Add(q, now)
	expect(t, "the rest", step(s, &now), []int{32})
	expect(t, "cached", q.Cached, 48)
	expect(t, "queries and hits", lookups(s), [2]int{70 + 80, 48})
}

// All 4 blocks of 64 tokens are cached. The last token is always computed, and with it its block: of 64 tokens 3 blocks
// are hits, of 65 all 4 and one token is left, of 16 none, of 17 one.
func TestTheLastTokenIsAlwaysComputed(t *testing.T) {
	for n, want := range map[int]int{64: 16, 65: 1, 63: 15, 17: 1, 16: 16, 1: 1} {
		s, now := small(100, 8, 1000), time.Duration(0)
		serve(s, &now, seq(0, 64, 1))
		s.Add(seq(0, n, 1), now)
		expect(t, "computed", step(s, &now), []int{want})
	}
}

// The blocks X and Y are cached, in this order. Y after Z is another block: 33 tokens are computed.
func TestTheSameBlockAfterAnotherPrefixIsNoHit(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	x, y, z, end := seq(100, 16, 1), seq(200, 16, 1), seq(300, 16, 1), seq(400, 1, 1)
	serve(s, &now, join(x, y))
	s.Add(join(z, y, end), now)
	expect(t, "after Z", step(s, &now), []int{33})
	s.Add(join(y, x, end), now)
	expect(t, "in the other order", step(s, &now), []int{33})
	s.Add(join(x, y, end), now)
	expect(t, "in this order", step(s, &now), []int{1})
}

// The salt is in the hash of the first block, and so in all that follow.
func TestASaltSharesOnlyWithItself(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	serve(s, &now, seq(0, 64, 1))
	for _, c := range []struct {
		salt     uint64
		computed int
	}{{7, 64}, {7, 16}, {8, 64}, {0, 16}} {
		q := seq(0, 64, 1)
		q.Salt = c.salt
		s.Add(q, now)
		expect(t, "computed", step(s, &now), []int{c.computed})
	}
}

// Of 4 blocks three are cached, in the order A, B, C. A is used again, by 17 tokens, with the fourth for its last one.
// Then 48 tokens need 3 blocks: the fourth, which has no content, then B's and C's.
func TestTheLeastRecentlyUsedIsEvicted(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	a, b, c := int32(1000), int32(2000), int32(3000)
	left := func() (out [3]int) {
		for i, first := range []int32{a, b, c} {
			out[i] = cached(s, seq(first, 17, 1))
		}
		return out
	}
	for _, first := range []int32{a, b, c} {
		serve(s, &now, seq(first, 16, 1))
	}
	expect(t, "all are cached", left(), [3]int{16, 16, 16})
	serve(s, &now, seq(a, 17, 1))
	expect(t, "still", left(), [3]int{16, 16, 16})
	serve(s, &now, seq(4000, 32, 1))
	expect(t, "the oldest went", left(), [3]int{16, 0, 16})
	serve(s, &now, seq(5000, 16, 1))
	expect(t, "then the next", left(), [3]int{16, 0, 0})
}

// A runs with 2 of 4 blocks, B takes the others and ends. C needs 3, and waits: A's are not to be had, though the first
// of them is cached.
func TestBlocksInUseAreNotEvicted(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	s.Add(seq(0, 24, 6), now)
	step(s, &now)
	add(s, now, seq(1000, 32, 1), seq(2000, 48, 1))
	expect(t, "two fit", step(s, &now), []int{1, 32})
	expect(t, "one waits", step(s, &now), []int{1})
	expect(t, "A's first block", cached(s, seq(0, 24, 1)), 16)
}

// W leaves 4 cached blocks, all there are. 17 tokens take 2 of them: the last two of W.
func TestTheTailOfAPrefixIsEvictedFirst(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	serve(s, &now, seq(0, 64, 1))
	serve(s, &now, seq(1000, 17, 1))
	expect(t, "the first two are left", cached(s, seq(0, 65, 1)), 32)
}

// Of 3 blocks W leaves 2 cached; Y's 8 tokens take the third and leave it without content. Z takes that one, though
// W's have been free for longer.
func TestBlocksWithoutContentAreReusedFirst(t *testing.T) {
	s, now := small(4, 8, 1000), time.Duration(0)
	serve(s, &now, seq(0, 32, 1))
	serve(s, &now, seq(1000, 8, 1))
	serve(s, &now, seq(2000, 16, 1))
	expect(t, "all of W is left", cached(s, seq(0, 33, 1)), 32)
}

// Two of the same 64 tokens come together: the first is scheduled with all 4 blocks, the second hits 3 in the same step.
// With a budget of 48 A's first 3 blocks are scheduled in one step, and B hits them in the next, beside A's last 16.
func TestBlocksAreSharedAsSoonAsTheirChunkIsScheduled(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	add(s, now, seq(0, 64, 5), seq(0, 64, 5))
	b := s.Step(now)
	expect(t, "in the same step", tokens(b), []int{64, 16})
	expect(t, "before its result", cached(s, seq(0, 65, 1)), 64)
	expect(t, "blocks: 4, and one of the second's own", s.Counts().BlocksUsed, 5)

	s, now = small(100, 8, 48), 0
	add(s, now, seq(0, 64, 5), seq(0, 64, 5))
	expect(t, "the chunk", step(s, &now), []int{48})
	expect(t, "its rest, and the second's", step(s, &now), []int{16, 16})
}

// 20 tokens and 13 generated; the last of these is never computed, so 32 tokens are in 2 full blocks. The next turn
// repeats all 33 and adds 10: 43-32 = 11 are computed.
func TestTheNextTurnHitsWhatWasGenerated(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	turn := seq(0, 20, 13)
	serve(s, &now, turn)
	next := join(&Seq{Prompt: turn.ids}, seq(5000, 10, 1))
	expect(t, "tokens of the next turn", len(next.Prompt), 43)
	s.Add(next, now)
	expect(t, "computed", step(s, &now), []int{11})
	expect(t, "queries and hits", lookups(s), [2]int{20 + 43, 32})
}

// The second waits for a seat during two steps: it is counted when it gets it. That it is not counted again after it
// gave way stands in TestRecomputingPromptAndAnswerIsMostlyAHit.
func TestLookupsAreCountedAtAdmission(t *testing.T) {
	s, now := small(100, 1, 1000), time.Duration(0)
	add(s, now, seq(0, 32, 2), seq(0, 32, 2))
	steps(s, &now, 2)
	expect(t, "while it waits", lookups(s), [2]int{32, 0})
	step(s, &now)
	expect(t, "when it runs", lookups(s), [2]int{64, 16})
	step(s, &now)
	expect(t, "when it has run", lookups(s), [2]int{64, 16})
}

// 64 tokens are computed twice in 4 blocks each, and not counted; who reads the cache then finds 3 of its 4 blocks.
func TestScoringReadsNoCacheButFillsIt(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	add(s, now, noRead(0, 64, 5), noRead(0, 64, 5))
	expect(t, "whole prompts", step(s, &now), []int{64, 64})
	expect(t, "duplicates", levels(s), [4]int{2, 0, 8, 0})
	expect(t, "not counted", lookups(s), [2]int{0, 0})
	s.Add(seq(0, 64, 1), now)
	expect(t, "the next one hits", step(s, &now), []int{1, 1, 16})
	expect(t, "and counts", lookups(s), [2]int{64, 48})
}

// W's 2 blocks are cached, the same 2 are scored into the others of 4. Then 32 other tokens evict W's, which have been
// free for longer: the duplicates are found.
func TestADuplicateIsFoundWhenTheFirstIsEvicted(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	serve(s, &now, seq(0, 32, 1))
	serve(s, &now, noRead(0, 32, 1))
	serve(s, &now, seq(1000, 32, 1))
	expect(t, "the duplicates", cached(s, seq(0, 33, 1)), 32)
	serve(s, &now, seq(2000, 32, 1))
	expect(t, "neither", cached(s, seq(0, 33, 1)), 0)
}

// W's 4 blocks fill the cache. Scoring the same 64 tokens in two chunks takes them all: the second chunk evicts the
// blocks that the first one repeated. Who continues what was scored still finds all of it.
func TestScoringThatEvictsItsOwnPrefixLeavesItFound(t *testing.T) {
	s, now := small(5, 8, 32), time.Duration(0)
	serve(s, &now, seq(0, 64, 1))
	serve(s, &now, noRead(0, 64, 1))
	expect(t, "all of it", cached(s, seq(0, 65, 1)), 64)
}
