package virtual

import (
	"fmt"
	"maps"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers/plan"
)

// settingsDelay is how long a live setting takes to be in force: half of the time between two looks of the gateway.
const settingsDelay = 250 * time.Millisecond

// planChanges puts the settings that operators set in the middle of the run among the events. Those of a score that refits
// have promoted stay.
func (l *lab) planChanges() error {
	for i := range l.scenario.Changes {
		c := &l.scenario.Changes[i]
		changed := maps.Clone(l.spec.Settings)
		if changed == nil {
			changed = map[string]string{}
		}
		maps.Copy(changed, c.Settings)
		snapshot, rejected := settings.FromHash(changed, []string{route}, nil)
		if len(rejected) > 0 {
			return fmt.Errorf("changes[%d]: %s: %s", i, rejected[0].Name, rejected[0].Reason)
		}
		usual, next := l.values, snapshot.Route(route)
		if err := l.runs(next); err != nil {
			return fmt.Errorf("changes[%d]: %w", i, err)
		}
		set := func(to *settings.Values) {
			to.Tiers.Risk.ScoreVersion = l.values.Tiers.Risk.ScoreVersion
			l.values = to
		}
		l.clock.At(c.At+settingsDelay, func() { set(next) })
		if c.For > 0 {
			l.clock.At(c.At+c.For+settingsDelay, func() { set(usual) })
		}
	}
	return nil
}

// planOutages has Redis away for some times. What it has kept is there afterwards, as with a failover.
func (l *lab) planOutages() {
	for _, o := range l.scenario.Outages {
		away := func(away bool) func() {
			return func() { l.redisAway, l.answers.Away, l.generations.Away = away, away, away }
		}
		l.clock.At(o.At, away(true))
		l.clock.At(o.At+o.For, away(false))
	}
}

// routed is the tier that the client of a request demands, where a router chooses by chance.
func (l *lab) routed(share float64, number int) plan.Tier {
	if engines.Unit(l.seed, 4<<32, uint64(number)) < share {
		return plan.Draft
	}
	return plan.Target
}
