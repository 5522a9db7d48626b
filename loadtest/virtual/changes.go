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

// read reads settings as a replica does. What no gateway takes, or the lab cannot run, is refused.
func (l *lab) read(all map[string]string) (*settings.Values, error) {
	snapshot, rejected := settings.FromHash(all, []string{route}, nil)
	if rejected = append(rejected, snapshot.Unknown...); len(rejected) > 0 {
		return nil, fmt.Errorf("setting %s: %s", rejected[0].Name, rejected[0].Reason)
	}
	v := snapshot.Route(route)
	if err := l.runs(v); err != nil {
		return nil, err
	}
	return v, nil
}

// planChanges puts the settings that operators set in the middle of the run among the events.
func (l *lab) planChanges() error {
	usual := l.values
	l.evidence.noteSettings()
	for i := range l.scenario.Changes {
		c := &l.scenario.Changes[i]
		changed := maps.Clone(l.spec.Settings)
		if changed == nil {
			changed = map[string]string{}
		}
		maps.Copy(changed, c.Settings)
		next, err := l.read(changed)
		if err != nil {
			return fmt.Errorf("changes[%d]: %w", i, err)
		}
		l.clock.At(l.heard(c.At), func() { l.set(next) })
		if c.For > 0 {
			l.clock.At(l.heard(c.At+c.For), func() { l.set(usual) })
		}
	}
	return nil
}

// set puts settings in force. A score that refits have promoted stays.
func (l *lab) set(v *settings.Values) {
	v.Tiers.Accept.ScoreMap = l.values.Tiers.Accept.ScoreMap
	l.values = v
	l.evidence.noteSettings()
}

// heard is when replicas hear of a setting that an operator sets at a time: without Redis they hear of none.
func (l *lab) heard(at time.Duration) time.Duration {
	at += settingsDelay
	for _, o := range l.scenario.Outages {
		if o.At <= at && at < o.At+o.For {
			at = o.At + o.For + settingsDelay
		}
	}
	return at
}

// planOutages has Redis away for some times.
func (l *lab) planOutages() {
	for _, o := range l.scenario.Outages {
		l.clock.At(o.At, l.redis.Lose)
		l.clock.At(o.At+o.For, func() {
			l.redis.Restore()
			for _, r := range l.replicas {
				l.clock.After(viewEvery/2, r.seen.tick)
			}
		})
	}
}

// routed is the tier that the client of a request demands, where a router chooses by chance.
func (l *lab) routed(share float64, number int) plan.Tier {
	if engines.Unit(l.seed, 4<<32, uint64(number)) < share {
		return plan.Draft
	}
	return plan.Target
}
