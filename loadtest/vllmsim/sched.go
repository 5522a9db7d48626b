package vllmsim

import (
	"cmp"
	"slices"
	"time"
)

// Source makes the tokens of one sequence. The scheduler asks for one each time the sequence is computed to its end.
type Source interface {
	// Next returns the next token, and whether the sequence ends with it.
	Next() (id int32, done bool)
}

// Seq is one sequence in the engine. The caller fills the exported fields and hands it to [Scheduler.Add].
type Seq struct {
	Prompt      []int32
	Priority    int64  // lower is earlier, under the priority policy
	Salt        uint64 // mixed into the first block's hash: isolates prefix reuse
	NoCacheRead bool   // prompt_logprobs: recompute the whole prompt (its blocks are still cached for others)
	ScoreFrom   int    // SGLang's logprob_start_len: the cache is read before it alone, and the head runs from it on; 0 is neither
	Source      Source

	// Times, in the scheduler's clock: set as they happen.
	Arrival, Scheduled, FirstToken, LastToken time.Duration
	Cached                                    int // prompt tokens found in the prefix cache at admission

	ids       []int32 // prompt and generated tokens
	computed  int     // tokens whose KV is there
	blocks    []int32
	hashes    []uint64 // of the full blocks of ids
	order     uint64
	state     seqState
	counted   bool // looked up in the prefix cache once
	scheduled bool
}

type seqState uint8

const (
	seqNew seqState = iota
	seqWaiting
	seqRunning
	seqDone
)

// Generated returns the number of tokens generated so far.
func (s *Seq) Generated() int { return len(s.ids) - len(s.Prompt) }

// Item is one sequence's part of a batch.
type Item struct {
	Seq      *Seq
	Tokens   int  // computed in this step
	Emits    bool // the step ends with a new token of this sequence
	Token    int32
	Finished bool
	First    bool          // the first token of the sequence
	Previous time.Duration // when its token before this one came
	dropped  bool
}

// Batch is one engine step: what is computed, and until when.
type Batch struct {
	Start, End time.Duration
	Items      []Item
	Tokens     int
}

// Counts are the running totals and levels of a scheduler.
type Counts struct {
	Running, Waiting          int
	BlocksUsed, BlocksTotal   int
	Preemptions               int
	PrefixQueries, PrefixHits int // tokens
	Steps                     int
	Busy                      time.Duration // spent in steps
	PromptTokens              int           // whose prefill finished, cached ones included
	GeneratedTokens           int
}

// Scheduler is vLLM's V1 scheduler as a pure step machine: [Scheduler.Step] decides what the next step computes and how
// long it takes, [Scheduler.Commit] applies its result. It has no clock, no goroutine and no lock.
type Scheduler struct {
	profile  Profile
	priority bool
	oom      bool
	dead     bool
	pool     *blockPool
	running  []*Seq
	waiting  []*Seq
	counts   Counts
	order    uint64
	slow     float64
}

// SchedulerOptions choose between the ways of vLLM.
type SchedulerOptions struct {
	Priority bool // the priority policy instead of first come, first served
	OOM      bool // the older behaviour: a running sequence that finds no block kills the engine instead of preempting
}

// NewScheduler returns an empty scheduler.
func NewScheduler(p Profile, o SchedulerOptions) *Scheduler {
	return &Scheduler{profile: p, priority: o.Priority, oom: o.OOM, pool: newBlockPool(p.Blocks), slow: 1}
}

// Dead reports whether the engine has died of a full cache: it makes no step any more.
func (s *Scheduler) Dead() bool { return s.dead }

// SetSlow makes every step take so many times longer; 1 and 0 are the profile's speed.
func (s *Scheduler) SetSlow(factor float64) {
	if s.slow = factor; factor == 0 {
		s.slow = 1
	}
}

// Counts returns levels and totals as they are now.
func (s *Scheduler) Counts() Counts {
	c := s.counts
	c.Running, c.Waiting = len(s.running), len(s.waiting)
	c.BlocksUsed, c.BlocksTotal = s.pool.used(), s.pool.usable()
	return c
}

// Add queues a sequence that arrives now. A prompt must fit in the cache with a token to spare, which the caller checks.
func (s *Scheduler) Add(q *Seq, now time.Duration) {
	s.order++
	q.order, q.Arrival, q.state = s.order, now, seqWaiting
	q.ids = slices.Clip(q.Prompt) // the first token copies it: who waits shares its prompt with its siblings
	s.enqueue(q)
}

