package tiers

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

const (
	reasonTarget = "target_lost" // a backend of the target broke off in mid-answer

	// mostTakeovers bounds how often one answer is carried on with elsewhere: what breaks off
	// four times breaks off because of what is asked.
	mostTakeovers = 3
)

// mayTakeOver reports whether an answer that broke off may be carried on with elsewhere.
func (j *job) mayTakeOver(f *engine.Failure) bool {
	return j.cfg.Takeover && f.Retryable() && len(j.receipt.Over) < mostTakeovers
}

// lost books a takeover for a backend that was lost.
func (j *job) lost(at accept.Step) {
	j.over(receipt.Takeover{Why: reasonTarget, Tokens: at.Tokens, Bytes: at.Text})
}

// takeOver carries on with a straight answer that broke off. The client has its frames as the
// backend wrote them, so the rest is written as that did.
func (s *relay) takeOver(ctx context.Context, x *exchange) error {
	j := s.job
	if err := s.write(); err != nil { // what came with the news of the loss
		return err
	}
	d := &draft{job: j, reply: j.newReply(), started: j.cascade.now(), after: x.pool, left: []string{x.lease.Backend()}, patient: true}
	d.course = accept.NewCourse(j.cfg.Accept, accept.Course{})
	d.reply.began, d.reply.text, d.reply.sent = true, s.text, len(s.text)
	id, created := openai.Named(s.named)
	d.reply.framer = openai.NewFramerAs(j.ask.Request.Kind, id, j.route.Model, created)
	j.count(0)
	d.usage.Prompt = j.receipt.PromptTokens
	return d.behind(ctx, x.pool, s.text, s.leastTokens)
}

// leastTokens is how many tokens the first so many bytes of a straight answer have at least: one
// for each frame in them, less what the engine may have held back for stop strings meanwhile.
func (s *relay) leastTokens(text int) int {
	held := 0
	for _, stop := range s.job.ask.Request.Stop {
		held = max(held, len(stop)-1)
	}
	return max(sort.SearchInts(s.ends, text+1)-held, 0)
}

// resume carries on with an answer that whoever made it has lost, and that others than this
// request's client may have as far as Said.
func (j *job) resume(ctx context.Context) error {
	said := bytes.Clone(j.ask.Said)
	j.receipt.Tier = plan.Target
	j.receipt.Plan = plan.Plan{Tier: plan.Target, Reason: reasonTarget}
	d := &draft{job: j, reply: j.newReply(), started: j.cascade.now(), after: j.route.Target}
	d.course = accept.NewCourse(j.cfg.Accept, accept.Course{})
	d.reply.text = bytes.Clone(said)
	err := d.behind(ctx, j.route.Target, said, func(text int) int { return openai.EstimateTokens(text) / 2 })
	if f, ok := errors.AsType[*engine.Failure](err); ok && !d.reply.began && f.Kind != engine.Gone && f.Kind != engine.Expired {
		err = errNoDraft // this target cannot continue
	}
	if errors.Is(err, errNoDraft) { // less than a word: any answer is as good
		return j.direct(ctx, j.route.Target, plan.Target)
	}
	return err
}

// behind carries on behind a text: from its last whole word, and if that is then written
// differently, from where it ends. least is how many tokens its first so many bytes have at least:
// what is taken for too many ends the answer early.
func (d *draft) behind(ctx context.Context, p *pool.Pool, text []byte, least func(text int) int) error {
	healed := d.reply.heal()
	err := d.from(ctx, p, accept.Step{Tokens: least(healed), Text: healed})
	if errors.Is(err, errUnlike) && ctx.Err() == nil {
		d.reply.text, d.reply.owed = text, nil
		err = d.from(ctx, p, accept.Step{Tokens: least(len(text)), Text: len(text)})
	}
	if errors.Is(err, errUnlike) {
		err = d.broken(err)
	}
	return err
}

// from carries on behind what there is of a straight answer.
func (d *draft) from(ctx context.Context, p *pool.Pool, at accept.Step) error {
	if n, err := d.counted(ctx, p); err == nil {
		at.Tokens = n // a frame may hold several tokens
	}
	d.course.Mark(at)
	d.job.lost(at)
	return d.continueOn(ctx, at)
}

// aside prepares a question to an engine's front end, which costs its GPU nothing.
func (j *job) aside(p *pool.Pool, path string, body []byte) call {
	k := j.call(p, path, body)
	k.turn.Must = true // it takes no memory
	k.demand = pool.Demand{Whole: true}
	k.firstByte = asideWait
	return k
}

// asideWait is how long an engine's front end has to turn text into ids, and all that are asked for the
// counts of one takeover.
const asideWait = 2 * time.Second
