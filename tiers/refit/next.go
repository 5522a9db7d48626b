package refit

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Input is what a decision about one route depends on.
type Input struct {
	Progress Progress
	Rule     risk.Rule
	States   []risk.KeyState // of the route
	Log      []risk.LogEntry // of the route, the oldest first
}

// Action is what a [Step] is about. Its text is a label of metrics.
type Action string

// The actions.
const (
	Wait    Action = "wait"    // there is nothing to do but to keep the progress
	Fit     Action = "fit"     // fit a score to the samples
	Promote Action = "promote" // open the keys, and put the candidate in force if they are certified then

	// The candidate is given up, because:
	DropDrift     Action = "drift"     // a drift alarm came
	DropUncertain Action = "uncertain" // half a lease of audits did not certify it at the acceptance of the score in force
)

// Step is a decision about one route.
type Step struct {
	Do       Action
	Progress Progress // from now on; of Fit and Promote until they are done
	Openings []Opening

	// Of Fit:
	Samples []Sample
	Newest  time.Time // when the newest audit began that there is
	Version int       // number of the new score
}

// Opening is the evidence with which a key of the candidate begins.
type Opening struct {
	Key    risk.Key
	Import risk.Import
	Index  int // that it certifies
}

// Next decides what to do about a route.
func Next(in Input) Step {
	h := historyOf(&in)
	if in.Progress.Candidate.Version != 0 {
		return h.collect(&in)
	}
	return h.fit(&in)
}

// history are the audits of a route that count.
type history struct {
	entries []*risk.LogEntry // by the newest models and rules, and since the last drift alarm of their class
	drifted time.Time        // when the first audit after the newest alarm began; zero: there was none in the log
}

// historyOf chooses the audits. A class is the requests of a key, whatever score judged them.
func historyOf(in *Input) (h history) {
	alarms, drifts := map[risk.Key]int64{}, map[risk.Key]time.Time{} // of drifts by class
	rules := ""
	for i := range in.Log {
		e := &in.Log[i]
		if was, seen := alarms[e.Key]; seen && was != e.Alarm {
			drifts[plan.ScoredBy(e.Key, 0)] = e.When
		}
		alarms[e.Key], rules = e.Alarm, plan.RulesOf(e.Key)
	}
	restarted := map[risk.Key]*risk.State{} // by class: applications that drifted, by the score in force
	for i := range in.States {
		if k := in.States[i].Key; k == plan.ScoredBy(k, in.Progress.Live.Version) && len(in.States[i].State.Restarts) > 0 {
			restarted[plan.ScoredBy(k, 0)] = &in.States[i].State
		}
	}
	for i := range in.Log {
		e := &in.Log[i]
		since := drifts[plan.ScoredBy(e.Key, 0)]
		if s := restarted[plan.ScoredBy(e.Key, 0)]; s != nil && e.When.Before(s.Restarted(e.Application)) {
			continue
		}
		if plan.RulesOf(e.Key) == rules && !e.When.Before(since) && len(e.Features) == len(accept.Features{}) {
			h.entries = append(h.entries, e)
			if since.After(h.drifted) {
				h.drifted = since
			}
		}
	}
	return h
}

// liveScore is the score of a draft by the score in force; false if it is not known.
func (in *Input) liveScore(e *risk.LogEntry) (float64, bool) {
	live := &in.Progress.Live
	switch {
	case plan.ScoreOf(e.Key) == live.Version:
		return e.Score, true
	case live.Version == 0:
		return 0, false // what a fitted score judged has no plain score in the log
	}
	return float64(live.For(e.Application).Score(featuresOf(e))), true
}

// growth is the share of audits that are new when a score is fitted again.
const growth = 0.25

// featuresOf returns the features of an audit that has as many as there are.
func featuresOf(e *risk.LogEntry) (f accept.Features) {
	copy(f[:], e.Features)
	return f
}

// fit decides whether there is enough to fit a score to.
func (h history) fit(in *Input) Step {
	s := Step{Do: Fit, Progress: in.Progress, Version: in.nextVersion()}
	fresh := 0
	for _, e := range h.entries {
		if e.When.After(in.Progress.Fitted) {
			fresh++
		}
		if score, known := in.liveScore(e); known && e.Label != risk.Lost {
			s.Samples = append(s.Samples, Sample{
				Features: featuresOf(e), Score: score, Good: e.Label == risk.Good, Greedy: plan.IsGreedy(e.TrafficClass),
				FullRange: e.IsFullRange(), Application: e.Application,
			})
		}
	}
	if tooFew(s.Samples) != nil || fresh == 0 || float64(fresh) < growth*float64(in.Progress.Samples) {
		return Step{Do: Wait, Progress: in.Progress}
	}
	for i := range in.Log { // an audit that the fit cannot use began before its evidence, too
		if when := in.Log[i].When; when.After(s.Newest) {
			s.Newest = when
		}
	}
	return s
}

