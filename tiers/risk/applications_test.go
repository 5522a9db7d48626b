package risk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// drawn are the audits of drafts of two applications, by the decisions of a view with a floor. Good scores are audited more
// often than others, and are more often right.
func drawn(drafts int) (log []LogEntry, truth map[string]float64) {
	random := rand.New(rand.NewPCG(4, 7))
	v := View{Version: 1, Op: 2, Hi: 4, Threshold: -0.2, Floor: -0.5}
	start := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	good, all := map[string]float64{}, map[string]float64{}
	for i := range drafts {
		name, mean := "acme/sums", 0.9
		if i%4 == 0 {
			name, mean = "acme/poems", 0.3
		}
		score := -random.ExpFloat64()
		p := mean * math.Exp(score)
		stands := random.Float64() < p
		all[name]++
		if stands {
			good[name]++
		}
		d := v.Decide(Key{"m", "all"}, Sampling{Rate: .2, FullRange: .1}, random.Float64())
		if !d.Audited || score < d.Floor {
			continue
		}
		log = append(log, LogEntry{
			Audit: Audit{Decision: d.Of(score), Score: score, Application: name}, When: start.Add(time.Duration(i) * 12 * time.Hour / time.Duration(drafts)),
			Served: score >= d.Threshold, Label: LabelOf(!stands),
		})
	}
	truth = map[string]float64{}
	for name := range all {
		truth[name] = good[name] / all[name]
	}
	return log, truth
}

func priced(Key) Economics {
	return Economics{PerDay: 1000, Priced: true, Saved: func(share float64, _ bool) (usd, tokens float64) { return 100*share - 20, 5000 * share }}
}

func TestTheAgreementOfAnApplicationIsThatOfAllItsDrafts(t *testing.T) {
	log, truth := drawn(80_000)
	all := ApplicationsOf(ApplicationSources{Route: "m", Log: log, Now: log[0].When.Add(12 * time.Hour), Economics: priced})
	if len(all) != 2 || all[0].Name != "acme/sums" {
		t.Fatalf("%+v", all)
	}
	for i, drafts := range []float64{120_000, 40_000} {
		a := &all[i]
		if want := truth[a.Name]; math.Abs(a.Agreement.Estimate-want) > .03 || a.Agreement.Low > want || a.Agreement.High < want {
			t.Errorf("%s: agreement %+v, in truth %.3f", a.Name, a.Agreement, want)
		}
		naive, n := 0.0, 0.0
		for _, e := range log {
			if e.Application == a.Name {
				n++
				if e.Label == Good {
					naive++
				}
			}
		}
		if math.Abs(naive/n-truth[a.Name]) < .05 {
			t.Errorf("%s: audits that are counted alike give %.3f, too: nothing is shown", a.Name, naive/n)
		}
		if math.Abs(a.Drafts-drafts) > .06*drafts || math.Abs(a.Served-(1-math.Exp(-.2))) > .03 || *a.Disagreement > 1-truth[a.Name] {
			t.Errorf("%s: %.0f drafts a day, %.3f served, %.3f of them wrong", a.Name, a.Drafts, a.Served, *a.Disagreement)
		}
		want := (100*a.Agreement.Estimate - 20) * drafts / 160_000
		if math.Abs(*a.USD-want) > .06*math.Abs(want)+.5 {
			t.Errorf("%s: %.2f dollars, want %.2f", a.Name, *a.USD, want)
		}
	}
}

func TestPromptsThatComeOnceAreNoApplications(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var log []LogEntry
	add := func(name string, n int) {
		for range n {
			log = append(log, LogEntry{Audit: Audit{Decision: Decision{Key: Key{"m", "all"}, Chance: .5}, Application: name}, When: now.Add(-time.Hour), Label: Good})
		}
	}
	for i := range 5000 {
		add(fmt.Sprint("a/once", i), 1)
	}
	for i := range 300 {
		add(fmt.Sprint("a/app", i), 10)
	}
	add("", 4)
	log = append(log, LogEntry{Audit: Audit{Decision: Decision{Key: Key{"m", "all"}, Chance: .5}, Application: "a/old"}, When: now.Add(-25 * time.Hour), Label: Good})
	all := ApplicationsOf(ApplicationSources{Route: "m", Log: log, Now: now, Economics: func(Key) Economics { return Economics{} }})
	at := slices.IndexFunc(all, func(a Application) bool { return a.Name == Other })
	if len(all) != maxApplications || at < 0 || all[at].Audits != 5000+45*10+4 || all[at].USD != nil || all[at].Disagreement != nil {
		t.Errorf("%d applications, other: %+v", len(all), all[max(at, 0)])
	}
	if ApplicationsOf(ApplicationSources{Route: "m", Now: now, Economics: priced}) != nil {
		t.Error("applications of nothing")
	}
}
