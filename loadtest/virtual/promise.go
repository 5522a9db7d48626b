package virtual

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/risk"
)

// promises reports whether some case of a scenario promises a disagreement, or is
// compared with one that knows it.
func promises(s *loadtest.Scenario) bool {
	for i := range s.Cases {
		c := &s.Cases[i]
		if c.Oracle > 0 {
			return true
		}
		snapshot, _ := settings.FromHash(c.Settings, []string{route}, nil) // what is wrong with them was told before
		if c.Draft != nil && snapshot.Route(route).Tiers.Mode.Audited() {
			return true
		}
	}
	return false
}

// prepareOracle takes the census of a case that needs one, and finds its oracle's thresholds.
func (l *lab) prepareOracle() {
	if l.pools["draft"] == nil {
		return
	}
	if l.work.Closed() || !promises(l.scenario) || l.scenario.Audits == 0 {
		return
	}
	if l.sample = l.sampleDrafts(); l.spec.Oracle == 0 {
		return
	}
	l.oracles = map[string][]float64{}
	for _, bucket := range l.sample.buckets() {
		for e := range l.eras {
			best, _ := l.sample.loosest(bucket, e, l.spec.Oracle)
			l.oracles[bucket] = append(l.oracles[bucket], best)
		}
	}
}

// BestAcceptance is the share of drafts that thresholds accept which nobody can know, the loosest with which at most the
// case's Oracle of them disagree: from as many drafts as the scenario's Audits, which are judged without a run. The case has
// drafts and an Oracle.
func BestAcceptance(s *loadtest.Scenario, c *loadtest.Case, seed uint64) (accepts float64, err error) {
	l, err := newLab(s, c, seed)
	if err != nil || l.sample == nil {
		return 0, err
	}
	for _, bucket := range l.sample.buckets() {
		_, share := l.sample.loosest(bucket, 0, c.Oracle)
		accepts += l.sample.share[bucket] * share
	}
	return accepts, nil
}

// promise sums up what became of the disagreement that was allowed, and tells it of each
// kind of request.
func (l *lab) promise() (*loadtest.Promise, []string) {
	p := &loadtest.Promise{Eps: l.values.Tiers.Risk.Rule.MaxDisagreement}
	if l.spec.Oracle > 0 {
		p.Eps = l.spec.Oracle
	}
	for i, tier := range []string{"draft", "target"} {
		p.USD[i], p.AuditsUSD[i] = priced(l.pools[tier], vllmsim.UsualSequences)
		p.WideUSD[i], _ = priced(l.pools[tier], 2*vllmsim.UsualSequences)
	}
	if l.sample == nil {
		return p, nil
	}
	p.Base[0], p.AUROC[0] = l.sample.base(0)
	if last := len(l.eras) - 1; last > 0 {
		p.Base[1], p.AUROC[1] = l.sample.base(last)
	}
	notes := []string{}
	for _, bucket := range l.sample.buckets() {
		notes = append(notes, l.kept(p, bucket))
	}
	if says := l.refits.says(); says != "" {
		notes = append(notes, l.spec.Name+", refits: "+says)
	}
	e := l.evidence
	p.Audits, p.Lost = e.booked, e.booked-e.closed
	return p, notes
}

// priced is what a pool's tokens cost that were computed in the measured time, and those of audits, by
// the prices of tokens with so many sequences at once. Scores cost the logits of their tokens, too.
func priced(p *engines.Pool, sequences int) (usd, ofAudits float64) {
	if p == nil {
		return 0, 0
	}
	prefill, decode := p.PricesAt(sequences)
	price := func(s engines.Spent) float64 {
		return (float64(s.Prefilled)+float64(s.Scored)*p.Profile.LMHead)*prefill + float64(s.Decoded)*decode
	}
	all, audits := p.Spent()
	return price(all), price(audits)
}

