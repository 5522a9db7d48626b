package vllmsim

import (
	"slices"
	"testing"
	"time"
)

// urgent makes a small scheduler of the priority policy.
func urgent(blocks, seqs, budget int) *Scheduler {
	s := small(blocks, seqs, budget)
	s.priority = true
	return s
}

// withPriority is seq with a priority; lower is earlier.
func withPriority(p int64, q *Seq) *Seq {
	q.Priority = p
	return q
}

// A takes 6 of 10 blocks, so B's 5 do not fit; C's one would, but stands behind B.
func TestTheHeadOfTheQueueHoldsUpWhoWouldFit(t *testing.T) {
	s, now := small(11, 8, 1000), time.Duration(0)
	a, b, c := seq(0, 90, 50), seq(1000, 80, 5), seq(2000, 16, 5)
	add(s, now, a, b, c)
	expect(t, "only the first", step(s, &now), []int{90})
	expect(t, "two wait", levels(s), [4]int{1, 2, 6, 0})
	expect(t, "in the next step too", step(s, &now), []int{1})
	s.Abort(b)
	expect(t, "without the head", step(s, &now), []int{1, 16})
}

// A holds 2 of 5 blocks, and still does after its decode (32 tokens). B's first chunk of 16 tokens would need one of the
// 3 that are left, but its whole prompt of 64 needs 4. With A's 32 tokens at its beginning it shares the 2 that A holds
// and needs 2; A's decode takes one (33 tokens), and then there are just these.
func TestAWholePromptMustFitMinusWhatIsCached(t *testing.T) {
	s, now := small(6, 8, 17), time.Duration(0)
	s.Add(seq(0, 31, 10), now)
	steps(s, &now, 2)
	s.Add(seq(1000, 64, 10), now)
	expect(t, "the decode alone", step(s, &now), []int{1})
	expect(t, "the other waits", levels(s), [4]int{1, 1, 2, 0})

	s, now = small(6, 8, 32), 0
	s.Add(seq(0, 32, 10), now)
	step(s, &now)
	s.Add(seq(0, 64, 10), now)
	expect(t, "who shares fits", step(s, &now), []int{1, 31})
	expect(t, "all are used", levels(s), [4]int{2, 0, 5, 0})
}

// Of 4 blocks W left 2 in the cache and A holds one. B, 33 tokens that begin like W, needs 3: 2 hits and one more. The
// 3 free ones are those 2 and one. A prompt of 49 needs 4: the same hits and 2 more, and there is one.
func TestBlocksThatAreHitCannotBeTakenToo(t *testing.T) {
	for n, want := range map[int][]int{33: {1, 1}, 49: {1}} {
		s, now := small(5, 8, 1000), time.Duration(0)
		serve(s, &now, seq(0, 32, 1))
		s.Add(seq(1000, 8, 7), now)
		step(s, &now)
		s.Add(seq(0, n, 5), now)
		expect(t, "after a decode", step(s, &now), want)
	}
}

// 64 tokens are exactly 4 blocks: nothing has to be left for the answer. Four prompts of 16 fill them too, though each
// wants to generate 30 tokens, which is 2 or 3 blocks.
func TestTheAnswerIsNeverReserved(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	s.Add(seq(0, 64, 1), now)
	expect(t, "the whole cache", step(s, &now), []int{64})
	for i := range int32(4) {
		s.Add(seq(5000+1000*i, 16, 30), now)
	}
	expect(t, "all at once", step(s, &now), []int{16, 16, 16, 16})
	expect(t, "the cache is full", levels(s), [4]int{4, 0, 4, 0})
}

// Of 11 blocks one is never handed out: with A's 3 used, usage is 1 - 7/(11-1) = 0.3. B's 112 tokens take the 7 that are
// free, and one token more has to wait.
func TestTheNullBlockIsNeitherHandedOutNorCounted(t *testing.T) {
	s, now := small(11, 8, 1000), time.Duration(0)
	a, b := seq(0, 47, 5), seq(1000, 112, 5)
	s.Add(a, now)
	step(s, &now)
	c := s.Counts()
	expect(t, "used, of all, free", []int{c.BlocksUsed, c.BlocksTotal, s.pool.free}, []int{3, 10, 7})
	expect(t, "usage", float64(c.BlocksUsed)/float64(c.BlocksTotal), 0.3)
	add(s, now, b, seq(2000, 1, 5))
	expect(t, "B fits", step(s, &now), []int{1, 112})
	expect(t, "all are used", levels(s), [4]int{2, 1, 10, 0})
	expect(t, "the null block among them", slices.Contains(slices.Concat(a.blocks, b.blocks), 0), false)
}