// nextVersion is above every version that evidence or audits have: a number is never given to two scores, also if Redis has
// lost the record.
func (in *Input) nextVersion() int {
	last := max(in.Progress.Last, in.Progress.Live.Version)
	for i := range in.States {
		last = max(last, plan.ScoreOf(in.States[i].Key))
	}
	for i := range in.Log {
		last = max(last, plan.ScoreOf(in.Log[i].Key))
	}
	return last + 1
}

// collect decides about the candidate.
func (h history) collect(in *Input) Step {
	p := in.Progress
	drop := func(why Action) Step { return Step{Do: why, Progress: p.withoutCandidate()} }
	if h.drifted.After(p.Fitted) {
		return drop(DropDrift)
	}
	step := Step{Do: Wait, Progress: p}
	audits, ready := 0, true
	certified := map[risk.Key]bool{}
	step.Progress.Audits = 0
	traffic := risk.TrafficOf(h.entries)
	for _, c := range h.classes(in) {
		o, fine := c.judge(in, &traffic)
		step.Progress.Audits += len(c.past)
		ready = ready && fine
		if certified[c.key] = true; o.Index > 0 {
			step.Openings = append(step.Openings, o)
		}
		audits = max(audits, len(c.past))
	}
	for i := range in.States { // a class that serves drafts and has no evidence for the candidate would lose them
		k := &in.States[i]
		if k.Key == plan.ScoredBy(k.Key, in.Progress.Live.Version) && k.State.Used.After(p.Fitted) && k.State.View(in.Rule.For(k.Key.TrafficClass)).Serves() {
			ready = ready && certified[plan.ScoredBy(k.Key, 0)]
		}
	}
	switch {
	case ready && len(step.Openings) > 0:
		step.Do = Promote
	case audits >= in.Rule.LeaseAudits/2:
		return drop(DropUncertain)
	}
	return step
}

// class is the evidence of a candidate for one class.
type class struct {
	key    risk.Key // by the plain score
	live   risk.View
	past   []risk.LogEntry // by the candidate's score
	scores []float64       // by the score in force
	state  *risk.State     // by the score in force
}

// classes returns the candidate's evidence: full-range audits that began after its fit.
func (h history) classes(in *Input) []*class {
	var all []*class
	for _, e := range h.entries {
		live, known := in.liveScore(e)
		if !e.When.After(in.Progress.Fitted) || !e.IsFullRange() || !known {
			continue
		}
		key := plan.ScoredBy(e.Key, 0)
		i := slices.IndexFunc(all, func(c *class) bool { return c.key == key })
		if i < 0 {
			i = len(all)
			all = append(all, &class{key: key})
			all[i].state = in.liveState(key)
			all[i].live = all[i].state.View(in.Rule.For(key.TrafficClass))
		}
		c := all[i]
		judged := *e
		judged.Score = float64(in.Progress.Candidate.For(e.Application).Score(featuresOf(e)))
		c.past = append(c.past, judged)
		c.scores = append(c.scores, live)
	}
	return all
}

// liveState is the evidence of a class by the score in force.
func (in *Input) liveState(key risk.Key) *risk.State {
	key = plan.ScoredBy(key, in.Progress.Live.Version)
	for i := range in.States {
		if in.States[i].Key == key {
			return &in.States[i].State
		}
	}
	return &risk.State{}
}

// surer is how many times as sure as its certificate a candidate must be to serve as much of a mix of applications: once it is in
// force its audits are fewer, and a certificate that is only just reached is lost with the next change of the mix.
const surer = 10

// judge returns what the evidence certifies, and whether the candidate may replace the score in force: of the same drafts
// it accepts as many, or serves as much of the same traffic where applications are told apart.
func (c *class) judge(in *Input, traffic *risk.Sketch) (o Opening, fine bool) {
	p, rule := in.Progress, in.Rule.For(c.key.TrafficClass)
	grid := p.Grids.of(c.key.TrafficClass)
	o = Opening{Key: plan.ScoredBy(c.key, p.Candidate.Version), Import: risk.PlanImport(rule, grid, c.past)}
	o.Import.Failed = p.Failed
	var trial risk.State
	trial.ApplyImport(rule, o.Import, p.Fitted)
	o.Index = trial.Op
	accepts, does := 0, 0
	for i := range c.past {
		if o.Index > 0 && c.past[i].Score >= grid.At(o.Index) {
			accepts++
		}
		if c.live.Serves() && c.scores[i] >= c.live.Threshold {
			does++
		}
	}
	if serves := c.state.Serves(traffic, rule); serves > 0 {
		rule.ErrorProbability /= surer
		return o, trial.Serves(traffic, rule) >= serves
	}
	return o, accepts >= does
}
