package audit

import (
	"time"

	"github.com/foregate/foregate/tiers/economy"
)

// Tally counts tokens of engines' work.
type Tally struct {
	Prompt   int // as engines count it
	Accepted int // draft tokens in the answer
	Target   int // target tokens in the answer
	Drafted  int // draft tokens that were made, as far as they came
	Scored   int // tokens that the target computed to say what it thinks of the draft, prompts included
}

// maxBalance bounds the balance of a budget, as a multiple of the last audit's cost.
const maxBalance = 50

// budget is what the audits of a route may still cost, in the unit of token prices.
type budget struct {
	balance, last float64

	dollars float64   // that they could still cost at a target that is paid by the token, at that time
	at      time.Time // zero before the first such audit
}

// dollarsLeft returns what audits may cost now at a target that is paid by the token, if so much a day may be spent: it
// comes evenly, and what of it is not used is kept for an hour.
func (b *budget) dollarsLeft(perDay float64, now time.Time) float64 {
	if b.at.IsZero() {
		return 0
	}
	return min(b.dollars+perDay*now.Sub(b.at).Hours()/24, perDay/24)
}

// earn adds a share of the target's cost.
func (b *budget) earn(cost float64) {
	limit := maxBalance * b.last
	if b.last == 0 {
		limit = maxBalance * cost // before the first audit its cost is unknown
	}
	b.balance = min(b.balance+cost, max(limit, 0))
}

// spend subtracts the cost of an audit.
func (b *budget) spend(cost float64) {
	if b.balance -= cost; cost > 0 { // an audit without a call says nothing about the next one
		b.last = cost
	}
}

// TargetCost returns the cost of the target's tokens: in USD if the target's price p is known, else in tokens. It includes the
// prompt if the target generated anything.
func (t Tally) TargetCost(p economy.TokenPrice) float64 {
	prompt := t.Scored
	if t.Target > 0 {
		prompt += t.Prompt
	}
	if !p.Known() {
		return float64(prompt + t.Target)
	}
	return economy.CostOfWork(p, economy.Work{Prompt: prompt, Answer: t.Target})
}
