package virtual

import (
	"context"
	"math"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
)

// replica is one gateway: its pools, queues, cascade and pipeline, in virtual time.
type replica struct {
	lab      *lab
	index    int
	pools    map[string]*pool.Pool
	watchers map[string]*watcher // by pool name and backend id, "draft/127.0.0.1-8000"
	queues   queues
	breakers breakers
	lives    map[breaker.Key]uint64 // of the backends' processes
	route    *tiers.Route
	cascade  *tiers.Cascade
	pipeline *tiers.Pipeline
	seen     *evidenceView // of what audits have shown

	fleetDraws, draws, breakerDraws uint64 // random numbers: of the fleet, of requests, of breakers
}

func (l *lab) newReplica(index int) (*replica, error) {
	r := &replica{
		lab: l, index: index, pools: map[string]*pool.Pool{}, watchers: map[string]*watcher{}, queues: queues{}, seen: &evidenceView{Store: l.evidence.newStore(), all: l.evidence},
	}
	r.breakers, r.lives = r.newBreakers(), map[breaker.Key]uint64{}
	r.route = &tiers.Route{Model: route, SameTokenizer: true, Config: func() plan.Config { return l.values.Tiers }, Prices: l.prices}
	r.route.Serves.Target = l.spec.Target.Model
	if l.spec.Draft != nil {
		r.route.Serves.Draft = l.spec.Draft.Model
	}
	for name, p := range l.pools {
		own, err := r.newPool(p)
		if err != nil {
			return nil, err
		}
		switch r.pools[name] = own; name {
		case "draft":
			r.route.Draft = own
		case "target":
			r.route.Target = own
		}
	}
	r.cascade = tiers.New(tiers.Options{
		Routes: []tiers.Route{*r.route}, World: l.clock, Upstream: l.fleet, Queue: r.queues, Breaker: r.breakers, MaxBody: 16 << 20,
		Random:       func(string, tiers.Purpose) float64 { return r.draw() },
		Capabilities: func(pool string) *probe.Capabilities { return l.card(pool) }, Evidence: r.seen,
		AuditsAll: l.refits.Collects, Replicas: func() int { return len(l.replicas) },
	})
	var err error
	if r.route, err = r.cascade.Route(route); err != nil {
		return nil, err
	}
	o := tiers.PipelineOptions{
		Cascade: r.cascade, Base: engines.Answering(context.Background()), Store: l.answers, Generations: tiers.NewGenerations(l.clock),
		CacheConfig: func(string) cache.Config { return l.values.Cache }, Salt: func(tenant string) string { return tenant },
		HighShare: func() float64 { return 0 }, IsShed: func(error) bool { return false },
		OnPanic: func(string, any) {},
	}
	r.pipeline = tiers.NewPipeline(o)
	return r, nil
}

func (r *replica) newPool(p *engines.Pool) (*pool.Pool, error) {
	l := r.lab
	var urls []string
	for _, b := range p.Backends {
		urls = append(urls, b.URL())
	}
	q := &queue{lab: l, Queue: admission.Queue{Pool: p.Name, Rand: r.random}}
	r.queues[p.Name] = q
	o := pool.Options{
		Name: p.Name, Model: p.Def.Model, Backends: urls, Price: pool.Price{USDPerHour: p.Def.USDPerHour}, Now: l.clock.Now, Priorities: p.Def.Policy == "priority",
		Policy:         func() string { return l.values.RoutePolicy },
		ScrapeInterval: func() time.Duration { return l.values.ScrapeInterval },

		Fleet: fleetOf{r}, OnCapacity: q.wake,
	}
	r.breakers.watch(p.Name, &o)
	own, err := pool.New(o)
	if err == nil {
		r.breakers.knows(own)
	}
	return own, err
}

// begin begins what a replica does beside its requests.
func (r *replica) begin() {
	r.watch()
	r.lab.clock.Go(func() { _ = r.cascade.Run(context.Background()) })
	r.lab.clock.Go(func() { _ = r.breakers.Run(context.Background()) })
	r.lab.clock.At(0, r.tellBreakers)
	r.lab.clock.At(0, r.lookAfterBreakers)
}

