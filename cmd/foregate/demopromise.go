package main

import (
	"time"

	"github.com/foregate/foregate/gateway"
)

// promiseEvery is between two lines about a promise whose state stays the same.
const promiseEvery = 15 * time.Second

// promiseReport tells on a demonstration's screen how the promise of its route stands.
type promiseReport struct {
	say   func(line string)
	state gateway.RiskState // that was told last
	at    time.Time
}

// tell says how the promises stand: at once where the state is another, else every quarter of a minute.
func (r *promiseReport) tell(promises []gateway.RiskSummary, now time.Time) {
	for _, p := range promises {
		if p.Main == nil || p.Main.State == r.state && now.Sub(r.at) < promiseEvery {
			continue
		}
		r.state, r.at = p.Main.State, now
		r.say("          promise of " + p.Route + ": " + p.Main.Summary)
	}
}
