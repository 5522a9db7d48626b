package evidence

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

const (
	// maxFrontierKeys bounds the kinds of request, the most recently seen first: each takes about 20 ms.
	maxFrontierKeys = 32
	// inUse is the time, before the last use of the route's latest class, within which another class counts
	// as in use. Classes of former models do not count.
	inUse = 10 * time.Minute
	// rateWindow is the time over which the rate of audits is measured.
	rateWindow = time.Hour
)

// Summaries returns all current states for people.
func (st *Store) Summaries(ctx context.Context) ([]risk.Summary, error) {
	known, err := st.All(ctx)
	summaries := make([]risk.Summary, len(known))
	for i := range known {
		summaries[i] = st.summary(&known[i])
	}
	return summaries, err
}

func (st *Store) summary(k *risk.KeyState) risk.Summary {
	return k.Summary(st.Now(), st.Warmup(k.Key.Route))
}

// Frontiers returns what each maximum of disagreement would give for the kinds of request in use.
func (st *Store) Frontiers(ctx context.Context) (all risk.Frontiers, err error) {
	st.frontier.Lock()
	defer st.frontier.Unlock()
	known, logs, err := st.history(ctx)
	known, all.Omitted = inFrontier(known)
	for i := range known {
		k := &known[i]
		var audits []risk.LogEntry // of the grid and alarm in force
		for _, e := range logs[k.Key.Route] {
			if e.Key == k.Key && e.Version == k.State.Version && e.Alarm == k.State.Alarm {
				audits = append(audits, e)
			}
		}
		all.Frontiers = append(all.Frontiers, risk.FrontierOf(k, audits, perMinute(audits, st.Now()), st.Economics(k.Key)))
	}
	return all, err
}

// Applications returns what the audits of the last day tell of the applications of all routes, route by route.
func (st *Store) Applications(ctx context.Context) (all []risk.Application, err error) {
	st.frontier.Lock()
	defer st.frontier.Unlock()
	states, logs, err := st.history(ctx)
	for _, route := range slices.Sorted(maps.Keys(logs)) {
		all = append(all, risk.ApplicationsOf(risk.ApplicationSources{
			Route: route, Log: logs[route], States: states, Now: st.Now(), Warmup: st.Warmup(route), Economics: st.Economics,
		})...)
	}
	return all, err
}

// history returns all states, and the audits of each route. It reads whole logs, so one caller does at a time.
func (st *Store) history(ctx context.Context) ([]risk.KeyState, map[string][]risk.LogEntry, error) {
	routes, err := st.Routes(ctx)
	if err != nil {
		return nil, nil, err
	}
	states, err := st.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	logs := map[string][]risk.LogEntry{}
	for _, route := range routes {
		if logs[route], err = st.Audits(ctx, route); err != nil {
			return nil, nil, err
		}
	}
	return states, logs, nil
}

// inFrontier returns the states of the kinds in use, and how many of these it has left out.
func inFrontier(known []risk.KeyState) (states []risk.KeyState, omitted int) {
	last := map[string]time.Time{}
	for i := range known {
		if k := &known[i]; k.State.Used.After(last[k.Key.Route]) {
			last[k.Key.Route] = k.State.Used
		}
	}
	return latest(slices.DeleteFunc(known, func(k risk.KeyState) bool { return last[k.Key.Route].Sub(k.State.Used) > inUse }), maxFrontierKeys)
}

// latest returns the states that were used last, at most so many, sorted by key, and how many it has left out.
func latest(states []risk.KeyState, most int) (kept []risk.KeyState, omitted int) {
	if omitted = len(states) - most; omitted <= 0 {
		return states, 0
	}
	slices.SortStableFunc(states, func(a, b risk.KeyState) int { return b.State.Used.Compare(a.State.Used) })
	states = states[:most]
	slices.SortFunc(states, byKey)
	return states, omitted
}

func byKey(a, b risk.KeyState) int { return strings.Compare(a.Key.String(), b.Key.String()) }

// perMinute returns the rate of audits in the last hour; 0 if fewer than two are known.
func perMinute(entries []risk.LogEntry, now time.Time) float64 {
	at := slices.IndexFunc(entries, func(e risk.LogEntry) bool { return now.Sub(e.When) <= rateWindow })
	if at < 0 || len(entries)-at < 2 {
		return 0
	}
	return float64(len(entries)-at) / max(now.Sub(entries[at].When).Minutes(), 1)
}