// 15 tokens in one block; decodes compute tokens 16, 17, ... The 17th opens the second block, the 33rd the third.
func TestABlockIsAddedExactlyWhenAMultipleOf16IsCrossed(t *testing.T) {
	s, now := small(11, 8, 1000), time.Duration(0)
	q := seq(0, 15, 30)
	s.Add(q, now)
	var grew []int
	for used := 0; q.state != seqDone; {
		step(s, &now)
		if n := s.Counts().BlocksUsed; n > used {
			grew, used = append(grew, q.computed), n
		}
	}
	expect(t, "tokens computed when a block was added", grew, []int{15, 17, 33})
}

// Three of 2 full blocks fill 6. A's decode needs a block: C, the last admitted, gives its 2 back. A and B take them.
func TestTheLastAdmittedGivesWayUnderFCFS(t *testing.T) {
	s, now := small(7, 8, 1000), time.Duration(0)
	a, b, c := seq(0, 32, 20), seq(1000, 32, 20), withPriority(-9, seq(2000, 32, 20)) // priorities do not count
	add(s, now, a, b, c)
	expect(t, "all three fit", step(s, &now), []int{32, 32, 32})
	expect(t, "two decode", step(s, &now), []int{1, 1})
	expect(t, "levels", levels(s), [4]int{2, 1, 6, 1})
	expect(t, "the last waits, with nothing", []any{same(s.waiting, c), c.computed, len(c.blocks)}, []any{true, 0, 0})
}

// A holds 2 blocks; B and C, of the same prompt, share A's first and have one each: 4, all there are. A's decode takes
// C's. Then there is none for B and nobody behind it: B gives way itself. D came before that, and stays behind them.
func TestThePreemptedGoToTheFrontInTheirOrder(t *testing.T) {
	s, now := small(5, 3, 1000), time.Duration(0)
	a, b, c, d := seq(0, 32, 20), seq(0, 32, 20), seq(0, 32, 20), seq(3000, 16, 20)
	add(s, now, a, b, c, d)
	expect(t, "three seats", step(s, &now), []int{32, 16, 16})
	expect(t, "all blocks", levels(s), [4]int{3, 1, 4, 0})
	expect(t, "one decodes", step(s, &now), []int{1})
	expect(t, "two gave way", levels(s), [4]int{1, 3, 3, 2})
	expect(t, "the queue", same(s.waiting, b, c, d), true)
}

// A and B reach token 49 together, each needs its 4th block, and all 6 are used: B gives its 3 back, and A takes the
// last of them. B's first two stay cached. A ends with that step, and B, with 16 prompt tokens and 33 generated,
// computes 49-32 = 17 again.
func TestRecomputingPromptAndAnswerIsMostlyAHit(t *testing.T) {
	s, now := small(7, 8, 1000), time.Duration(0)
	a, b := seq(0, 16, 34), seq(1000, 16, 40)
	add(s, now, a, b)
	for s.Counts().Preemptions == 0 {
		step(s, &now)
	}
	expect(t, "at the 34th step", []any{s.Counts().Steps, a.Generated(), b.Generated()}, []any{34, 34, 33})
	scheduled := b.Scheduled
	queries := s.Counts().PrefixQueries
	expect(t, "the rest is computed again", step(s, &now), []int{17})
	expect(t, "and the next token comes", b.Generated(), 34)
	expect(t, "scheduled and looked up only once", []any{b.Scheduled, s.Counts().PrefixQueries, b.Cached}, []any{scheduled, queries, 0})
	for b.state != seqDone {
		step(s, &now)
	}
	expect(t, "all its tokens, its prompt counted once", []any{b.Generated(), s.Counts().PromptTokens, s.Counts().GeneratedTokens}, []any{40, 32, 74})
	expect(t, "all free", s.Counts().BlocksUsed, 0)
}

