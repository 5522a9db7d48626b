package virtual

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// The gateway's bounds of audits (tiers/auditor.go).
const (
	mostAudits  = 64                     // under way or waiting, in one replica
	auditWait   = time.Minute            // for room
	auditPause  = 500 * time.Millisecond // between two looks
	auditTries  = 3                      // once it is booked
	purseAudits = 50                     // that may be saved up for
)

// auditor says how many audits a replica may have, as the gateway's does.
type auditor struct {
	lab            *lab
	under, working int
	rates          map[risk.Key]*perMinute
	balance, last  float64 // USD
}

// perMinute counts events of about the last minute: each counts e^(−age/1 min).
type perMinute struct {
	count float64
	at    time.Duration
}

// rate counts a request of a kind, and tells how many there are in a minute.
func (a *auditor) rate(k risk.Key) float64 {
	p, now := a.rates[k], a.lab.clock.now
	if p == nil {
		p = &perMinute{at: now}
		a.rates[k] = p
	}
	p.count = p.count*math.Exp(-(now-p.at).Minutes()) + 1
	p.at = now
	return p.count
}

// may reports whether another audit may be decided on, where the target has capacity to spare whatever the budget is.
func (a *auditor) may(spare bool) bool {
	r := &a.lab.values.Tiers.Risk
	return r.AtOnce > 0 && a.under < mostAudits && (spare || r.Spend == 0 || a.balance >= 0)
}

// earn puts a share of what the target cost into the purse.
func (a *auditor) earn(usd float64) {
	if a.balance += usd; a.last > 0 {
		a.balance = min(a.balance, purseAudits*a.last)
	}
}

// spend takes out what an audit cost.
func (a *auditor) spend(usd float64) {
	a.balance -= usd
	if usd > 0 {
		a.last = usd
	}
}

// start takes a place among those that are under way; end gives it back.
func (a *auditor) start() bool {
	if a.under >= mostAudits {
		return false
	}
	a.under++
	return true
}

func (a *auditor) end() { a.under-- }

// enter waits for a place at the pools; then is told whether there was one in time. Who has one
// gives it back by leave.
func (a *auditor) enter(then func(ok bool)) {
	deadline := a.lab.clock.now + auditWait
	var look func()
	look = func() {
		switch {
		case a.working < a.lab.values.Tiers.Risk.AtOnce:
			a.working++
			then(true)
		case a.lab.clock.now >= deadline:
			then(false)
		default:
			a.lab.clock.after(auditPause, look)
		}
	}
	look()
}

func (a *auditor) leave() { a.working-- }
