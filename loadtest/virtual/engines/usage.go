package engines

import (
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/economy"
)

// Spent is what engines computed, in tokens.
type Spent struct{ Decoded, Prefilled, Scored int }

func (s *Spent) add(o Spent) {
	s.Decoded += o.Decoded
	s.Prefilled += o.Prefilled
	s.Scored += o.Scored
}

func (s *Spent) sub(o Spent) { s.add(Spent{-o.Decoded, -o.Prefilled, -o.Scored}) }

// count takes down what a step computes, before its tokens are there.
func (s *Spent) count(batch *vllmsim.Batch) {
	for i := range batch.Items {
		switch it := &batch.Items[i]; {
		case it.Tokens == 1 && it.Seq.Generated() > 0:
			s.Decoded++
		case it.Seq.NoCacheRead:
			s.Scored += it.Tokens
			s.Prefilled += it.Tokens
		default:
			s.Prefilled += it.Tokens
		}
	}
}

// history is what a backend has done and suffered.
type history struct {
	vllmsim.Counts     // totals; levels are not kept
	ooms           int // deaths of a full cache
}

// add adds the totals of one life.
func (h *history) add(c vllmsim.Counts) {
	h.Preemptions += c.Preemptions
	h.PrefixQueries += c.PrefixQueries
	h.PrefixHits += c.PrefixHits
	h.Steps += c.Steps
	h.Busy += c.Busy
	h.PromptTokens += c.PromptTokens
	h.GeneratedTokens += c.GeneratedTokens
}

// totals are those of all lives.
func (b *Backend) totals() history {
	h := b.past
	h.add(b.sched.Counts())
	return h
}

// Mark begins what is measured, at all backends.
func (f *Fleet) Mark() {
	for _, b := range f.backends {
		b.marked, b.spentBefore, b.auditsBefore = b.totals(), b.spent, b.Audits
	}
}

// Usage is what the pool's backends did in the measured time.
func (p *Pool) Usage() loadtest.Usage {
	u := loadtest.Usage{Tier: p.Name, Backends: len(p.Backends), GPUs: p.Profile.GPUs, USDPerHour: p.Def.USDPerHour}
	for _, b := range p.Backends {
		was, is := &b.marked, b.totals()
		u.Busy += is.Busy - was.Busy
		u.PrefixQueries += is.PrefixQueries - was.PrefixQueries
		u.PrefixHits += is.PrefixHits - was.PrefixHits
		u.Preemptions += is.Preemptions - was.Preemptions
		u.Generated += is.GeneratedTokens - was.GeneratedTokens
		u.OOMDeaths += is.ooms - was.ooms
	}
	return u
}

// Spent is what they computed in it, and of that for audits.
func (p *Pool) Spent() (all, audits Spent) {
	for _, b := range p.Backends {
		all.add(b.spent)
		all.sub(b.spentBefore)
		audits.add(b.Audits)
		audits.sub(b.auditsBefore)
	}
	return all, audits
}

// Prices are what a token costs by the scenario's price and the profile's rates at a usual load.
func (p *Pool) Prices() (prefill, decode float64) { return p.PricesAt(vllmsim.UsualSequences) }

// PricesAt are those with so many sequences at once.
func (p *Pool) PricesAt(sequences int) (prefill, decode float64) {
	perPrompt, perAnswer := p.Profile.Rates(sequences)
	return economy.PerToken(p.Def.USDPerHour, perPrompt), economy.PerToken(p.Def.USDPerHour, perAnswer)
}