// The same, but B's prompt is scored: nothing is read from the cache, all 49 tokens are computed again.
func TestAPreemptedScoringIsRecomputedWhole(t *testing.T) {
	s, now := small(7, 8, 1000), time.Duration(0)
	b := seq(1000, 16, 40)
	b.NoCacheRead = true
	add(s, now, seq(0, 16, 34), b)
	for s.Counts().Preemptions == 0 {
		step(s, &now)
	}
	expect(t, "everything", step(s, &now), []int{49})
}

// One seat: the queue is by priority, then arrival, then order of adding.
func TestThePriorityQueueIsByPriorityThenArrival(t *testing.T) {
	s := urgent(100, 1, 1000)
	low, high, early, tie := withPriority(5, seq(0, 16, 1)), withPriority(-5, seq(1000, 16, 1)), seq(2000, 16, 1), seq(3000, 16, 1)
	late := seq(4000, 16, 1)
	add(s, 10, low, high, late)
	add(s, 5, early, tie)
	expect(t, "the queue", same(s.waiting, high, early, tie, late, low), true)
}

// The more urgent one waits for the seat and does not lose its turn to who came before it.
func TestAMoreUrgentArrivalEvictsNobodyForASeat(t *testing.T) {
	s, now := urgent(100, 1, 1000), time.Duration(0)
	low, next, high := withPriority(5, seq(0, 16, 3)), withPriority(5, seq(1000, 16, 3)), withPriority(-5, seq(2000, 16, 3))
	add(s, now, low, next)
	step(s, &now)
	s.Add(high, now)
	expect(t, "the running one decodes", steps(s, &now, 2), []int{1})
	expect(t, "to its end", []any{low.state, s.Counts().Preemptions}, []any{seqDone, 0})
	step(s, &now)
	expect(t, "then the urgent one", []any{same(s.running, high), same(s.waiting, next)}, []any{true, true})
}

// Admitted one after the other, so that all reach 32 tokens, 2 full blocks of 6, in the third step. In the fourth A
// needs a block. C is the last admitted, but the most urgent; A and B are equal, and B came later. A and C take B's.
func TestTheLeastUrgentThenLatestGivesWayUnderPriority(t *testing.T) {
	s, now := urgent(7, 8, 1000), time.Duration(0)
	a, b, c := withPriority(1, seq(0, 30, 20)), withPriority(1, seq(1000, 31, 20)), seq(2000, 32, 20)
	for _, q := range []*Seq{a, b, c} {
		s.Add(q, now)
		step(s, &now)
	}
	expect(t, "all blocks", levels(s), [4]int{3, 0, 6, 0})
	waits := withPriority(0, seq(3000, 90, 5))
	s.Add(waits, now)
	expect(t, "two decode", step(s, &now), []int{1, 1})
	expect(t, "running", same(s.running, a, c), true)
	expect(t, "back in the queue by its urgency, not at the front", same(s.waiting, waits, b), true)
}

// As above, with A the least urgent, in the middle of the list. C decodes and takes no block (31 tokens are computed in
// its 2); A needs one and gives way itself, which ends the step: B is not computed in it. In the next it is.
func TestWhoGivesWayItselfEndsTheStep(t *testing.T) {
	s, now := urgent(7, 8, 1000), time.Duration(0)
	c, a, b := seq(2000, 28, 20), withPriority(9, seq(0, 31, 20)), withPriority(1, seq(1000, 32, 20))
	for _, q := range []*Seq{c, a, b} {
		s.Add(q, now)
		step(s, &now)
	}
	expect(t, "all blocks", levels(s), [4]int{3, 0, 6, 0})
	expect(t, "only C", step(s, &now), []int{1})
	expect(t, "A waits", []any{same(s.running, c, b), same(s.waiting, a)}, []any{true, true})
	expect(t, "both", step(s, &now), []int{1, 1})
}

// A is the first of the list, and needs a block that only itself can give: nobody was computed before it. Such an empty
// step takes no time, so the next one is made at once.
func TestAStepThatOnlyPreemptsIsFollowedAtOnce(t *testing.T) {
	s, now := urgent(5, 8, 1000), time.Duration(0)
	a, b := withPriority(9, seq(0, 31, 20)), seq(1000, 32, 20)
	s.Add(a, now)
	step(s, &now)
	s.Add(b, now)
	expect(t, "all blocks used", steps(s, &now, 1), []int{1, 32})
	expect(t, "B", step(s, &now), []int{1})
	expect(t, "A gave way", []any{same(s.running, b), same(s.waiting, a), s.Counts().Steps}, []any{true, true, 3})
}

