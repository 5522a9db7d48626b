package riskview

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// frontierInterval is how long a replica reuses its frontiers, because they read the whole log.
	frontierInterval = 5 * time.Second
	// maxFrontierKeys bounds the kinds of request, the most recently seen first: each takes about 20 ms.
	maxFrontierKeys = 32
	// maxExamples bounds the examples of drafts that two labels call differently.
	maxExamples = 5
)

// Economics is what the requests of one evidence key are like, and what their tokens cost.
type Economics struct {
	PerDay   float64 // requests at all replicas; 0: unknown
	Prompt   float64 // tokens, on average
	Output   float64 // tokens, on average
	Holdback float64 // tokens of a draft that is not served, on average; 0: unknown
	Salvaged float64 // share of these that are in the answer, 0 … 1
	Prices   economy.Prices
}

// saved returns what is saved a day, against the target alone, if a threshold serves a share of the drafts: dollars, and
// answer tokens of the target. Without a threshold drafts are made in the background, to notice if that changes.
func (e Economics) saved(share float64, serves bool, c *plan.Config) (usd, tokens float64) {
	p := e.Prices
	audit := (e.Prompt + e.Output) * p.TargetPrefill // the target reads the prompt and the draft
	if !serves {
		return 0 - e.PerDay*c.Risk.Rates.Explore*(e.Prompt*p.DraftPrefill+e.Output*p.DraftDecode+audit), 0
	}
	sums := economy.EstimateCost(p, economy.Shape{Prompt: int(e.Prompt), Holdback: c.HoldbackTokens},
		economy.Expectation{Samples: 1, UpperBound: share, Output: e.Output, Holdback: e.Holdback, Salvaged: e.Salvaged})
	rest := (1 - share) * max(e.Output-sums.Holdback, 0) * p.DraftDecode // an audited draft is read to its end
	return e.PerDay * (sums.SavingUSD() - c.Risk.Rates.Audit*(audit+rest)), e.PerDay * share * e.Output
}

// Frontiers returns what each maximum wrong rate would give for the kinds of request in use (GET /admin/risk/frontier). One
// caller computes at a time; the others get its result.
func (s *Watcher) Frontiers(ctx context.Context) (gateway.RiskFrontiers, error) {
	s.frontierMu.Lock()
	defer s.frontierMu.Unlock()
	now := s.now()
	if s.frontiers != nil && now.Sub(s.frontiersAt) < frontierInterval {
		return *s.frontiers, nil
	}
	known, err := s.book.All(ctx)
	if err != nil {
		return gateway.RiskFrontiers{}, err
	}
	known, omitted := inFrontier(known)
	audits, err := auditsOf(ctx, s.book, known)
	if err != nil {
		return gateway.RiskFrontiers{}, err
	}
	f := gateway.RiskFrontiers{Omitted: omitted}
	byRoute := map[string][]evidence.LogEntry{}
	for i := range known {
		if err := ctx.Err(); err != nil {
			return gateway.RiskFrontiers{}, err
		}
		k := &known[i]
		entries := audits[k.Key]
		f.Frontiers = append(f.Frontiers, s.frontiersOf(k, entries, now)...)
		byRoute[k.Key.Route] = append(byRoute[k.Key.Route], entries...)
	}
	for _, route := range Routes(known) {
		f.Disagreements = append(f.Disagreements, disagreements(route, byRoute[route], labelInForce(s.config(route)))...)
	}
	s.frontiers, s.frontiersAt = &f, now
	return f, nil
}

