package compare

import "sync"

// MirrorCost is what mirrored requests cost.
type MirrorCost struct {
	Made      float64 `json:"made"`
	Skipped   float64 `json:"skipped"`
	Failed    float64 `json:"failed"` // of those that were skipped: the mirror did not answer
	Generated float64 `json:"generated_tokens"`
	Scored    float64 `json:"scored_tokens"`
	USD       float64 `json:"usd"`
}

// MirrorFailed is why a mirrored request was skipped that the mirror did not answer.
const MirrorFailed = "failed"

// Add adds one mirrored request as [Recorder.AddMirror] is told of it. It does nothing and reports false if a number is
// negative or no number.
func (m *MirrorCost) Add(generated, scored int, usd float64, skipped string) bool {
	if generated < 0 || scored < 0 || !(usd >= 0 && usd < 1e12) {
		return false
	}
	if skipped != "" {
		m.Skipped++
		if skipped == MirrorFailed {
			m.Failed++
		}
	} else {
		m.Made++
	}
	m.Generated += float64(generated)
	m.Scored += float64(scored)
	m.USD += usd
	return true
}

func (m *MirrorCost) merge(o *MirrorCost) {
	m.Made += o.Made
	m.Skipped += o.Skipped
	m.Failed += o.Failed
	m.Generated += o.Generated
	m.Scored += o.Scored
	m.USD += o.USD
}

// Both is all that is known of a pair.
type Both struct {
	Incumbent, Candidate Totals
	Mirror               MirrorCost
}

// Side returns the totals of a side.
func (b *Both) Side(s Side) *Totals {
	if s == Candidate {
		return &b.Candidate
	}
	return &b.Incumbent
}

// Memory is a [Recorder] that keeps its sums in memory. It is safe for concurrent use.
type Memory struct {
	Max    int                   // pairs; what is told of others is dropped; 0 is no limit
	Lost   func()                // called when something is dropped, with a lock held; nil: nobody
	Change func(p Pair, b *Both) // called after each change, with a lock held; nil: nobody

	mu    sync.Mutex
	pairs map[Pair]*Both
}

var _ Recorder = (*Memory)(nil)

// Take returns what was recorded, and forgets it.
func (m *Memory) Take() map[Pair]*Both {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.pairs
	m.pairs = nil
	return all
}

// Merge adds sums that were taken.
func (m *Memory) Merge(p Pair, sums *Both) {
	m.add(p, func(b *Both) bool {
		b.Incumbent.Merge(&sums.Incumbent)
		b.Candidate.Merge(&sums.Candidate)
		b.Mirror.merge(&sums.Mirror)
		return true
	})
}

// AddAnswer implements [Recorder]. An answer with a bad number is dropped.
func (m *Memory) AddAnswer(p Pair, a Answer) {
	m.add(p, func(b *Both) bool { return b.Side(a.Side).Add(a) == nil })
}

// AddUnanswered implements [Recorder]. An unknown reason is dropped.
func (m *Memory) AddUnanswered(p Pair, s Side, why Unanswered) {
	m.add(p, func(b *Both) bool { return b.Side(s).AddUnanswered(why) == nil })
}

// AddDraft implements [Recorder].
func (m *Memory) AddDraft(p Pair, s Side, good bool) {
	m.add(p, func(b *Both) bool { b.Side(s).AddDraft(good); return true })
}

// AddOpinion implements [Recorder].
func (m *Memory) AddOpinion(p Pair, s Side, good bool) {
	m.add(p, func(b *Both) bool { b.Side(s).AddOpinion(good); return true })
}

// AddMirror implements [Recorder]. Bad numbers are dropped.
func (m *Memory) AddMirror(p Pair, generated, scored int, usd float64, skipped string) {
	m.add(p, func(b *Both) bool { return b.Mirror.Add(generated, scored, usd, skipped) })
}

// add changes the sums of a pair. change reports false if it did nothing.
func (m *Memory) add(p Pair, change func(*Both) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.pairs[p]
	full := b == nil && m.Max > 0 && len(m.pairs) >= m.Max
	if b == nil && !full {
		b = &Both{}
	}
	if full || !change(b) {
		if m.Lost != nil {
			m.Lost()
		}
		return
	}
	if m.pairs == nil {
		m.pairs = map[Pair]*Both{}
	}
	m.pairs[p] = b
	if m.Change != nil {
		m.Change(p, b)
	}
}
