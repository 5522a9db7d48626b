package audit

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/risk"
)

// maxClasses bounds the kinds of request whose rate is known.
const maxClasses = 1024

// rates count requests by their kind.
type rates map[risk.Key]perMinute

// add counts one, and tells how many of its kind there are in a minute.
func (r rates) add(k risk.Key, now time.Time) float64 {
	if _, known := r[k]; !known && len(r) >= maxClasses {
		clear(r) // they are known again in a minute
	}
	p := r[k].add(now)
	r[k] = p
	return p.count
}

// perMinute counts events of about the last minute: each counts e^(−age/1 min).
type perMinute struct {
	count float64
	at    time.Time
}

// add counts one.
func (p perMinute) add(now time.Time) perMinute {
	if p.count > 0 {
		p.count *= math.Exp(-now.Sub(p.at).Minutes())
	}
	return perMinute{p.count + 1, now}
}

// maxBalance is for how many audits like the last a route may save up.
const maxBalance = 50

// budget is what a route's audits may still cost, in the price of tokens.
type budget struct{ balance, last float64 }

// earn adds a share of what the target cost.
func (b *budget) earn(cost float64) {
	limit := maxBalance * b.last
	if b.last == 0 {
		limit = maxBalance * cost // until one audit has shown what they cost
	}
	b.balance = min(b.balance+cost, max(limit, 0))
}

// spend takes what an audit cost.
func (b *budget) spend(cost float64) {
	if b.balance -= cost; cost > 0 { // an audit that asked nobody says nothing of the next
		b.last = cost
	}
}

// TargetCost is what the tokens that the target computed cost, in USD where prices are known (priced), else in tokens. The
// prompt counts where the target wrote something behind it.
func TargetCost(t receipt.Tally, p economy.Prices) (cost float64, priced bool) {
	prompt := t.Scored
	if t.Target > 0 {
		prompt += t.Prompt
	}
	if !p.Known() {
		return float64(prompt + t.Target), false
	}
	return float64(prompt)*p.TargetPrefill + float64(t.Target)*p.TargetDecode, true
}
