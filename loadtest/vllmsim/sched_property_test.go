package vllmsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// machine drives a scheduler by choices, from a random source or from a fuzzer, and knows what must hold after each.
type machine struct {
	s    *Scheduler
	pick func(n int) int // 0 to n-1
	now  time.Duration
	live []*Seq // added, and neither finished nor aborted

	aborts                   bool
	added, finished, aborted int
	steps                    int
	refs                     []int32 // scratch: how many sequences hold each block
	seen                     []bool  // scratch: found in the free list
}

func newMachine(pick func(int) int) *machine {
	p := Profile{Blocks: 12 + pick(29), MaxSeqs: 1 + pick(6), MaxBatchedTokens: 1 + pick(96), Base: 0.01}
	m := &machine{s: NewScheduler(p, SchedulerOptions{Priority: pick(2) == 1}), pick: pick, aborts: pick(4) > 0}
	m.refs, m.seen = make([]int32, p.Blocks), make([]bool, p.Blocks)
	return m
}

// act does one random thing and then a step.
func (m *machine) act() error {
	switch m.pick(5) {
	case 0, 1:
		m.add()
	case 2:
		m.abort()
	}
	return m.step()
}

// add queues a sequence that can end: its prompt and its answer fit in the cache together. Prompts come in families that
// are the same up to some token.
func (m *machine) add() {
	room := m.s.pool.usable() * BlockSize
	if len(m.live) >= 12 {
		return
	}
	n := 1 + m.pick(room-1)
	if m.pick(4) > 0 {
		n = 1 + n/8
	}
	out := 1 + m.pick(min(200, room-n))
	family, own, variant := m.pick(3), m.pick(n+1), m.pick(4)
	q := &Seq{Source: &counter{left: int32(out)}, Prompt: make([]int32, n)}
	for i := range q.Prompt {
		q.Prompt[i] = int32(family*1000 + i)
		if i >= own {
			q.Prompt[i] += int32(variant * 10000)
		}
	}
	q.Priority, q.NoCacheRead = int64(m.pick(3)), m.pick(5) == 0
	if m.pick(4) == 0 {
		q.Salt = 7
	}
	m.s.Add(q, m.now)
	m.live = append(m.live, q)
	m.added++
}

// abort takes one out, if there is any and this machine aborts.
func (m *machine) abort() {
	if !m.aborts || len(m.live) == 0 {
		return
	}
	at := m.pick(len(m.live))
	m.s.Abort(m.live[at])
	m.live = slices.Delete(m.live, at, at+1)
	m.aborted++
}

// step does one step, now and then with an abort between its decision and its result, and checks what must hold.
func (m *machine) step() error {
	b := m.s.Step(m.now)
	if b == nil {
		if len(m.live) > 0 {
			return fmt.Errorf("nothing to compute for %d sequences", len(m.live))
		}
		return m.check()
	}
	m.steps++
	if err := m.checkBatch(b); err != nil {
		return err
	}
	if m.aborts && m.pick(32) == 0 {
		m.abort()
	}
	m.s.Commit(b)
	m.now = b.End
	for i := range b.Items {
		if it := &b.Items[i]; it.Finished {
			at := slices.Index(m.live, it.Seq)
			if at < 0 {
				return fmt.Errorf("somebody finished who was gone")
			}
			m.live = slices.Delete(m.live, at, at+1)
			m.finished++
		}
	}
	return m.check()
}

// drain steps until everybody has finished. Between two who leave, the most urgent one that runs is computed without
// loss, and those who take the budget before it do their own work; so there are no more steps than their tokens.
func (m *machine) drain() error {
	left := 0
	for _, q := range m.live {
		left += len(q.Prompt) + int(q.Source.(*counter).left) + q.Generated()
	}
	limit := m.steps + left*len(m.live)
	m.aborts = false
	for len(m.live) > 0 {
		if m.steps > limit {
			return fmt.Errorf("%d sequences do not end", len(m.live))
		}
		if err := m.step(); err != nil {
			return err
		}
	}
	if used := m.s.Counts().BlocksUsed; used != 0 {
		return fmt.Errorf("%d blocks in use at the end", used)
	}
	return nil
}

// checkBatch holds a step to the budget and to what its sequences have.
func (m *machine) checkBatch(b *Batch) error {
	sum := 0
	for i := range b.Items {
		it := &b.Items[i]
		sum += it.Tokens
		switch q := it.Seq; {
		case q.state != seqRunning:
			return fmt.Errorf("item %d of the batch is of a sequence in state %d", i, q.state)
		case it.Tokens < 1 || it.Emits != (q.computed == len(q.ids)):
			return fmt.Errorf("item %d: %+v with %d of %d computed", i, *it, q.computed, len(q.ids))
		case slices.ContainsFunc(b.Items[:i], func(o Item) bool { return o.Seq == q }):
			return fmt.Errorf("item %d repeats a sequence", i)
		}
	}
	if p := &m.s.profile; sum != b.Tokens || sum > p.MaxBatchedTokens || len(m.s.running) > p.MaxSeqs {
		return fmt.Errorf("%d tokens, said to be %d, in %d seats; allowed are %d in %d",
			sum, b.Tokens, len(m.s.running), p.MaxBatchedTokens, p.MaxSeqs)
	}
	return nil
}

