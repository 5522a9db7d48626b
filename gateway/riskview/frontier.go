package riskview

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
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
	// inUse is the time, before the last use of the route's latest class, within which another class counts
	// as in use. Classes of former models do not count.
	inUse = 10 * time.Minute
	// rateWindow is the time over which the rate of audits is measured.
	rateWindow = time.Hour
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

// Frontiers returns what each maximum of disagreement would give for the kinds of request in use (GET /admin/risk/frontier). One
// caller computes at a time; the others get its result.
func (s *Watcher) Frontiers(ctx context.Context) (gateway.RiskFrontiers, error) {
	s.frontierMu.Lock()
	defer s.frontierMu.Unlock()
	now := time.Now()
	if s.frontiers != nil && now.Sub(s.frontiersAt) < frontierInterval {
		return *s.frontiers, nil
	}
	known, err := s.Evidence.All(ctx)
	if err != nil {
		return gateway.RiskFrontiers{}, err
	}
	known, omitted := inFrontier(known)
	audits, err := auditsOf(ctx, s.Evidence, known)
	if err != nil {
		return gateway.RiskFrontiers{}, err
	}
	f := gateway.RiskFrontiers{Omitted: omitted}
	for i := range known {
		if err := ctx.Err(); err != nil {
			return gateway.RiskFrontiers{}, err
		}
		k := &known[i]
		f.Frontiers = append(f.Frontiers, s.frontierOf(k, audits[k.Key], now))
	}
	s.frontiers, s.frontiersAt = &f, now
	return f, nil
}

// inFrontier returns the states whose drafts are accepted on their own score, of the kinds in use, and how many others of
// these there are.
func inFrontier(known []risk.KeyState) (states []risk.KeyState, omitted int) {
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
	slices.SortStableFunc(states, func(a, b risk.KeyState) int { return b.Seen.Compare(a.Seen) })
	states = states[:maxFrontierKeys]
	slices.SortFunc(states, func(a, b risk.KeyState) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return states, omitted
}

// auditsOf reads the audits of states from the log: those of the grid and alarm in force.
func auditsOf(ctx context.Context, book *evidence.Store, known []risk.KeyState) (map[risk.Key][]risk.LogEntry, error) {
	states := map[risk.Key]*risk.State{}
	for i := range known {
		if known[i].State.Version != 0 {
			states[known[i].Key] = &known[i].State
		}
	}
	audits := map[risk.Key][]risk.LogEntry{}
	err := book.Log(ctx, func(e risk.LogEntry) error {
		state := states[e.Key]
		if state == nil || e.Version != state.Version || e.Alarm != state.Alarm {
			return nil
		}
		e.Features = nil
		audits[e.Key] = append(audits[e.Key], e)
		return nil
	})
	return audits, err
}

// frontierOf returns the frontier of one state, by the label in force.
func (s *Watcher) frontierOf(k *risk.KeyState, entries []risk.LogEntry, now time.Time) gateway.RiskFrontier {
	c := s.Config(k.Key.Route)
	m := frontierMaker{key: k, config: c, economics: s.Economics(k.Key), perMinute: perMinute(entries, now)}
	in := risk.FrontierInput{Grid: k.State.Grid, Rule: k.Rule}
	for i := range entries {
		e := &entries[i]
		in.Samples = append(in.Samples, risk.Sample{Score: e.Score, Floor: e.Floor, Bad: e.Label == risk.Bad, Lost: e.Label == risk.Lost})
	}
	return m.view(risk.FrontierOf(in))
}

// perMinute returns the rate of audits in the last hour; 0 if fewer than two are known.
func perMinute(entries []risk.LogEntry, now time.Time) float64 {
	at := slices.IndexFunc(entries, func(e risk.LogEntry) bool { return now.Sub(e.When) <= rateWindow })
	if at < 0 || len(entries)-at < 2 {
		return 0
	}
	return float64(len(entries)-at) / max(now.Sub(entries[at].When).Minutes(), 1)
}

// frontierMaker makes views of the frontiers of one state.
type frontierMaker struct {
	key       *risk.KeyState
	config    *plan.Config
	economics Economics
	perMinute float64 // audits
}

func (m *frontierMaker) view(f risk.Frontier) gateway.RiskFrontier {
	k := m.key
	v := gateway.RiskFrontier{
		Route: k.Key.Route, TrafficClass: k.Key.TrafficClass, Label: string(m.config.Risk.Label), MaxDisagreement: k.Rule.MaxDisagreement, ErrorProbability: k.Rule.ErrorProbability,
		Known: f.Known, Audits: f.Audits, Lost: f.Lost, Bad: f.Bad, FullRange: f.FullRange, Needed: f.Needed, Priced: m.economics.Prices.Complete(),
		Thresholds: []gateway.FrontierThreshold{}, // none before a grid is placed
	}
	if m.economics.PerDay > 0 {
		v.RequestsPerDay = &m.economics.PerDay
	}
	for i := range f.Thresholds {
		t := &f.Thresholds[i]
		v.Thresholds = append(v.Thresholds, gateway.FrontierThreshold{Threshold: t.Threshold, Share: t.Share, Disagreement: t.Risk})
	}
	for i := range f.Points {
		v.Points = append(v.Points, m.point(&f.Points[i], f.Known))
	}
	return v
}

func (m *frontierMaker) point(p *risk.FrontierPoint, known bool) gateway.FrontierPoint {
	v := gateway.FrontierPoint{
		MaxDisagreement: p.MaxDisagreement, InForce: p.MaxDisagreement == m.key.Rule.MaxDisagreement, Certified: p.Low > 0,
		Share: p.Share, Disagreement: p.Risk,
	}
	if !math.IsInf(p.MoreAudits, 0) {
		v.Audits = &p.MoreAudits
		if m.perMinute > 0 {
			v.Seconds = new(60 * p.MoreAudits / m.perMinute)
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
func rangeOf(v [3]float64) *risk.Range {
	return &risk.Range{Low: slices.Min(v[:]), Estimate: v[1], High: slices.Max(v[:])}
}
