package virtual

import (
	"slices"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/accept"
)

// rally is an answer that is drafted and checked block by block.
type rally struct {
	*request
	exact accept.Exact
	block []int32
	warm  string // the backend that scored the last block
}

// pingPong begins one.
func (r *request) pingPong() {
	cfg := r.lab.values.Tiers
	p := &rally{request: r, exact: accept.Exact{Block: r.plan.Block, Limit: r.req.MaxTokens, Tie: cfg.Tie}}
	if !r.req.IgnoreEOS {
		p.exact.EOS = []int32{endOfTurn}
	}
	r.out.Acceptance, r.out.Reason = "rejected", accept.ReasonDisagrees
	p.draft()
}

// draft has the next block drafted.
func (p *rally) draft() {
	p.block = p.block[:0]
	cfg := p.lab.values.Tiers
	c := p.newCall(plan.Draft, p.behind(), p.exact.Want())
	c.attempts, c.now, c.patience = min(c.attempts, 2), true, p.firstByte(cfg.Timeouts.DraftFirstByte)
	c.onToken = func(_ *attempt, id int32, done bool) {
		p.block = append(p.block, id)
		p.out.Drafted++
		if done {
			p.ask(p.behind(), p.block, p.warm, p.hear)
		}
	}
	c.onFail = func(failure, bool) { p.carryOn() }
	c.start()
}

// behind is the prompt and what there is of the answer.
func (p *rally) behind() []int32 { return slices.Concat(p.prompt, p.exact.IDs) }

// hear takes in what the target says of the last block.
func (p *rally) hear(backend string, said []accept.Choice) {
	if said == nil {
		p.carryOn()
		return
	}
	p.warm = backend
	model := p.lab.tiers["target"].model
	next := model.Next(slices.Concat(p.behind(), p.block))
	p.exact.Take(p.block, said, next.Argmax())
	p.ids = append(p.ids[:0], p.exact.IDs...)
	p.out.Tier, p.out.DraftTokens = "mixed", p.exact.Accepted
	p.out.TargetTokens = len(p.ids) - p.exact.Accepted
	if p.exact.Finish == "" {
		if p.req.Stream {
			p.first() // what stands is sent
		}
		p.draft()
		return
	}
	if p.out.TargetTokens == 0 {
		p.out.Tier, p.out.Acceptance, p.out.Reason = "draft", "accepted", accept.ReasonStandsBy
	}
	p.finish(loadtest.Answered, "")
}

// carryOn lets the target write the rest: a block could not be drafted or checked.
func (p *rally) carryOn() {
	p.out.Reason = accept.ReasonNoVerdict
	if len(p.exact.IDs) == 0 {
		p.direct()
		return
	}
	p.continueAt(p.warm)
}