// check is everything that holds between two steps.
func (m *machine) check() error {
	clear(m.refs)
	clear(m.seen)
	for _, f := range []func() error{m.checkSequences, m.checkFreeList, m.checkBlocks, m.checkIndex} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// checkSequences holds that nobody is lost, and that who runs has the blocks of its tokens, under their hashes.
func (m *machine) checkSequences() error {
	s := m.s
	if n := len(s.running) + len(s.waiting) + m.finished + m.aborted; n != m.added {
		return fmt.Errorf("%d sequences of %d", n, m.added)
	}
	for _, q := range m.live {
		running, waiting := count(s.running, q), count(s.waiting, q)
		if running+waiting != 1 || (running == 1) != (q.state == seqRunning) {
			return fmt.Errorf("a sequence in state %d runs %d times and waits %d times", q.state, running, waiting)
		}
		if waiting == 1 && (q.computed != 0 || len(q.blocks) != 0) {
			return fmt.Errorf("who waits holds %d blocks for %d tokens", len(q.blocks), q.computed)
		}
		if want := (q.computed + BlockSize - 1) / BlockSize; len(q.blocks) != want || q.computed > len(q.ids) {
			return fmt.Errorf("%d of %d tokens computed in %d blocks", q.computed, len(q.ids), len(q.blocks))
		}
		for k, i := range q.blocks {
			m.refs[i]++
			want := uint64(0) // not full yet
			if k < q.computed/BlockSize {
				want = q.hashes[k]
			}
			if got := s.pool.blocks[i].hash; got != want {
				return fmt.Errorf("block %d of a sequence has hash %x, want %x", k, got, want)
			}
		}
		if m.steps%64 == 0 && !q.hashesHold() {
			return fmt.Errorf("the hashes of a sequence are not those of its tokens")
		}
	}
	return nil
}

// hashesHold reports whether the hashes kept are those of the tokens.
func (s *Seq) hashesHold() bool {
	again := &Seq{Salt: s.Salt, ids: s.ids}
	again.hashTo(len(s.hashes) * BlockSize)
	return slices.Equal(again.hashes, s.hashes)
}

func count(list []*Seq, q *Seq) (n int) {
	for _, o := range list {
		if o == q {
			n++
		}
	}
	return n
}

// checkFreeList holds that the list is whole in both directions and as long as it says.
func (m *machine) checkFreeList() error {
	p, n := m.s.pool, 0
	for at := int32(0); ; n++ {
		next := p.blocks[at].next
		if p.blocks[next].prev != at {
			return fmt.Errorf("free list: %d follows %d, but not the other way round", next, at)
		}
		if at = next; at == 0 {
			break
		}
		if m.seen[at] {
			return fmt.Errorf("block %d is twice in the free list", at)
		}
		m.seen[at] = true
	}
	if n != p.free {
		return fmt.Errorf("%d blocks in the free list, counted %d", n, p.free)
	}
	return nil
}

// checkBlocks holds that every block is either free or held, by as many as it counts.
func (m *machine) checkBlocks() error {
	p, held := m.s.pool, 0
	if m.refs[0] != 0 || p.blocks[0].ref != 0 || p.blocks[0].hash != 0 {
		return fmt.Errorf("the null block is in use")
	}
	for i := 1; i < len(p.blocks); i++ {
		if p.blocks[i].ref != m.refs[i] {
			return fmt.Errorf("block %d is held by %d, counts %d", i, m.refs[i], p.blocks[i].ref)
		}
		if m.seen[i] == (m.refs[i] > 0) {
			return fmt.Errorf("block %d is held by %d, free: %v", i, m.refs[i], m.seen[i])
		}
		if m.refs[i] > 0 {
			held++
		}
	}
	if c := m.s.Counts(); c.BlocksUsed != held || c.BlocksTotal != len(p.blocks)-1 {
		return fmt.Errorf("%d blocks held, counted %d of %d", held, c.BlocksUsed, c.BlocksTotal)
	}
	return nil
}

// checkIndex holds that every hash leads to all blocks that carry it, and to no other.
func (m *machine) checkIndex() error {
	p, found, cached := m.s.pool, 0, 0
	for hash, first := range p.byHash {
		for i := first; ; {
			b := &p.blocks[i]
			if found++; found > len(p.blocks) {
				return fmt.Errorf("the ring of block %d does not close", first)
			}
			if b.hash != hash || p.blocks[b.newer].older != i {
				return fmt.Errorf("block %d in the ring of %x: %+v", i, hash, *b)
			}
			if i = b.newer; i == first {
				break
			}
		}
	}
	for i := range p.blocks {
		if p.blocks[i].hash != 0 {
			cached++
		}
	}
	if found != cached {
		return fmt.Errorf("%d blocks have contents, %d can be found", cached, found)
	}
	return nil
}

// However requests come, go and leave, blocks are neither lost nor counted twice, and everybody ends.
func TestBlocksAreNeverLostInAMillionRandomSteps(t *testing.T) {
	const seeds = 8
	steps, whole := 1_000_000/seeds, !raceEnabled && !testing.Short()
	if !whole {
		steps /= 20
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			preempted, hits := 0, 0
			for done := 0; done < steps; {
				m := newMachine(r.IntN)
				if err := m.run(200 + r.IntN(2000)); err != nil {
					t.Fatalf("seed %d, step %d (%d of its scheduler): %v\n%+v\n%+v",
						seed, done+m.steps, m.steps, err, m.s.profile, m.s.Counts())
				}
				done += m.steps
				preempted += m.s.Counts().Preemptions
				hits += m.s.Counts().PrefixHits
			}
			if whole && (preempted < steps/500 || hits < steps/10) {
				t.Errorf("%d preemptions and %d hits: the random steps are too tame", preempted, hits)
			}
		})
	}
}

// run acts so many times, then lets everybody finish.
func (m *machine) run(acts int) error {
	for range acts {
		if err := m.act(); err != nil {
			return err
		}
	}
	return m.drain()
}
