// Package virtual runs a scenario in virtual time: a discrete-event loop around
// the simulator's scheduler and language and the gateway's own pure decisions.
// An hour of a fleet takes seconds, and the same scenario and seed give the same
// result to the digit.
//
// Start at [Run]. Nothing of the gateway is written again here: the plan, the
// admission, the pick, the course of a draft and the settings are asked as the
// gateway asks them, with the virtual clock as their now. What is left out is
// told at [Run].
package virtual

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	// hop is the way of a message from one process to the next: parsing, routing
	// and loopback, about half of what the gateway adds at the median (README).
	hop = 200 * time.Microsecond

	// mostSamples bounds the samples of one backend.
	mostSamples = 600

	// checkEvery is how many events pass between two looks at the context.
	checkEvery = 4096

	route = "lab"
)

// lab is one run.
type lab struct {
	clock    clock
	scenario *loadtest.Scenario
	spec     *loadtest.Case
	seed     uint64
	work     *loadtest.Workload
	values   *settings.Values
	prompts  *prompts
	judge    *quality.Judge
	recorder *loadtest.Recorder
	tiers    map[string]*tier
	replicas []*replica
	answers  *answers
	last     time.Duration // when the last answer ended

	open     int  // conversations and users that are not over
	sent     int  // requests, for the load balancer
	attempts int  // calls to backends
	ended    bool // no more conversations begin
	samples  []loadtest.Sample
	audits   int   // drafts judged to their end
	answered ended // what the answers of the measured time were like

	eras      []era                // of the draft
	era       int                  // that is
	census    *census              // what drafts are like; nil is not known
	oracles   map[string][]float64 // thresholds by kind of request and era; nil is none
	evidence  *evidence
	comebacks comebacks                     // what refused clients were told, and what was true
	audited   struct{ draft, target spent } // computed for audits, in the measured time
}

// tier is one pool's backends.
type tier struct {
	name     string
	def      *loadtest.Pool
	model    *vllmsim.Model
	profile  vllmsim.Profile
	context  int // tokens that a prompt and its answer may have
	backends []*backend
}

// Run measures one case. The gateway's breakers, its retry budget and
// tenant limits, and time-outs other than those of the first byte are not
// simulated.
// The error tells what the scenario asks that cannot be run so.
func Run(ctx context.Context, s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*loadtest.Result, error) {
	l, err := newLab(s, c, seed)
	if err != nil {
		return nil, fmt.Errorf("%s, case %s: %w", s.Name, c.Name, err)
	}
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return l.result(), nil
}

func newLab(s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*lab, error) {
	work, err := loadtest.NewWorkload(s, c, seed)
	if err != nil {
		return nil, err
	}
	snapshot, rejected := settings.FromHash(c.Settings, []string{route}, nil)
	if rejected = append(rejected, snapshot.Unknown()...); len(rejected) > 0 {
		return nil, fmt.Errorf("setting %s: %s", rejected[0].Name, rejected[0].Reason)
	}
	l := &lab{
		scenario: s, spec: c, seed: seed, work: work, values: snapshot.Route(route),
		prompts: newPrompts(), recorder: loadtest.NewRecorder(s.Warmup), tiers: map[string]*tier{},
	}
	if err := l.addTier("target", &c.Target, 0); err != nil {
		return nil, err
	}
	if c.Draft != nil {
		if err := l.addTier("draft", c.Draft, c.Draft.Divergence); err != nil {
			return nil, err
		}
	}
	l.answers, l.evidence = newAnswers(l), newEvidence(l)
	l.judge = quality.NewJudge(seed, c)
	for i := range c.Replicas {
		r, err := l.newReplica(i)
		if err != nil {
			return nil, err
		}
		l.replicas = append(l.replicas, r)
	}
	l.planFaults()
	l.planDrifts()
	return l, l.foresee()
}

func (l *lab) addTier(name string, def *loadtest.Pool, divergence float64) error {
	o, profile, err := vllmsim.Options{
		Profile: def.Profile, Divergence: divergence, Blind: def.Blind, Policy: def.Policy, Metrics: def.Metrics,
		BlocksOverride: def.Blocks, MaxNumSeqs: def.MaxSeqs, MaxBatchedTokens: def.MaxBatchedTokens,
	}.Resolve()
	if err != nil {
		return fmt.Errorf("%s pool: %w", name, err)
	}
	t := &tier{
		name: name, def: def, model: vllmsim.NewDraft(l.seed, divergence, def.Blind), profile: profile, context: o.MaxModelLen,
	}
	for i := range def.Count {
		t.backends = append(t.backends, newBackend(l, t, i))
	}
	l.tiers[name] = t
	return nil
}

// run plays events until the last answer is there.
func (l *lab) run(ctx context.Context) error {
	l.begin()
	for n := 0; !l.ended || l.open > 0; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !l.clock.step() {
			return fmt.Errorf("%s: %d conversations wait for something that never comes", l.scenario.Name, l.open)
		}
	}
	return nil
}

// begin puts the first events into the queue.
func (l *lab) begin() {
	for _, r := range l.replicas {
		r.watch()
	}
	if l.scenario.Warmup > 0 {
		l.clock.at(l.scenario.Warmup, l.forEach((*backend).mark))
	}
	l.clock.at(0, l.sample)
	if l.work.Closed() {
		for u := range l.work.Users() {
			l.open++
			l.clock.at(l.work.FirstThink(u), func() { l.user(u, 0) })
		}
		l.ended = true
		return
	}
	l.arrive(0)
}

func (l *lab) forEach(do func(*backend)) func() {
	return func() {
		for _, t := range l.tiers {
			for _, b := range t.backends {
				do(b)
			}
		}
	}
}

// sample notes how every backend stands, a few hundred times in a run.
func (l *lab) sample() {
	for _, name := range []string{"draft", "target"} {
		if t := l.tiers[name]; t != nil {
			for _, b := range t.backends {
				l.samples = append(l.samples, b.sample())
			}
		}
	}
	every := max(time.Second, l.scenario.Duration/mostSamples)
	if l.clock.now <= l.scenario.Duration+time.Duration(mostSamples)*every {
		l.clock.after(every, l.sample)
	}
}

// result sums the run up.
func (l *lab) result() *loadtest.Result {
	r := &loadtest.Result{
		Case: l.spec.Name, Window: max(l.last-l.scenario.Warmup, 0), Recorder: l.recorder, Samples: l.samples,
		Retry: l.comebacks.retry(),
	}
	for _, name := range []string{"draft", "target"} {
		t := l.tiers[name]
		if t == nil {
			continue
		}
		u := loadtest.Usage{Tier: name, Backends: len(t.backends), GPUs: t.profile.GPUs, USDPerHour: t.def.USDPerHour}
		for _, b := range t.backends {
			b.addUsage(&u)
		}
		r.Pools = append(r.Pools, u)
	}
	if l.tiers["draft"] != nil && !l.values.Cache.On { // of what is given again the formulas know nothing
		r.ModelUSDPerMTok = l.model()
	}
	if promises(l.scenario) {
		r.Promise, r.Notes = l.promise()
	}
	return r
}