// kept adds one kind of request to p, and words it.
func (l *lab) kept(p *loadtest.Promise, bucket string) string {
	share := l.sample.share[bucket]
	above, served, until, last := l.above(p.Eps, bucket)
	best := [2]float64{}
	_, best[0] = l.sample.loosest(bucket, 0, p.Eps)
	if last := len(l.eras) - 1; last > 0 {
		_, best[1] = l.sample.loosest(bucket, last, p.Eps)
	}
	for i := range above {
		p.Above[i] += share * above[i]
		p.Best[i] += share * best[i]
	}
	p.Recovered = max(p.Recovered, until)
	name, _, _ := strings.Cut(bucket, ".")
	text := fmt.Sprintf("%s, kind %s (%.0f %% of the drafts): above ε %.2f and %.2f of the time before and after the drift, until %s after it; accepts %.3f and %.3f of the drafts, the best %.3f and %.3f; lets through %.3f ± %.3f at the end",
		l.spec.Name, name, 100*share, above[0], above[1], until.Round(time.Second), served[0], served[1], best[0], best[1], last.risk, last.deviation())
	k := risk.Key{Route: route, TrafficClass: bucket}
	if s := l.evidence.states()[plan.ScoredBy(k, l.values.Tiers.Accept.ScoreVersion())]; s != nil {
		text += l.shown(p, k, s)
	}
	return text
}

// shown adds what an operator saw of a kind of request to p, and words it.
func (l *lab) shown(p *loadtest.Promise, k risk.Key, s *risk.State) string {
	sum := (&risk.KeyState{State: *s, Rule: l.evidence.rule()}).Summary(l.clock.Now(), 0)
	for version := range l.values.Tiers.Accept.ScoreVersion() + 1 {
		if of := l.evidence.states()[plan.ScoredBy(k, version)]; of != nil {
			p.Alarms += int(of.Alarm)
		}
	}
	first, ok := l.evidence.first[k]
	if sum.Op > 0 {
		p.Bound = math.Max(p.Bound, sum.Bound)
	}
	if ok {
		p.All = max(p.All, first)
		if p.First == 0 || first < p.First {
			p.First = first
		}
	}
	return fmt.Sprintf("; first certificate %s, %d alarms, at the end op %d, bound %.3f, %d audits with an outcome",
		first.Round(time.Second), s.Alarm, sum.Op, sum.Bound, sum.Audits)
}

// above tells in which share of the time before and after the first drift the threshold in force
// let through more than eps, the share of drafts that it accepted, and until how long after the
// drift there was too much, and what is let through at the end.
func (l *lab) above(eps float64, bucket string) (above, accepts [2]float64, until time.Duration, last share) {
	var whole [2]float64
	l.inForce(bucket, func(era int, c change, to time.Duration) {
		i, secs := min(era, 1), (to - c.at).Seconds()
		whole[i] += secs
		if last = (share{}); !c.serves {
			return
		}
		sample := l.refits.sample(c.version)
		accepted := sample.accepts(bucket, era, c.threshold)
		accepts[i] += secs * accepted
		last = share{sample.risk(bucket, era, c.threshold), accepted * float64(len(l.sample.kinds[bucket][era]))}
		if last.risk > eps {
			if above[i] += secs; era > 0 {
				until = to - l.eras[1].from
			}
		}
	})
	for i, w := range whole {
		if w > 0 {
			above[i] /= w
			accepts[i] /= w
		}
	}
	return above, accepts, until, last
}

// share is a share of so many.
type share struct{ risk, of float64 }

// deviation is its standard deviation.
func (s share) deviation() float64 {
	if s.of == 0 {
		return 0
	}
	return math.Sqrt(s.risk * (1 - s.risk) / s.of)
}

// inForce tells which thresholds a kind of request went by in the measured time, era by era.
func (l *lab) inForce(bucket string, tell func(era int, c change, to time.Duration)) {
	for e, begin := range l.eras {
		end := l.scenario.Duration
		if e+1 < len(l.eras) {
			end = l.eras[e+1].from
		}
		at := change{at: max(begin.from, l.scenario.Warmup), bucket: bucket}
		for _, c := range l.evidence.changes {
			if c.bucket != bucket || c.at >= end {
				continue
			}
			if best := l.oracles[bucket]; best != nil {
				c.threshold, c.serves = best[e], !math.IsInf(best[e], 1)
			}
			if c.at > at.at {
				tell(e, at, c.at)
				at.at = c.at
			}
			at.version, at.threshold, at.serves = c.version, c.threshold, c.serves
		}
		if at.at < end {
			tell(e, at, end)
		}
	}
}
