package audit

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/risk"
)

// maxClasses bounds the traffic classes whose rate is measured.
const maxClasses = 1024

// rates holds the request rates of traffic classes.
type rates map[risk.Key]perMinute

// add counts a request and returns the class's requests per minute.
func (r rates) add(k risk.Key, now time.Time) float64 {
	if _, known := r[k]; !known && len(r) >= maxClasses {
		clear(r) // the rates are learned again within a minute
	}
	p := r[k].add(now)
	r[k] = p
	return p.count
}

// perMinute is an exponentially decaying count of events: each counts e^(−age/1 min).
type perMinute struct {
	count float64
	last  time.Time
}

// add counts one event.
func (p perMinute) add(now time.Time) perMinute {
	return perMinute{p.at(now) + 1, now}
}

// at is the count at a time.
func (p perMinute) at(now time.Time) float64 {
	if p.count == 0 {
		return 0
	}
	return p.count * math.Exp(-now.Sub(p.last).Minutes())
}

// maxBalance bounds the balance of a budget, as a multiple of the last audit's cost.
const maxBalance = 50

// budget is what the audits of a route may still cost, in the unit of token prices.
type budget struct{ balance, last float64 }

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

// TargetCost returns the cost of the target's tokens: in USD if prices are known (priced), else in tokens. It includes
// the prompt if the target generated anything.
func TargetCost(t inflight.Tally, p economy.Prices) (cost float64, priced bool) {
	prompt := t.Scored
	if t.Target > 0 {
		prompt += t.Prompt
	}
	if !p.Complete() {
		return float64(prompt + t.Target), false
	}
	return float64(prompt)*p.TargetPrefill + float64(t.Target)*p.TargetDecode, true
}
