package planner

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/virtual"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// lab runs candidates.
type lab struct {
	market          *Market
	slo             *loadtest.SLO
	requests        []loadtest.Given // that are simulated
	growth          float64
	maxDisagreement float64

	mu       sync.Mutex
	evidence map[float64]*evidence // by acceptance
}

// evidence is what an hour of audits has shown before a run, of drafts with an acceptance.
type evidence struct {
	once       sync.Once
	divergence float64
	earlier    *virtual.Earlier
	err        error
}

// The runs. A client waits as long as the gateway does by default (timeout.total).
const (
	deadline = 10 * time.Minute
	replicas = 2

	blind      = 0.5  // how little the score of the simulated drafts says of their errors: an AUROC of about .8
	sampled    = 400  // drafts that are judged for the acceptance of a divergence
	practised  = 3000 // requests of the hours before, all of which are audited
	certified  = 0.75 // of the bound on disagreement is what certified thresholds let through, about: the rest is uncertainty
	bucketsFor = 20   // drafts that tell the traffic classes of a run
)

// over is the lab with other requests, growth times as fast.
func (l *lab) over(requests []loadtest.Given, growth float64) *lab {
	return &lab{market: l.market, slo: l.slo, requests: requests, growth: growth, maxDisagreement: l.maxDisagreement, evidence: map[float64]*evidence{}}
}

// warmup is the part of a run that is not counted.
func (l *lab) warmup() time.Duration {
	return min(time.Minute, time.Duration(float64(l.requests[len(l.requests)-1].At)/l.growth/20))
}

// at makes the scenario and the case of a candidate.
func (l *lab) at(c *Candidate, divergence float64) (*loadtest.Scenario, *loadtest.Case) {
	s := &loadtest.Scenario{
		Name: "plan", Duration: time.Duration(float64(l.requests[len(l.requests)-1].At)/l.growth) + time.Second, Warmup: l.warmup(), Deadline: deadline, Totals: true,
		Prompts: []loadtest.Prompt{{Name: "trace", Temperature: 1, Stream: true}}, Tenants: []loadtest.Tenant{{ID: "default", Weight: 1}}, Given: l.requests, Audits: bucketsFor,
	}
	pool := func(e fleets.Engines) loadtest.Pool {
		return loadtest.Pool{Model: modelOf(e.Profile), Profile: e.Profile, Count: e.Count - l.market.Away, USDPerHour: l.market.rent(fleets.Engines{Profile: e.Profile, Count: 1}), Policy: "fcfs", Restart: time.Minute}
	}
	k := loadtest.Case{Name: c.String(), Replicas: replicas, Load: l.growth, Target: pool(c.Target), Settings: loadtest.Settings(c.Settings(l.maxDisagreement))}
	if c.Draft.Count > 0 {
		draft := pool(c.Draft)
		draft.Divergence, draft.Blind = divergence, blind
		k.Draft = &draft
	}
	s.Cases = []loadtest.Case{k}
	return s, &s.Cases[0]
}

// modelOf is the model of a profile, "" for no servers. What audits show holds for models, not for servers.
func modelOf(profile string) string {
	p, _ := vllmsim.ProfileByName(profile) // profiles of a market are known
	return p.Model
}

// Settings are the live settings of a candidate that differ from the defaults.
func (c *Candidate) Settings(maxDisagreement float64) map[string]string {
	s := map[string]string{}
	if c.Draft.Count == 0 {
		s["speculation.mode"] = "off"
	} else {
		s["speculation.mode"], s["risk.max_disagreement"] = "risk", strconv.FormatFloat(maxDisagreement, 'g', -1, 64)
	}
	if c.Scarce {
		s["speculation.when"] = "scarce"
	}
	if c.NoCache {
		s["cache.mode"] = "off"
	}
	if c.NoFit {
		s["route.policy"] = "round_robin"
	}
	return s
}

// run runs a candidate with a seed until its SLO is decided.
func (l *lab) run(ctx context.Context, c *Candidate, growth float64, seed uint64) (loadtest.Row, *loadtest.Verdict, error) {
	own := l.over(trace.Another(l.requests, seed), growth)
	earlier, divergence := new(virtual.Earlier), 0.0
	if c.Draft.Count > 0 {
		known, err := l.known(ctx, c.Acceptance)
		if err != nil {
			return loadtest.Row{}, nil, err
		}
		earlier, divergence = known.earlier, known.divergence
	}
	s, k := own.at(c, divergence)
	counted := 0
	for _, g := range own.requests {
		if float64(g.At)/growth >= float64(s.Warmup) {
			counted++
		}
	}
	v := l.slo.Verdict(counted, s.Warmup)
	s.Enough = v.Add
	r, _, err := earlier.Run(ctx, s, k, seed)
	if err != nil {
		return loadtest.Row{}, nil, err
	}
	return r.Row(), v, nil
}

// known returns what audits have shown of drafts with an acceptance, and the language that has it.
func (l *lab) known(ctx context.Context, acceptance float64) (*evidence, error) {
	l.mu.Lock()
	e := l.evidence[acceptance]
	if e == nil {
		e = &evidence{}
		l.evidence[acceptance] = e
	}
	l.mu.Unlock()
	e.once.Do(func() { e.err = l.practise(ctx, e, acceptance) })
	return e, e.err
}

// practise finds the divergence of drafts that have an acceptance at certified thresholds, and has many of them audited by
// a fleet with room for that.
func (l *lab) practise(ctx context.Context, e *evidence, acceptance float64) (err error) {
	few := l.over(l.requests[:min(practised, len(l.requests))], 1)
	few.growth = min(1, float64(few.requests[len(few.requests)-1].At)/float64(time.Hour)) // audits run a few at a time
	c := Candidate{Target: fleets.Engines{Profile: l.market.Targets[0].Name, Count: 8 + l.market.Away}, Draft: fleets.Engines{Profile: l.market.Drafts[0].Name, Count: 8 + l.market.Away}}
	low, high := 0.0, 1.0
	for range 7 {
		e.divergence = (low + high) / 2
		s, k := few.at(&c, e.divergence)
		s.Audits, k.Oracle = sampled, certified*l.maxDisagreement
		accepts, err := virtual.BestAcceptance(s, k, 1)
		if err != nil {
			return err
		}
		if accepts > acceptance {
			low = e.divergence
		} else {
			high = e.divergence
		}
	}
	e.earlier = new(virtual.Earlier)
	for done, seed := 0, uint64(1); done < practised && err == nil; done, seed = done+len(few.requests), seed+1 {
		s, k := few.over(trace.Another(few.requests, seed), few.growth).at(&c, e.divergence)
		k.Settings["risk.cold_start_audits_per_minute"], k.Settings["risk.audit_rate"], k.Settings["risk.audit_budget"] = "2000", "1", "1"
		_, e.earlier, err = e.earlier.Run(ctx, s, k, seed)
	}
	return err
}
