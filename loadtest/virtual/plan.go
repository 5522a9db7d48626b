package virtual

import (
	"math"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// endOfTurn is the id that ends an answer.
var endOfTurn = func() int32 {
	ids := vllmsim.DefaultTokenizer().AppendMessage(nil, vllmsim.Message{Role: "assistant", Content: "."})
	return ids[len(ids)-1]
}()

// card is what a probe would have found out about a pool's engines: they are one
// engine's two models, and can all that the simulator can.
func (t *tier) card() *probe.Card {
	return &probe.Card{
		At: epoch, Model: t.def.Model, Tokenizer: "vllmsim", Template: "vllmsim", EOS: []int32{endOfTurn}, Window: t.context,
		RawLogprobs: true, TopLogprobs: 20, TokenIDs: true, TokenBytes: true, Scoring: openai.ScoreCompletions, Reuse: t.def.Reuse,
		Continues: true, SelfAgreement: 1, SelfAgreementTol: 1,
	}
}

// prices are what a token costs by the scenario's prices and the profiles' rates.
func (l *lab) prices() (p economy.Prices) {
	draft, target := l.tiers["draft"], l.tiers["target"]
	if draft == nil {
		return p
	}
	p.DraftPrefill, p.DraftDecode = draft.prices()
	p.TargetPrefill, p.TargetDecode = target.prices()
	return p
}

func (t *tier) prices() (prefill, decode float64) {
	perPrompt, perAnswer := t.profile.Rates()
	return economy.PerToken(t.def.USDPerHour, perPrompt), economy.PerToken(t.def.USDPerHour, perAnswer)
}

// think plans the request, and weighs what the plan would cost.
func (r *request) think() {
	cfg, l, own := r.lab.values.Tiers, r.lab, r.replica
	f := l.facts(r.shape)
	r.cfg, r.era = cfg, l.era
	r.plan = plan.Make(cfg, f)
	if !r.plan.Judged {
		return
	}
	if l.oracles != nil && !r.foretold(plan.KindOf(cfg, f).Own.Bucket) {
		return
	}
	r.learns = true
	r.bucket = economy.BucketOf(route, string(r.plan.Mode), r.shape.PromptTokens, r.plan.Whole)
	e := own.book.Expect(r.bucket)
	if !cfg.Mode.Audited() {
		r.plan = r.plan.Weigh(cfg, r.shape, l.prices(), e, own.pools["target"].Load(), own.throw())
		return
	}
	kind := plan.KindOf(cfg, f)
	r.views = own.known(cfg, kind).Under(&cfg.Risk, own.pools["target"].Load())
	r.plan = r.plan.Weigh(cfg, r.shape, l.prices(), r.views.Expected(&cfg, e), own.pools["target"].Load(), own.throw())
	dice := 1.0 // never below a rate
	if own.audits.may(r.views.Spare) {
		dice = own.throw()
	}
	r.plan, r.cfg, r.trial = r.plan.Try(cfg, kind, r.views, dice)
}

// facts are what a plan for a request is made from.
func (l *lab) facts(shape *openai.Request) plan.Facts {
	f := plan.Facts{Request: shape, Demanded: plan.Auto, SameTokenizer: true, Target: l.tiers["target"].card()}
	if draft := l.tiers["draft"]; draft != nil {
		f.HasDraft, f.Draft = true, draft.card()
	}
	return f
}

// foretold lets the request be judged by the best threshold of its kind and of this time, as
// nobody could know it. It reports whether there is one: where no threshold keeps to what is
// promised, the target answers.
func (r *request) foretold(bucket string) bool {
	best, ok := r.lab.oracles[bucket]
	if !ok || math.IsInf(best[r.era], 1) {
		r.plan = plan.Plan{Tier: plan.Target, Reason: "oracle"}
		return false
	}
	r.cfg.Accept.Threshold = accept.Nats(best[r.era])
	return true
}

// throw is a throw of the dice for whom the guard would keep from the draft.
func (r *replica) throw() float64 {
	r.thrown++
	return unit(r.lab.seed, 2<<32+uint64(r.index), r.thrown)
}

// learn takes down what became of a request that might have been drafted.
func (r *request) learn() {
	if !r.learns {
		return
	}
	r.warmed()
	first := r.out.First
	if first == 0 {
		first = r.lab.clock.now
	}
	o := economy.Outcome{
		Prompt: len(r.prompt), Output: len(r.ids), FirstByte: first - r.began, TargetFirst: r.targetFirst,
		Drafted: r.plan.Judged, Served: r.out.Acceptance == "accepted",
	}
	switch {
	case r.plan.Judged && (r.out.Acceptance == "bypassed" || r.out.Reason == reasonLost):
		return // by the draft pool's fault
	case o.Drafted && !o.Served:
		o.Held, o.Salvaged = r.out.Drafted, r.out.DraftTokens
	}
	r.replica.book.Learn(r.bucket, o)
}

// warmed notes what became of a request in the time of its kind's warm-up.
func (r *request) warmed() {
	t := r.trial
	if t == nil || !r.views.Early(&r.cfg.Risk) {
		return
	}
	made, served := 0, 0
	if r.plan.Judged || t.Shadow {
		made = 1
	}
	if t.Warmup && r.out.Acceptance == "accepted" && r.out.Unverified {
		served = 1
	}
	r.lab.evidence.drafted(t.Own.Key, made, served)
}
