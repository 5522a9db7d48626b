package tiers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/scoring"
)

const (
	// scoreUnit is the length in tokens up to which the timeout of a score holds.
	scoreUnit = 1000
	// lawTop is how many alternatives are wanted where the target's law counts, because
	// answers are drawn from it, and firstTop where only its first choice does.
	lawTop, firstTop = accept.MaxTops, 1
)

// ask asks the target what it thinks of the draft as far as it is. nil is that it could not
// say; why is in the receipt.
func (d *draft) ask(ctx context.Context) *accept.Check {
	j := d.job
	began := j.cascade.now()
	said := receipt.Checked{Scorer: j.receipt.Plan.Scorer, Tokens: len(d.ids), At: began.Sub(j.receipt.Began)}
	c, err := d.heard(ctx, &said)
	said.Took = j.cascade.now().Sub(began)
	j.receipt.Verify += said.Took
	if err != nil {
		said.Reason = whyUnheard(err)
		j.checked(said)
		return nil
	}
	said.Pass, said.Kept, said.Score, said.Reason = c.Pass, c.Kept, c.Score, c.Reason
	j.checked(said)
	return c
}

// checked books what the target said.
func (j *job) checked(c receipt.Checked) {
	j.receipt.Checked(c)
	j.cascade.metrics.check(j.route.Model, c)
}

// heard has the target asked in the way that the plan says.
func (d *draft) heard(ctx context.Context, said *receipt.Checked) (*accept.Check, error) {
	switch d.job.receipt.Plan.Scorer {
	case plan.ScorerJudge:
		return d.judged(ctx, said)
	case plan.ScorerText:
		return d.scoredText(ctx, said)
	case plan.ScorerIDs:
		if len(d.promptIDs) == 0 || len(d.ids) == 0 || len(d.ids) != d.course.Tokens() {
			return nil, errNoIDs // a backend of the pool told some of them only
		}
		return d.scoredIDs(ctx, said)
	}
	return nil, errNoScorer
}

// scoredIDs has the target score the draft's own ids. That the answer ends is a choice, too,
// also where an engine does not tell its id.
func (d *draft) scoredIDs(ctx context.Context, said *receipt.Checked) (*accept.Check, error) {
	ids := d.ids
	card := d.job.cascade.cards(d.job.route.Target.Name())
	if card != nil && len(card.EOS) > 0 && d.ended() && !slices.Contains(card.EOS, ids[len(ids)-1]) {
		ids = append(slices.Clone(ids), card.EOS[0])
	}
	span, err := d.job.scored(ctx, d.promptIDs, ids, said)
	if err != nil {
		return nil, err
	}
	d.warm = said.Backend
	c := d.job.rule(opinions(span))
	c.Kept = min(c.Kept, len(d.ids))
	return c, nil
}

// ended reports whether the draft ended by itself: by no stop string, and by no id that the
// client named.
func (d *draft) ended() bool {
	return d.finish == "stop" && d.reply.stop == nil && (len(d.stopped) == 0 || string(d.stopped) == "null")
}

var (
	errNoIDs    = errors.New("the draft came without token ids")
	errNoScorer = errors.New("there is no way to ask")
)