// enqueue puts q where the policy wants it.
func (s *Scheduler) enqueue(q *Seq) {
	if !s.priority {
		s.waiting = append(s.waiting, q)
		return
	}
	at, _ := slices.BinarySearchFunc(s.waiting, q, compareUrgency)
	s.waiting = slices.Insert(s.waiting, at, q)
}

func compareUrgency(a, b *Seq) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.order, b.order))
}

// Abort removes a sequence wherever it is and frees its blocks. It reports whether the sequence was still there.
func (s *Scheduler) Abort(q *Seq) bool {
	switch q.state {
	case seqWaiting:
		s.waiting = slices.DeleteFunc(s.waiting, func(o *Seq) bool { return o == q })
	case seqRunning:
		s.running = slices.DeleteFunc(s.running, func(o *Seq) bool { return o == q })
		s.pool.release(q.blocks)
		q.blocks = nil
	case seqNew, seqDone:
		return false
	}
	q.state = seqDone
	return true
}

// Step decides the next step at time now: running sequences first, in order, then waiting ones while tokens, seats and
// blocks last. It returns nil when there is nothing to compute. Commit must follow before the next Step.
func (s *Scheduler) Step(now time.Duration) *Batch {
	if s.dead {
		return nil
	}
	b := &Batch{Start: now, Items: make([]Item, 0, len(s.running)+4)}
	budget := s.profile.MaxBatchedTokens
	budget, preempted := s.stepRunning(b, budget)
	if s.dead {
		return nil
	}
	if !preempted {
		s.admit(b, budget, now)
	}
	if preempted && len(b.Items) == 0 {
		return s.Step(now) // the first to run gave way itself: vLLM's step is empty and takes no time
	}
	if len(b.Items) == 0 {
		return nil
	}
	var w work
	for i := range b.Items {
		it := &b.Items[i]
		b.Tokens += it.Tokens
		w.add(it)
	}
	b.End = now + time.Duration(float64(s.profile.stepTime(w))*s.slow)
	s.counts.Steps++
	s.counts.Busy += b.End - b.Start
	return b
}

func (w *work) add(it *Item) {
	q := it.Seq
	w.kvRead += q.computed
	if it.Tokens == 1 && q.computed > len(q.Prompt) {
		w.decoding++
		return
	}
	w.prefill += it.Tokens
	switch {
	case q.NoCacheRead:
		w.scored += it.Tokens
	case q.ScoreFrom > 0:
		w.scored += min(it.Tokens, max(0, q.computed-q.ScoreFrom))
	}
}

// stepRunning gives every running sequence its tokens, preempting from the end when blocks run out.
func (s *Scheduler) stepRunning(b *Batch, budget int) (left int, preempted bool) {
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		n := min(len(q.ids)-q.computed, budget)
		for !s.grow(q, n) {
			if s.dead = s.oom; s.dead {
				return 0, false
			}
			preempted = true
			victim := s.victim()
			if at := slices.Index(s.running, victim); at < i {
				i-- // only under the priority policy: the list closes up before q
			}
			budget += s.preempt(b, victim)
			if victim == q {
				break
			}
		}
		if q.state != seqRunning {
			break // it gave way itself: in vLLM nobody behind it is computed in this step
		}
		s.take(b, q, n)
		budget -= n
	}
	if preempted {
		b.Items = slices.DeleteFunc(b.Items, func(it Item) bool { return it.dropped })
	}
	return budget, preempted
}

// victim is who gives way: the most recently admitted, or the least urgent under the priority policy.
func (s *Scheduler) victim() *Seq {
	if !s.priority {
		return s.running[len(s.running)-1]
	}
	return slices.MaxFunc(s.running, compareUrgency)
}

// preempt takes everything from q and puts it back in front of the queue. It returns the tokens that the step had
// already given to it.
func (s *Scheduler) preempt(b *Batch, q *Seq) (refund int) {
	s.counts.Preemptions++
	s.running = slices.DeleteFunc(s.running, func(o *Seq) bool { return o == q })
	s.pool.release(q.blocks)
	q.blocks, q.computed, q.state = nil, 0, seqWaiting
	for i := range b.Items {
		if b.Items[i].Seq == q {
			refund = b.Items[i].Tokens
			b.Items[i].dropped = true
		}
	}
	if s.priority {
		s.enqueue(q)
	} else {
		s.waiting = slices.Insert(s.waiting, 0, q)
	}
	return refund
}