// random is uniform in [0, 1), the same in every run.
func (r *replica) random() float64 {
	r.fleetDraws++
	return engines.Unit(r.lab.seed, 1<<32+uint64(r.index), r.fleetDraws)
}

// draw is random for what is decided of requests.
func (r *replica) draw() float64 {
	r.draws++
	return engines.Unit(r.lab.seed, 2<<32+uint64(r.index), r.draws)
}

// spread is random for how long breakers are open.
func (r *replica) spread() float64 {
	r.breakerDraws++
	return engines.Unit(r.lab.seed, 3<<32+uint64(r.index), r.breakerDraws)
}

// card is what a probe would have found out about a pool's engines: they are one
// engine's two models, and can all that the simulator can, but for judging in words.
func (l *lab) card(pool string) *probe.Capabilities {
	p := l.pools[pool]
	if p == nil {
		return nil
	}
	return &probe.Capabilities{
		At: eventloop.Epoch, Model: p.Def.Model, Tokenizer: "vllmsim", Template: "vllmsim", EOS: []int32{engines.EndOfTurn()}, Window: p.Context,
		TokenIDs: true, Scoring: openai.ScoreCompletions,
		Missing: []probe.MissingCapability{{Name: probe.MissingJudge, Reason: "the lab's engines answer no questions in words"}},
	}
}

// prices are what a token costs by the scenario's prices and the profiles' rates.
func (l *lab) prices() (p economy.Prices) {
	if draft := l.pools["draft"]; draft != nil {
		p.DraftPrefill, p.DraftDecode = draft.Prices()
	}
	p.TargetPrefill, p.TargetDecode = l.pools["target"].Prices()
	return p
}

// facts are what a plan for a request is made from.
func (l *lab) facts(r *openai.Request) plan.Facts {
	f := plan.Facts{Request: r, Demanded: plan.Auto, SameTokenizer: true, Target: l.card("target")}
	if l.pools["draft"] != nil {
		f.HasDraft, f.Draft = true, l.card("draft")
	}
	return f
}

// routeOf is the route of a request, and the tier that it asks for. Where an oracle judges, drafts are
// held against the best threshold of their kind and of this time, as nobody could know it; where no
// threshold keeps to what is promised, the target answers.
func (r *replica) routeOf(q *request) (*tiers.Route, plan.Tier) {
	l := r.lab
	f := l.facts(q.body)
	if l.oracles == nil || !plan.Make(l.values.Tiers, f).Judged {
		return r.route, plan.Auto
	}
	best, ok := l.oracles[plan.EvidenceKeyOf(l.values.Tiers, f).TrafficClass]
	if !ok || math.IsInf(best[l.era], 1) {
		return r.route, plan.Target
	}
	own := *r.route
	own.Config = func() plan.Config {
		cfg := l.values.Tiers
		cfg.Accept.Threshold = accept.Nats(best[l.era])
		return cfg
	}
	return &own, plan.Auto
}

// runs tells what the scenario asks with these settings that the lab cannot run.
func (l *lab) runs(v *settings.Values) error {
	cfg := &v.Tiers
	if l.spec.Draft == nil || cfg.Mode == plan.ModeOff {
		return nil
	}
	if cfg.Mode.Audited() && (cfg.Risk.Label == plan.LabelJudge || cfg.Risk.Label == plan.LabelRegenerate) {
		return errNotRun("risk.label: " + string(cfg.Risk.Label))
	}
	for i := range l.scenario.Prompts {
		if cfg.Mode == plan.ModeVerify && cfg.VerifyRule == plan.RuleExact && l.scenario.Prompts[i].Temperature > 0 {
			return errNotRun("speculation.verify_rule: exact with a prompt above temperature 0")
		}
	}
	return nil
}

type errNotRun string

func (e errNotRun) Error() string { return "not simulated: " + string(e) }