// whyUnheard is the reason in one word, for receipts and metrics.
func whyUnheard(err error) string {
	if refused, ok := errors.AsType[*scoring.RefusedError](err); ok {
		return refused.Reason
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok {
		return string(f.Kind)
	}
	switch {
	case errors.Is(err, pool.ErrFull):
		return "target_full"
	case errors.Is(err, errNoIDs):
		return "no_ids"
	case errors.Is(err, pool.ErrNoBackend):
		return "no_backend"
	}
	return "failed"
}

// rule judges a span by the mode's rule.
func (j *job) rule(span []accept.Choice) *accept.Check {
	said := make([]accept.Opinion, len(span))
	for i := range span {
		said[i] = span[i].Opinion
	}
	var c accept.Check
	if j.receipt.Plan.Mode == plan.ModeVerify {
		c = accept.Greedy(said, j.cfg.Tie)
	} else {
		c = j.cfg.Strictness.Leniency(j.ask.Request.Temperature).Check(said)
	}
	return &c
}

// spanScores is what the target said of a span of ids.
type spanScores struct {
	openai.Scores
	ids []int32
	eos []int32
}

// opinions turns an engine's answer into opinions. Ids that end an answer mean the same.
func opinions(s spanScores) []accept.Choice {
	out := make([]accept.Choice, len(s.ids))
	for i, t := range s.Tokens {
		ends := slices.Contains(s.eos, s.ids[i]) && slices.Contains(s.eos, t.TopID)
		out[i] = accept.Choice{ID: t.TopID, Opinion: accept.Opinion{
			Logprob: accept.Nats(t.Logprob), Top: accept.Nats(t.Top), Tops: t.Tops,
			First: t.TopID == s.ids[i] || ends, Alike: t.Alike,
		}}
	}
	return out
}

// scored has a backend of the target score ids behind a prompt.
func (j *job) scored(ctx context.Context, prompt, ids []int32, said *receipt.Checked) (spanScores, error) {
	return j.scoredAt(ctx, prompt, ids, said, "")
}

// scoredAt is scored where a backend has the prompt warm.
func (j *job) scoredAt(ctx context.Context, prompt, ids []int32, said *receipt.Checked, warm string) (spanScores, error) {
	target := j.route.Target
	q := openai.ScoreQuestion{
		Model: target.Model(), Prompt: prompt, Draft: ids, Top: firstTop, Salt: j.ask.Salt, Priority: j.enginePriority(target),
	}
	out := spanScores{ids: ids}
	if card := j.cascade.cards(target.Name()); card != nil {
		q.Style, out.eos = card.Scoring, card.EOS
	}
	if j.ask.Request.Temperature > 0 {
		q.Top = lawTop
	}
	k := j.scoreCall(q.Path(), q.Body(nil), len(prompt)+len(ids))
	k.demand.IDs, k.demand.Warm = func() []int32 { return slices.Concat(prompt, ids) }, warm
	k.read = func(body []byte) (err error) {
		out.Scores, err = q.Parse(body)
		return err
	}
	backend, err := j.cascade.question(ctx, k, j.receipt)
	said.Backend = backend
	if backend != "" {
		j.receipt.ScoredTokens += len(prompt) + len(ids) - out.Cached
	}
	return out, err
}

// enginePriority is the request's priority as a pool's engines want it told, nil where they
// do not.
func (j *job) enginePriority(p *pool.Pool) *int64 {
	if !p.Priorities() {
		return nil
	}
	v := plan.EnginePriority(j.ask.Class)
	return &v
}

// scoreCall prepares a question to the target. It takes no place that somebody of the lowest
// class would not get: a draft that is not checked costs less than a target that is full.
func (j *job) scoreCall(path string, body []byte, tokens int) call {
	k := j.call(j.route.Target, path, body)
	k.scoring, k.before = &j.cfg.Scoring, j.before
	k.tokens = tokens
	k.firstByte = time.Duration(float64(j.cfg.Scoring.Timeout) * max(1, float64(tokens)/scoreUnit))
	if j.before != nil { // whether there is room for an audit must not depend on how long the draft became
		tokens = j.ask.Request.PromptTokens + plan.TypicalOutput
	}
	k.turn.Now, k.turn.Class, k.turn.Tokens = true, 0, tokens
	k.demand.PromptTokens, k.demand.PromptBytes, k.demand.OutputTokens, k.demand.MostOutput = tokens, 0, 1, 1
	k.demand.Answers, k.demand.Whole = 1, true
	return k
}

// question asks one backend, once: whoever waits for the answer has others to go to.
func (c *Cascade) question(ctx context.Context, k call, rc *receipt.Receipt) (backend string, err error) {
	x := &exchange{cascade: c, receipt: rc}
	if _, err := x.acquire(ctx, &k); err != nil {
		return "", err
	}
	x.call = k
	defer x.drop()
	backend = x.lease.Backend()
	if k.before != nil {
		if err := k.before(ctx); err != nil {
			return "", err
		}
	}
	x.try(0)
	failure := x.open(ctx)
	if failure != nil {
		c.metrics.failed(failure)
		return backend, failure
	}
	made := 0
	if k.made != nil {
		u := k.made()
		*u = x.clamp(*u, inOnePiece)
		x.count(u.Prompt)
		made = u.Completion
	}
	x.close(nil, made)
	return backend, nil
}

// judged asks the target in words.
func (d *draft) judged(ctx context.Context, said *receipt.Checked) (*accept.Check, error) {
	j := d.job
	target := j.route.Target
	body := openai.JudgeBody(nil, j.ask.Request, target.Model(), d.reply.text, j.ask.Salt, j.enginePriority(target))
	k := j.scoreCall(openai.Chat.Path(), body, j.ask.Request.PromptTokens+d.course.Tokens())
	k.demand.PromptBytes = j.ask.Request.PromptBytes + len(d.reply.text)
	var odds float64
	k.read = func(body []byte) (err error) {
		odds, err = openai.ParseJudge(body)
		return err
	}
	backend, err := j.cascade.question(ctx, k, j.receipt)
	if said.Backend = backend; err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	j.receipt.ScoredTokens += k.tokens
	c := &accept.Check{Score: accept.Nats(odds), Pass: accept.Nats(odds) >= j.cfg.JudgeOdds, Reason: accept.ReasonStandsBy}
	if !c.Pass {
		c.Reason = accept.ReasonDisagrees
	}
	return c, nil
}