// inFrontier returns the states whose drafts are accepted on their own score, of the kinds in use, and how many others of
// these there are.
func inFrontier(known []evidence.KeyState) (states []evidence.KeyState, omitted int) {
	last := map[string]time.Time{}
	for i := range known {
		k := &known[i]
		if k.Seen.After(last[k.Key.Route]) {
			last[k.Key.Route] = k.Seen
		}
	}
	for i := range known {
		if k := &known[i]; last[k.Key.Route].Sub(k.Seen) <= inUse {
			states = append(states, *k)
		}
	}
	if omitted = len(states) - maxFrontierKeys; omitted <= 0 {
		return states, 0
	}
	slices.SortStableFunc(states, func(a, b evidence.KeyState) int { return b.Seen.Compare(a.Seen) })
	states = states[:maxFrontierKeys]
	slices.SortFunc(states, func(a, b evidence.KeyState) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return states, omitted
}

// auditsOf reads the audits of states from the log: those of the grid and alarm in force, by the latest score.
func auditsOf(ctx context.Context, book *evidence.Store, known []evidence.KeyState) (map[risk.Key][]evidence.LogEntry, error) {
	states := map[risk.Key]*risk.State{}
	for i := range known {
		if known[i].State.Version != 0 {
			states[known[i].Key] = &known[i].State
		}
	}
	audits := map[risk.Key][]evidence.LogEntry{}
	err := book.Log(ctx, func(e evidence.LogEntry) error {
		state := states[e.Key]
		if state == nil || e.Version != state.Version || e.Alarm != state.Alarm {
			return nil
		}
		sofar := audits[e.Key]
		if n := len(sofar); n > 0 && sofar[n-1].Map != e.Map {
			sofar = nil // scores of two versions cannot be compared
		}
		e.Features = nil
		audits[e.Key] = append(sofar, e)
		return nil
	})
	return audits, err
}

// frontiersOf returns the frontiers of one state, one for each label.
func (s *Watcher) frontiersOf(k *evidence.KeyState, entries []evidence.LogEntry, now time.Time) []gateway.RiskFrontier {
	c := s.config(k.Key.Route)
	inForce := labelInForce(c)
	labels := labelsKnown(entries, inForce)
	m := frontierMaker{key: k, config: c, perMinute: perMinute(entries, now)}
	if s.economics != nil {
		m.economics = s.economics(k.Key)
	}
	var all []gateway.RiskFrontier
	for _, label := range labels {
		in := risk.FrontierInput{Grid: k.State.Grid, Rule: k.Rule, Labels: len(labels)}
		for i := range entries {
			e := &entries[i]
			if outcome, is := outcomeOf(e, label, inForce); is {
				in.Samples = append(in.Samples, risk.Sample{Score: e.Score, Floor: e.Floor, Outcome: outcome})
			}
		}
		v := m.view(risk.FrontierOf(in))
		v.Label, v.Meaning, v.InForce = label.String(), meanings[label], label == inForce
		if v.Settings = []string{}; !v.InForce {
			v.Settings = labelSettings(label, k.Key.Route)
		}
		all = append(all, v)
	}
	return all
}

// perMinute returns the rate of audits in the last hour; 0 if fewer than two are known.
func perMinute(entries []evidence.LogEntry, now time.Time) float64 {
	at := slices.IndexFunc(entries, func(e evidence.LogEntry) bool { return now.Sub(e.When) <= rateWindow })
	if at < 0 || len(entries)-at < 2 {
		return 0
	}
	return float64(len(entries)-at) / max(now.Sub(entries[at].When).Minutes(), 1)
}

// frontierMaker makes views of the frontiers of one state.
type frontierMaker struct {
	key       *evidence.KeyState
	config    *plan.Config
	economics Economics
	perMinute float64 // audits
}

func (m *frontierMaker) view(f risk.Frontier) gateway.RiskFrontier {
	k := m.key
	v := gateway.RiskFrontier{
		Route: k.Key.Route, TrafficClass: k.Key.TrafficClass, MaxWrongRate: k.Rule.MaxWrongRate, ErrorProbability: k.Rule.ErrorProbability,
		Known: f.Known, Audits: f.Audits, Lost: f.Lost, Bad: f.Bad, FullRange: f.FullRange, Needed: f.Needed, Priced: m.economics.Prices.Complete(),
	}
	if m.economics.PerDay > 0 {
		v.RequestsPerDay = &m.economics.PerDay
	}
	for i := range f.Points {
		v.Points = append(v.Points, m.point(&f.Points[i], f.Known))
	}
	v.Summary = m.describe(&v)
	return v
}

func (m *frontierMaker) point(p *risk.FrontierPoint, known bool) gateway.FrontierPoint {
	v := gateway.FrontierPoint{
		MaxWrongRate: p.MaxWrongRate, InForce: p.MaxWrongRate == m.key.Rule.MaxWrongRate, Certified: p.Low > 0,
		Share: gateway.FrontierRange(p.Share), Wrong: gateway.FrontierRange(p.Risk),
	}
	if !math.IsInf(p.MoreAudits, 0) {
		v.Audits = &p.MoreAudits
		if m.perMinute > 0 {
			v.Seconds = new(60 * p.MoreAudits / m.perMinute)
		}
		if perDay := m.perMinute * 60 * 24; perDay > 0 && m.economics.PerDay > 0 {
			v.Requests = new(math.Ceil(p.MoreAudits * m.economics.PerDay / perDay))
		}
	}
	if !known || m.economics.PerDay <= 0 {
		return v
	}
	var usd, tokens [3]float64
	for i, at := range [...]struct {
		share float64
		index int
	}{{p.Share.Low, p.Low}, {p.Share.Estimate, p.Estimate}, {p.Share.High, p.High}} {
		usd[i], tokens[i] = m.economics.saved(at.share, at.index > 0, m.config)
	}
	v.Tokens = rangeOf(tokens)
	if m.economics.Prices.Complete() {
		v.USD = rangeOf(usd)
	}
	return v
}

// rangeOf returns the range of three values, of which the second is the estimate.
func rangeOf(v [3]float64) *gateway.FrontierRange {
	return &gateway.FrontierRange{Low: slices.Min(v[:]), Estimate: v[1], High: slices.Max(v[:])}
}

// describe is a frontier in one line for people.
func (m *frontierMaker) describe(v *gateway.RiskFrontier) string {
	s := &m.key.State
	audits := display.Count(v.Audits, "audit", "audits")
	switch {
	case s.Version == 0:
		return fmt.Sprintf("nothing can be said: scores are collected to choose the thresholds, %d of %d", len(s.Scores), risk.GridScores)
	case !v.Known && v.Audits > 0 && v.Lost == v.Audits:
		return audits + ", all without an outcome: nothing can be said"
	case !v.Known:
		return fmt.Sprintf("%s: nothing can be said; about %.0f are needed", audits, v.Needed)
	}
	at := slices.IndexFunc(v.Points, func(p gateway.FrontierPoint) bool { return p.InForce })
	if at < 0 {
		return audits
	}
	p := &v.Points[at]
	text := fmt.Sprintf("%s: a maximum wrong rate of %s serves about %s of the drafts (%s … %s)", audits, display.Percent(p.MaxWrongRate),
		roundPercent(p.Share.Estimate), roundPercent(p.Share.Low), roundPercent(p.Share.High))
	if p.Audits == nil {
		return text + "; no threshold is expected to be certified"
	}
	return text
}

// disagreements returns how often a label calls a draft bad and another good, for the pairs with the label in force.
func disagreements(route string, entries []evidence.LogEntry, inForce risk.Label) (all []gateway.LabelDisagreement) {
	for _, d := range evidence.Disagreements(entries, maxExamples) {
		if d.Bad != inForce && d.Good != inForce {
			continue
		}
		v := gateway.LabelDisagreement{Route: route, Bad: d.Bad.String(), Good: d.Good.String(), Both: d.Both, Disagree: d.Disagree, Examples: []gateway.LabelExample{}}
		for i := range d.Examples {
			e := &d.Examples[i]
			v.Examples = append(v.Examples, gateway.LabelExample{
				Request: e.Request, When: e.When.UTC(), TrafficClass: e.Key.TrafficClass, Score: e.Score, Tokens: e.Tokens, Served: e.Served,
			})
		}
		all = append(all, v)
	}
	return all
}

// roundPercent formats a share with one decimal at most.
func roundPercent(share float64) string { return display.OneDecimal(100*share) + "%" }
