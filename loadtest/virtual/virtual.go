// Package virtual runs a scenario in virtual time: the gateway's own request path ([tiers.Pipeline],
// [tiers.Cascade]) against simulated engines, on one goroutine. An hour of a fleet takes seconds, and
// the same scenario and seed give the same result to the digit.
//
// Start at [Run]. Nothing that the gateway decides is written again here. The lab is the world that the
// gateway runs in: time (eventloop), engines (engines), the admission queue on the virtual clock, what
// replicas keep together in Redis, the load, and the recorder. What is left out is told at [Run].
package virtual

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/loadtest/virtual/sharing"
	"github.com/foregate/foregate/loadtest/vllmsim"
	store "github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	hop = engines.Hop // says where hops are applied

	// maxSamples bounds the samples of one backend.
	maxSamples = 600

	// checkEvery is how many events pass between two looks at the context.
	checkEvery = 4096

	route = "lab"
)

// poolNames are the pools that a run may have.
var poolNames = []string{"draft", "target"}

// lab is one run.
type lab struct {
	clock    *eventloop.Loop
	earlier  *Earlier
	scenario *loadtest.Scenario
	spec     *loadtest.Case
	seed     uint64
	work     *loadtest.Workload
	values   *settings.Values
	prompts  *prompts
	judge    *quality.Judge
	recorder *loadtest.Recorder
	fleet    *engines.Fleet
	pools    map[string]*engines.Pool
	replicas []*replica
	requests map[*openai.Request]*request // that are under way or audited
	answers  *sharing.Answers
	redis    *sharing.Link
	last     time.Duration // when the last answer ended

	open   int     // conversations and users that are not over
	sent   int     // requests, for the load balancer
	ended  bool    // no more conversations begin
	enough bool    // the scenario's Enough ends the run
	peak   float64 // KV usage of any backend

	eras     []era                // of the draft
	era      int                  // that is
	sample   *draftSample         // what drafts are like; nil is not known
	oracles  map[string][]float64 // thresholds by kind of request and era; nil is none
	evidence *evidence
	refits   *refits
}

// Run measures one case. Tenants' limits, time-outs of clients that read slowly, and faults of Redis beside
// its absence ([sharing.Link]) are not simulated. The error tells what the scenario asks that cannot be run.
func Run(ctx context.Context, s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*loadtest.Result, error) {
	r, _, err := new(Earlier).Run(ctx, s, c, seed)
	return r, err
}

// Earlier is what earlier runs of the same pools and settings have left in Redis: what audits have shown. The zero value is
// that nothing ran.
type Earlier struct {
	log    *store.Memory
	lasted time.Duration
}

// Run is [Run] after the earlier ones. It returns what is known then, too.
func (e *Earlier) Run(ctx context.Context, s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*loadtest.Result, *Earlier, error) {
	l, err := e.newLab(s, c, seed)
	if err != nil {
		return nil, nil, fmt.Errorf("%s, case %s: %w", s.Name, c.Name, err)
	}
	if err := l.run(ctx); err != nil {
		return nil, nil, err
	}
	return l.result(), &Earlier{log: l.evidence.log, lasted: e.lasted + l.clock.Elapsed()}, nil
}

func newLab(s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*lab, error) {
	return new(Earlier).newLab(s, c, seed)
}

func (e *Earlier) newLab(s *loadtest.Scenario, c *loadtest.Case, seed uint64) (*lab, error) {
	s = c.In(s)
	work, err := loadtest.NewWorkload(s, c, seed)
	if err != nil {
		return nil, err
	}
	l := &lab{
		clock: &eventloop.Loop{Before: e.lasted}, earlier: e, scenario: s, spec: c, seed: seed, work: work,
		prompts: newPrompts(), recorder: loadtest.NewRecorder(s.Warmup), judge: quality.NewJudge(seed, c),
		pools: map[string]*engines.Pool{}, requests: map[*openai.Request]*request{},
	}
	if l.values, err = l.read(c.Settings); err != nil {
		return nil, err
	}
	l.fleet = engines.New(engines.Options{
		Loop: l.clock, Seed: seed, Score: l.judge.Choices,
		Find: func(r *openai.Request) *engines.Request { return &l.requests[r].Request },
	})
	if err := l.addPools(); err != nil {
		return nil, err
	}
	l.redis = &sharing.Link{Loop: l.clock}
	l.answers, l.evidence = &sharing.Answers{Link: l.redis, Seed: seed}, newEvidence(l)
	l.refits = newRefits(l)
	for i := range c.Replicas {
		r, err := l.newReplica(i)
		if err != nil {
			return nil, err
		}
		l.replicas = append(l.replicas, r)
	}
	l.fleet.Plan(s.Faults)
	l.planDrifts()
	l.prepareOracle()
	l.planOutages()
	return l, l.planChanges()
}

func (l *lab) addPools() (err error) {
	if l.pools["target"], err = l.fleet.Add("target", &l.spec.Target, 0); err != nil {
		return err
	}
	if l.spec.Draft != nil {
		l.pools["draft"], err = l.fleet.Add("draft", l.spec.Draft, l.spec.Draft.Divergence)
	}
	return err
}

// run plays events until the last answer is there, or enough of them.
func (l *lab) run(ctx context.Context) error {
	defer l.clock.End()
	l.begin()
	for n := 0; !l.enough && (!l.ended || l.open > 0); n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !l.clock.Step() {
			return fmt.Errorf("%s: %d conversations wait for something that never comes", l.scenario.Name, l.open)
		}
	}
	return nil
}

// begin puts the first events into the queue.
func (l *lab) begin() {
	for _, r := range l.replicas {
		r.begin()
	}
	if l.scenario.Warmup > 0 {
		l.clock.At(l.scenario.Warmup, l.fleet.Mark)
	}
	l.clock.At(0, l.sampleBackends)
	l.refits.begin()
	if l.work.Closed() {
		for u := range l.work.Users() {
			l.open++
			l.clock.Go(func() { l.user(u) })
		}
		l.ended = true
		return
	}
	l.arrive(0)
}

// each does something for each pool that there is.
func (l *lab) each(do func(*engines.Pool)) {
	for _, name := range poolNames {
		if p := l.pools[name]; p != nil {
			do(p)
		}
	}
}

// sampleBackends notes how every backend stands, a few hundred times in a run.
func (l *lab) sampleBackends() {
	l.each(func(p *engines.Pool) {
		if l.clock.Elapsed() < l.scenario.Warmup {
			return
		}
		for _, b := range p.Backends {
			l.peak = max(l.peak, b.KVUsage())
		}
	})
	every := max(time.Second, l.scenario.Duration/maxSamples)
	if l.clock.Elapsed() <= l.scenario.Duration+time.Duration(maxSamples)*every {
		l.clock.After(every, l.sampleBackends)
	}
}

// result sums the run up.
func (l *lab) result() *loadtest.Result {
	r := &loadtest.Result{
		Case: l.spec.Name, Window: max(l.last-l.scenario.Warmup, 0), Recorder: l.recorder, PeakKV: l.peak,
		Totals: l.scenario.Totals,
	}
	l.each(func(p *engines.Pool) { r.Pools = append(r.Pools, p.Usage()) })
	if promises(l.scenario) || len(l.scenario.Given) > 0 { // the tokens of a plan without drafts have a price, too
		r.Promise, r.Notes = l.promise()
	}
	return r
}

// decode is the text of ids.
func decode(ids []int32) string { return vllmsim.DefaultTokenizer().Decode(ids, true) }
