package risk

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Application is what the audits of a day tell of one application of a route: where drafts agree. As JSON it is one of GET
// /admin/risk/applications; null means not known. Each audit stands for as many drafts as one in its chance of being drawn, so
// that audits of good scores, which are more frequent, do not count for more than they are (Horvitz and Thompson 1952).
type Application struct {
	Route  string  `json:"route"`
	Name   string  `json:"application"`    // tenant/name or tenant/fingerprint, see package application; Other for the rest
	Drafts float64 `json:"drafts_per_day"` // at all replicas
	Audits int     `json:"audits"`         // that have an outcome

	Agreement    Range    `json:"agreement"`    // share of all its drafts that the target stands by
	Served       float64  `json:"served"`       // share of all its requests that the score served, or would have served
	Disagreement *float64 `json:"disagreement"` // share of the served ones that the target refuses; null: none was audited
	ApplicationState

	// What is saved a day, against the target alone, if just those drafts are served that the target stands by; negative if
	// drafts cost more. Null without prices, and without audits.
	USD    *float64 `json:"usd_per_day"`
	Tokens *float64 `json:"tokens_per_day"` // answer tokens that drafts write in the place of the target
	// The same for what is served, or would have been.
	SavedUSD    *float64 `json:"saved_usd_per_day"`
	SavedTokens *float64 `json:"saved_tokens_per_day"`
}

// ApplicationSources are what [ApplicationsOf] reads of a route.
type ApplicationSources struct {
	Route     string
	Log       []LogEntry
	States    []KeyState // of its traffic classes
	Now       time.Time
	Warmup    time.Duration // how long the warm-up of a class lasts at most
	Economics func(Key) Economics
}

const (
	// Other is the application of audits whose own has too few, or is not among the first.
	Other = "other"
	// maxApplications is how many applications a route has, those with most drafts, Other among them.
	maxApplications = 256
	// minApplicationAudits is the fewest audits of an application. One prompt that came once is none.
	minApplicationAudits = 3
	// applicationWindow is the time whose audits count, and minApplicationSpan the least time that they are taken for.
	applicationWindow, minApplicationSpan = 24 * time.Hour, 10 * time.Minute
	// applicationDelta is the probability that a range of agreement does not hold it.
	applicationDelta = 0.05
)

// ApplicationsOf returns the applications of a route by its audits, sorted by what they save, then by drafts a day.
func ApplicationsOf(in ApplicationSources) []Application {
	now := in.Now
	log := slices.DeleteFunc(slices.Clone(in.Log), func(e LogEntry) bool { return now.Sub(e.When) > applicationWindow || e.Chance <= 0 })
	if len(log) == 0 {
		return nil
	}
	own := ownApplications(log)
	total, byName := map[Key]float64{}, map[string]*applicationAudits{}
	for i := range log {
		e, name := &log[i], Other
		if own[e.Application] {
			name = e.Application
		}
		if byName[name] == nil {
			byName[name] = &applicationAudits{byKey: map[Key]float64{}}
		}
		byName[name].add(e)
		total[e.Key] += 1 / e.Chance
	}
	days := max(now.Sub(log[0].When), minApplicationSpan).Hours() / 24
	known, states := map[Key]Economics{}, map[Key]*classState{}
	for k := range total {
		known[k] = in.Economics(k)
	}
	for i := range in.States {
		if k := &in.States[i]; total[k.Key] > 0 {
			states[k.Key] = k.forApplications(now, in.Warmup)
		}
	}
	var all []Application
	for name, a := range byName {
		v := a.view(days)
		v.Route, v.Name = in.Route, name
		v.ApplicationState = ApplicationState{Phase: PhaseUncertified, Bound: 1}
		if s := states[a.largest(states)]; s != nil {
			v.ApplicationState = s.of(name, now, in.Warmup)
		}
		if a.outcomes > 0 {
			v.save(a.byKey, total, known)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Application) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), cmp.Compare(b.Drafts, a.Drafts), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// ownApplications returns the applications that have a row of their own: the largest ones, each with enough audits.
func ownApplications(log []LogEntry) map[string]bool {
	audits, drafts := map[string]int{}, map[string]float64{}
	for i := range log {
		if e := &log[i]; e.Application != "" {
			audits[e.Application]++
			drafts[e.Application] += 1 / e.Chance
		}
	}
	maps.DeleteFunc(drafts, func(name string, _ float64) bool { return audits[name] < minApplicationAudits })
	names := slices.SortedFunc(maps.Keys(drafts), func(a, b string) int {
		return cmp.Or(cmp.Compare(drafts[b], drafts[a]), cmp.Compare(a, b))
	})
	own := map[string]bool{}
	for _, name := range names[:min(len(names), maxApplications-1)] {
		own[name] = true
	}
	return own
}

// applicationAudits are sums over audits, each weighted by one in its chance.
type applicationAudits struct {
	outcomes int     // audits with an outcome
	drafts   float64 // that the audits stand for
	served   float64
	byKey    map[Key]float64 // drafts

	all, ofServed Weighed
}

func (a *applicationAudits) add(e *LogEntry) {
	w := 1 / e.Chance
	a.drafts += w
	if e.Served {
		a.served += w
	}
	a.byKey[e.Key] += w
	if e.Label == Lost {
		return
	}
	a.outcomes++
	a.all.add(w, e.Label == Good)
	if e.Served {
		a.ofServed.add(w, e.Label == Good)
	}
}

// largest returns the key with a state of which most of the drafts are; the zero key if none has one.
func (a *applicationAudits) largest(states map[Key]*classState) (best Key) {
	for k, w := range a.byKey {
		if states[k] != nil && (w > a.byKey[best] || w == a.byKey[best] && k.String() < best.String()) {
			best = k
		}
	}
	return best
}

// view returns the sums for people.
func (a *applicationAudits) view(days float64) Application {
	v := Application{Drafts: a.drafts / days, Audits: a.outcomes, Served: a.served / a.drafts, Agreement: Range{High: 1}}
	if low, p, high := a.all.agreement(applicationDelta); a.outcomes > 0 {
		v.Agreement = Range{min(low, p), p, max(high, p)}
	}
	if w := &a.ofServed; w.Closed > 0 {
		v.Disagreement = new(1 - w.Good/w.Closed)
	}
	return v
}

// save sets what is saved a day: of each of the keys its own share.
func (a *Application) save(byKey, total map[Key]float64, known map[Key]Economics) {
	a.USD, a.Tokens = saved(a.Agreement.Estimate, byKey, total, known)
	a.SavedUSD, a.SavedTokens = saved(a.Served, byKey, total, known)
}

// saved returns what is saved a day if such a share of the drafts is served; nil where that is not known.
func saved(share float64, byKey, total map[Key]float64, known map[Key]Economics) (_, _ *float64) {
	usd, tokens, priced, measured := 0.0, 0.0, true, false
	for k, w := range byKey {
		e := known[k]
		if e.PerDay <= 0 {
			continue
		}
		u, t := e.Saved(share, share > 0)
		usd, tokens, priced, measured = usd+u*w/total[k], tokens+t*w/total[k], priced && e.Priced, true
	}
	switch {
	case !measured:
		return nil, nil
	case !priced:
		return nil, &tokens
	}
	return &usd, &tokens
}

// worth is what the order goes by: dollars, or tokens where prices are unknown.
func (a *Application) worth() float64 {
	switch {
	case a.USD != nil:
		return *a.USD
	case a.Tokens != nil:
		return *a.Tokens
	}
	return 0
}
