package vllmsim

import (
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

// small makes a scheduler of so many blocks (one of them the null block), seats, and tokens per step.
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

// steps runs n steps and returns the last.
func steps(s *Scheduler, now *time.Duration, n int) (last []int) {
	for range n {
		last = step(s, now)
	}
	return last
}

// add queues sequences in this order.
func add(s *Scheduler, now time.Duration, all ...*Seq) {
	for _, q := range all {
		s.Add(q, now)
	}
}

// serve runs one sequence from its arrival to its end.
func serve(s *Scheduler, now *time.Duration, q *Seq) {
	for s.Add(q, *now); q.state != seqDone; {
		step(s, now)
	}
}

// levels is what is running and waiting, how many blocks are used, and how often somebody gave way.
func levels(s *Scheduler) [4]int {
	c := s.Counts()
	return [4]int{c.Running, c.Waiting, c.BlocksUsed, c.Preemptions}
}

// same reports whether the queue is exactly these sequences.
func same(queue []*Seq, want ...*Seq) bool {
	if len(queue) != len(want) {
		return false
	}
	for i := range queue {
		if queue[i] != want[i] {
			return false
		}
	}
	return true
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// 20 of the first prompt and 12 of the second fill a budget of 32; then the decode goes first and the chunk takes the 31
// that are left; then 70-12-31 = 27 remain. The first step takes 10 ms + 32*1 ms, the second 10 + 2 + 31*1.
func TestALongPromptTakesTheTokensThatDecodesLeave(t *testing.T) {
	s, now := small(100, 8, 32), time.Duration(0)
	add(s, now, seq(0, 20, 10), seq(5000, 70, 10))
	expect(t, "the first step fills the budget", step(s, &now), []int{20, 12})
	expect(t, "its time", now, 42*time.Millisecond)
	expect(t, "decode first, then the chunk", step(s, &now), []int{1, 31})
	expect(t, "until", now, 85*time.Millisecond)
	expect(t, "the rest", step(s, &now), []int{1, 27})
	expect(t, "both decode", step(s, &now), []int{1, 1})
}

// A has 40-32 = 8 tokens of its prompt left when B comes: they go first, and B gets 32-8 = 24 of its 30.
func TestRunningPrefillsGoBeforeWaitingOnes(t *testing.T) {
	s, now := small(100, 8, 32), time.Duration(0)
	a, b := seq(0, 40, 5), seq(5000, 30, 5)
	add(s, now, a, b)
	expect(t, "A alone", step(s, &now), []int{32})
	expect(t, "B holds nothing", levels(s), [4]int{1, 1, 2, 0})
	expect(t, "the rest of A, a part of B", step(s, &now), []int{8, 24})
	expect(t, "a decode and the rest of B", step(s, &now), []int{1, 6})
}

// Two decodes use up a budget of two, so C, with a seat and blocks for it, waits until A ends with its second token.
func TestDecodesAloneMayUseUpTheBudget(t *testing.T) {
	s, now := small(100, 8, 2), time.Duration(0)
	add(s, now, seq(0, 1, 2), seq(1000, 1, 5), seq(2000, 1, 5))
	expect(t, "A and B", step(s, &now), []int{1, 1})
	expect(t, "their decodes", step(s, &now), []int{1, 1})
	expect(t, "C waits no more", levels(s), [4]int{1, 1, 1, 0})
	expect(t, "B and C", step(s, &now), []int{1, 1})
}

// Three of 16 tokens fit 99 blocks and 1000 tokens, but there are two seats.
func TestSeatsLimitHowManyRun(t *testing.T) {
	s, now := small(100, 2, 1000), time.Duration(0)
	add(s, now, seq(0, 16, 2), seq(1000, 16, 2), seq(2000, 16, 2))
	expect(t, "two are seated", step(s, &now), []int{16, 16})
	expect(t, "one waits", levels(s), [4]int{2, 1, 2, 0})
	expect(t, "who finish in their second step", step(s, &now), []int{1, 1})
	expect(t, "the third follows", step(s, &now), []int{16})
}

// Three steps: A's prompt of 20; A's decode beside B's scored prompt of 10; two decodes. The cache is read up to what
// each has computed with the step: 20, 21+10 = 31, 22+11 = 33 tokens.
func TestEachTermOfTheProfileCostsWhatItSays(t *testing.T) {
	const ms = time.Millisecond
	cases := []struct {
		term string
		p    Profile
		want [3]time.Duration
	}{
		{"base", Profile{Base: 0.01}, [3]time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{"prefill", Profile{PerPrefillToken: 0.001}, [3]time.Duration{20 * ms, 10 * ms, 0}},
		{"scored prefill", Profile{PerPrefillToken: 0.001, LMHead: 0.5}, [3]time.Duration{20 * ms, 15 * ms, 0}},
		{"sequences", Profile{PerSeq: 0.002}, [3]time.Duration{0, 2 * ms, 4 * ms}},
		{"cache reads", Profile{PerKVToken: 0.0001}, [3]time.Duration{2 * ms, 3100 * time.Microsecond, 3300 * time.Microsecond}},
		{"all", Profile{Base: 0.01, PerPrefillToken: 0.001, LMHead: 0.5, PerSeq: 0.002, PerKVToken: 0.0001},
			[3]time.Duration{32 * ms, 30100 * time.Microsecond, 17300 * time.Microsecond}},
	}
	for _, c := range cases {
		c.p.Blocks, c.p.MaxSeqs, c.p.MaxBatchedTokens = 100, 8, 1000
		s, scored := NewScheduler(c.p, SchedulerOptions{}), seq(1000, 10, 5)
		scored.NoCacheRead = true
		var got [3]time.Duration
		for i, q := range []*Seq{seq(0, 20, 5), scored, nil} {
			if q != nil {
				s.Add(q, 0)
			}
			b := s.Step(time.Second)
			s.Commit(b)
			got[i] = (b.End - b.Start).Round(time.Microsecond)
		}
		expect(t, c.term, got, c.want)
	}
}

// The second chunk of 17 tokens is one token: 10 + 1 ms, like any of the prompt, and not the 10 + 2 of a decode.
func TestAChunkOfOneTokenIsNoDecode(t *testing.T) {
	s, now := small(100, 8, 16), time.Duration(0)
	s.Add(seq(0, 17, 5), now)
	expect(t, "the rest", steps(s, &now, 2), []int{1})
	expect(t, "its time after the first chunk's", now.Round(time.Microsecond), (26+11)*time.Millisecond)
}

// A prompt of 20 takes 10 + 20 = 30 ms, three times slower 90; its decode 10 + 2 = 12 ms at the profile's speed again.
func TestASlowedSchedulerTakesSoManyTimesLonger(t *testing.T) {
	s, now := small(100, 8, 1000), time.Duration(0)
	s.Add(seq(0, 20, 5), now)
	s.SetSlow(3)
	step(s, &now)
	expect(t, "slowed", now.Round(time.Microsecond), 90*time.Millisecond)
	s.SetSlow(1)
	step(s, &now)
	expect(t, "not slowed", now.Round(time.Microsecond), 102*time.Millisecond)
	expect(t, "busy", s.Counts().Busy, now)
}