// A, C and D hold 2, 2 and 1 of 6 blocks, and A's decode gets the last, and a token of a budget of 2. C needs a block
// too: A, the least urgent, gives way, and the token that it had goes to D.
func TestAVictimThatWasScheduledGivesItsTokensBack(t *testing.T) {
	s, now := urgent(7, 8, 1000), time.Duration(0)
	a, c, d := withPriority(9, seq(0, 31, 20)), seq(1000, 32, 20), seq(2000, 8, 20)
	s.Add(a, now)
	step(s, &now)
	add(s, now, c, d)
	expect(t, "all run", step(s, &now), []int{1, 32, 8})
	expect(t, "one block is free", levels(s), [4]int{3, 0, 5, 0})
	s.profile.MaxBatchedTokens = 2
	b := s.Step(now)
	expect(t, "two decode", tokens(b), []int{1, 1})
	expect(t, "C and D", []bool{b.Items[0].Seq == c, b.Items[1].Seq == d}, []bool{true, true})
	expect(t, "tokens of the batch", b.Tokens, 2)
	expect(t, "levels", levels(s), [4]int{2, 1, 4, 1})
}

// Two seats, 5 blocks. A's decode takes the last; B's gives way itself: a seat and 2 blocks are free, and D, more urgent
// than B, needs one. It is let in a step later.
func TestNobodyIsAdmittedInAStepWithAPreemption(t *testing.T) {
	s, now := urgent(6, 2, 1000), time.Duration(0)
	a, b, d := seq(0, 32, 20), withPriority(5, seq(1000, 32, 20)), withPriority(-1, seq(2000, 16, 20))
	add(s, now, a, b)
	step(s, &now)
	s.Add(d, now)
	expect(t, "one decodes", step(s, &now), []int{1})
	expect(t, "two wait, with blocks to spare", levels(s), [4]int{1, 2, 3, 1})
	expect(t, "then D comes in", step(s, &now), []int{1, 16})
}

// As when the last admitted gives way, but the engine dies. A full cache alone, with somebody waiting, does not kill it.
func TestAnEngineThatCannotPreemptDies(t *testing.T) {
	s, now := small(5, 8, 1000), time.Duration(0)
	s.oom = true
	a, b, c := seq(0, 31, 20), seq(1000, 31, 20), seq(2000, 16, 20)
	add(s, now, a, b, c)
	expect(t, "all blocks", step(s, &now), []int{31, 31})
	expect(t, "the head does not fit", step(s, &now), []int{1, 1})
	expect(t, "alive", s.Dead(), false)
	expect(t, "no step", s.Step(now) == nil, true)
	expect(t, "dead, nobody preempted, no time spent", []any{s.Dead(), s.Counts().Preemptions, s.Counts().Busy}, []any{true, 0, now})
	s.Abort(a)
	expect(t, "for good", s.Step(now) == nil, true)
}

// A holds 6 of 10 blocks and B's 5 do not fit, until A is aborted.
func TestAnAbortFreesBeforeTheNextStep(t *testing.T) {
	s, now := small(11, 8, 1000), time.Duration(0)
	a, b := seq(0, 96, 50), seq(1000, 80, 5)
	add(s, now, a, b)
	batch := s.Step(now)
	expect(t, "it was there", s.Abort(a), true)
	expect(t, "nothing is used", levels(s), [4]int{0, 1, 0, 0})
	s.Commit(batch)
	expect(t, "no token comes of the step", []any{batch.Items[0].Emits, a.Generated(), s.Counts().GeneratedTokens}, []any{false, 0, 0})
	expect(t, "it is not there twice", s.Abort(a), false)
	expect(t, "the other runs", step(s, &now), []int{80})
	c := seq(2000, 80, 5)
	expect(t, "who was never added", s.Abort(c), false)
	s.Add(c, now)
	step(s, &now)
	expect(t, "who waits", s.Abort(c), true)
	expect(t, "leaves the queue", levels(s), [4]int{1, 0, 6, 0})
}