// grow gives q the blocks for n more tokens, or reports false and changes nothing.
func (s *Scheduler) grow(q *Seq, n int) bool {
	need := (q.computed+n+BlockSize-1)/BlockSize - len(q.blocks)
	if need > s.pool.free {
		return false
	}
	if need > 0 {
		q.blocks = s.pool.take(q.blocks, need)
	}
	return true
}

// take books n tokens of q into the batch and publishes the blocks that they fill.
func (s *Scheduler) take(b *Batch, q *Seq, n int) {
	before := q.computed / BlockSize
	q.computed += n
	q.hashTo(q.computed)
	for k := before; k < q.computed/BlockSize; k++ {
		s.pool.publish(q.blocks[k], q.hashes[k])
	}
	b.Items = append(b.Items, Item{Seq: q, Tokens: n, Emits: q.computed == len(q.ids)})
}

// hashTo extends the chained block hashes to cover the full blocks of the first n tokens.
func (s *Seq) hashTo(n int) {
	for k := len(s.hashes); k < n/BlockSize; k++ {
		parent := mix(s.Salt, 0xb10c)
		if k > 0 {
			parent = s.hashes[k-1]
		}
		h := hashIDs(parent, s.ids[k*BlockSize:(k+1)*BlockSize])
		s.hashes = append(s.hashes, h|1) // never 0, which means not cached
	}
}

// admit lets waiting sequences in, strictly from the head: who does not fit holds up everyone behind.
func (s *Scheduler) admit(b *Batch, budget int, now time.Duration) {
	for budget > 0 && len(s.waiting) > 0 && len(s.running) < s.profile.MaxSeqs {
		q := s.waiting[0]
		var run []int32
		var idle int
		if !q.NoCacheRead {
			// At least the last token is computed again: its logits are needed.
			maximum := len(q.ids) - 1
			if q.ScoreFrom > 0 {
				maximum = min(maximum, q.ScoreFrom)
			}
			q.hashTo(maximum)
			run, idle = s.pool.match(q.hashes[:maximum/BlockSize])
		}
		need := (len(q.ids)+BlockSize-1)/BlockSize - len(run)
		if need > s.pool.free-idle {
			return
		}
		s.waiting = s.waiting[1:]
		s.pool.share(run)
		q.blocks, q.computed, q.state = append(q.blocks, run...), len(run)*BlockSize, seqRunning
		s.countLookup(q)
		if !q.scheduled {
			q.scheduled, q.Scheduled = true, now
		}
		s.running = append(s.running, q)
		n := min(len(q.ids)-q.computed, budget)
		s.grow(q, n)
		s.take(b, q, n)
		budget -= n
	}
}

// countLookup counts prefix cache queries and hits, once per sequence and not for those that do not read it.
func (s *Scheduler) countLookup(q *Seq) {
	if q.counted || q.NoCacheRead {
		return
	}
	q.counted, q.Cached = true, q.computed
	s.counts.PrefixQueries += len(q.Prompt)
	s.counts.PrefixHits += q.computed
}

// Commit ends the step: sequences that were computed to their end get their next token, and finished ones leave.
// Sequences aborted since Step are passed over.
func (s *Scheduler) Commit(b *Batch) {
	finished := false
	for i := range b.Items {
		it := &b.Items[i]
		q := it.Seq
		if !it.Emits || q.state != seqRunning {
			it.Emits = false
			continue
		}
		it.Token, it.Finished = q.Source.Next()
		q.ids = append(q.ids, it.Token)
		s.counts.GeneratedTokens++
		it.Previous, q.LastToken = q.LastToken, b.End
		if q.Generated() == 1 {
			it.First, q.FirstToken = true, b.End
			s.counts.PromptTokens += len(q.Prompt)
		}
		if it.Finished {
			finished = true
			q.state = seqDone
			s.pool.release(q.blocks)
			q.blocks = nil
		}
	}
	if finished {
		s.running = slices.DeleteFunc(s.running, func(q *Seq) bool { return q.state == seqDone })
	}
}
