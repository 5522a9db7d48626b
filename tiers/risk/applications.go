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
	Served       float64  `json:"served"`       // share of them that the score served, or would have served
	Disagreement *float64 `json:"disagreement"` // share of the served ones that the target refuses; null: none was audited

	// What is saved a day, against the target alone, if just those drafts are served that the target stands by; negative if
	// drafts cost more. Null without prices, and without audits.
	USD    *float64 `json:"usd_per_day"`
	Tokens *float64 `json:"tokens_per_day"` // answer tokens that drafts write in the place of the target
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
func ApplicationsOf(route string, log []LogEntry, now time.Time, economics func(Key) Economics) []Application {
	log = slices.DeleteFunc(slices.Clone(log), func(e LogEntry) bool { return now.Sub(e.When) > applicationWindow || e.Chance <= 0 })
	if len(log) == 0 {
		return nil
	}
	total, byName := map[Key]float64{}, map[string]*applicationAudits{}
	for i := range log {
		e := &log[i]
		total[e.Key] += 1 / e.Chance
		name := cmp.Or(e.Application, Other)
		if byName[name] == nil {
			byName[name] = &applicationAudits{}
		}
		byName[name].add(e)
	}
	days := max(now.Sub(log[0].When), minApplicationSpan).Hours() / 24
	known := map[Key]Economics{}
	for k := range total {
		known[k] = economics(k)
	}
	var all []Application
	for name, a := range foldOthers(byName) {
		v := a.view(days)
		v.Route, v.Name = route, name
		if a.labelled > 0 {
			v.save(a.byKey, total, known)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Application) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), cmp.Compare(b.Drafts, a.Drafts), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// foldOthers adds the applications with too few audits, and those beyond the largest ones, to Other.
func foldOthers(byName map[string]*applicationAudits) map[string]*applicationAudits {
	names := slices.SortedFunc(maps.Keys(byName), func(a, b string) int {
		return cmp.Or(cmp.Compare(byName[b].drafts, byName[a].drafts), cmp.Compare(a, b))
	})
	kept := map[string]*applicationAudits{}
	for _, name := range names {
		a := byName[name]
		switch {
		case name == Other || a.entries < minApplicationAudits || len(kept) >= maxApplications-1:
			if kept[Other] == nil {
				kept[Other] = &applicationAudits{}
			}
			kept[Other].merge(a)
		default:
			kept[name] = a
		}
	}
	return kept
}

// applicationAudits are sums over audits, each weighted by one in its chance.
type applicationAudits struct {
	entries  int     // audits, lost ones among them
	outcomes int     // with an outcome
	drafts   float64 // that the audits stand for
	served   float64
	byKey    map[Key]float64 // drafts

	labelled, good, squares  float64 // of audits with an outcome; squares of the weights
	servedLabelled, servedOK float64
}

func (a *applicationAudits) add(e *LogEntry) {
	w := 1 / e.Chance
	a.entries++
	a.drafts += w
	if e.Served {
		a.served += w
	}
	if a.byKey == nil {
		a.byKey = map[Key]float64{}
	}
	a.byKey[e.Key] += w
	if e.Label == Lost {
		return
	}
	a.outcomes++
	a.labelled, a.squares = a.labelled+w, a.squares+w*w
	good := 0.0
	if e.Label == Good {
		good = w
	}
	a.good += good
	if e.Served {
		a.servedLabelled, a.servedOK = a.servedLabelled+w, a.servedOK+good
	}
}

func (a *applicationAudits) merge(b *applicationAudits) {
	a.entries, a.outcomes = a.entries+b.entries, a.outcomes+b.outcomes
	a.drafts, a.served = a.drafts+b.drafts, a.served+b.served
	a.labelled, a.good, a.squares = a.labelled+b.labelled, a.good+b.good, a.squares+b.squares
	a.servedLabelled, a.servedOK = a.servedLabelled+b.servedLabelled, a.servedOK+b.servedOK
	if a.byKey == nil {
		a.byKey = map[Key]float64{}
	}
	for k, w := range b.byKey {
		a.byKey[k] += w
	}
}

// view returns the sums for people. Weighted audits count for as many equal ones as have the same variance (Kish 1965).
func (a *applicationAudits) view(days float64) Application {
	v := Application{Drafts: a.drafts / days, Audits: a.outcomes, Served: a.served / a.drafts, Agreement: Range{High: 1}}
	if a.labelled > 0 {
		p := a.good / a.labelled
		n := int(a.labelled * a.labelled / a.squares)
		low, high := shareInterval(n, int(p*float64(n)+.5), applicationDelta)
		v.Agreement = Range{min(low, p), p, max(high, p)}
	}
	if a.servedLabelled > 0 {
		v.Disagreement = new(1 - a.servedOK/a.servedLabelled)
	}
	return v
}

// save sets what is saved a day: of each of the keys its own share.
func (a *Application) save(byKey, total map[Key]float64, known map[Key]Economics) {
	usd, tokens, priced, measured := 0.0, 0.0, true, false
	for k, w := range byKey {
		e := known[k]
		if e.PerDay <= 0 {
			continue
		}
		u, t := e.Saved(a.Agreement.Estimate, true)
		usd, tokens, priced, measured = usd+u*w/total[k], tokens+t*w/total[k], priced && e.Priced, true
	}
	if !measured {
		return
	}
	a.Tokens = &tokens
	if priced {
		a.USD = &usd
	}
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
