package trial

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/verify"
)

// startMirror compares the mirror by this request in the background, if that was drawn.
func (t *Trial) startMirror(d *Done) {
	if !t.mirrors {
		return
	}
	m := &mirrored{Trial: t, Mirror: t.setup.Mirror, writer: writerOf(d.Outcome), served: answerOf(d, d.Alone, t.request.Body.Stream)}
	if m.writer == plan.Target && d.Outcome.IsJudged() {
		m.writer = "" // its time has that of the draft in it
	}
	if reason := m.mayRun(); reason != "" {
		m.finish(reason)
		return
	}
	if !t.start(func(ctx context.Context) { m.finish(m.run(ctx)) }) {
		m.finish(skippedBusy)
	}
}

// mirrored is a request that the mirror is compared by.
type mirrored struct {
	*Trial
	*Mirror
	writer plan.Tier      // that wrote the whole answer, "" if both worked on it
	served compare.Answer // with the cost at the target alone

	cost mirrorCost
}

// mirrorCost is what one mirrored request cost.
type mirrorCost struct {
	generated, scored int // tokens
	usd               float64
}

// mayRun returns why the request is not used, "" if it is.
func (m *mirrored) mayRun() string {
	if !m.request.Body.SinglePlain {
		return skippedShape
	}
	if reason := m.unfit(m.setup.Incumbent); reason != "" {
		return reason
	}
	return m.unfit(m.Pool)
}

// run compares both targets. It returns the result.
func (m *mirrored) run(ctx context.Context) string {
	served, ok := m.answer.draft(m.request.Body.IncludeStop)
	switch {
	case !ok:
		return skippedShape
	case m.writer == plan.Draft:
		return m.compareDraft(ctx, served)
	case m.writer == plan.Target:
		return m.compareAnswers(ctx, &written{m.served, served})
	}
	own, result := m.write(ctx, compare.Incumbent)
	if result != made {
		return result
	}
	return m.compareAnswers(ctx, &own)
}

// compareDraft asks both targets about the draft that was served.
func (m *mirrored) compareDraft(ctx context.Context, served verify.Draft) string {
	a := m.askOf(ctx, compare.Incumbent, served)
	if !a.answered {
		return skippedNoOpinion
	}
	b := m.askOf(ctx, compare.Candidate, served)
	if !b.answered {
		return skippedNoOpinion
	}
	m.trials.Recorder.AddDraft(m.Pair, compare.Incumbent, a.good)
	m.trials.Recorder.AddDraft(m.Pair, compare.Candidate, b.good)
	return made
}

// written is an answer to the request.
type written struct {
	answer compare.Answer
	text   verify.Draft
}

// compareAnswers has the mirror answer, too, and asks the target in force about both answers. Both sides are of the same
// requests: those that both answered.
func (m *mirrored) compareAnswers(ctx context.Context, own *written) string {
	theirs, result := m.write(ctx, compare.Candidate)
	if result != made {
		return result
	}
	m.trials.Recorder.AddAnswer(m.Pair, own.answer)
	m.trials.Recorder.AddAnswer(m.Pair, theirs.answer)
	a := m.askOf(ctx, compare.Incumbent, own.text)
	if !a.answered {
		return skippedNoOpinion
	}
	b := m.askOf(ctx, compare.Incumbent, theirs.text)
	if !b.answered {
		return skippedNoOpinion
	}
	m.trials.Recorder.AddOpinion(m.Pair, compare.Incumbent, a.good)
	m.trials.Recorder.AddOpinion(m.Pair, compare.Candidate, b.good)
	return made
}

// poolOf returns the pool of a side, and its prices of tokens; zero if unknown.
func (m *mirrored) poolOf(s compare.Side) (inflight.Pool, economy.Prices) {
	if s == compare.Incumbent {
		return m.setup.Incumbent, m.request.TokenPrices()
	}
	if m.Prices == nil {
		return m.Pool, economy.Prices{}
	}
	return m.Pool, m.Prices()
}

// askOf asks the pool of a side about an answer, and counts the cost.
func (m *mirrored) askOf(ctx context.Context, s compare.Side, d verify.Draft) opinion {
	p, prices := m.poolOf(s)
	o := m.ask(ctx, p, d)
	if m.cost.scored += o.computed; s == compare.Incumbent {
		m.countCost(o.computed)
	}
	m.cost.usd += float64(o.computed) * prices.TargetPrefill
	return o
}

// write has a side's pool answer. The result is made, or why there is no answer.
func (m *mirrored) write(ctx context.Context, s compare.Side) (written, string) {
	p, prices := m.poolOf(s)
	began := m.trials.World.Now()
	whole, err := m.generate(ctx, p)
	switch {
	case isBusy(err):
		return written{}, skippedBusy
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return written{}, skippedStopped
	case err != nil && s == compare.Incumbent:
		return written{}, skippedNoOpinion
	case err != nil:
		return written{}, skippedFailed
	}
	u := whole.Usage
	usd := float64(u.Prompt)*prices.TargetPrefill + float64(u.Completion)*prices.TargetDecode
	m.cost.generated += u.Completion
	m.cost.usd += usd
	text, ok := questionOf(whole, m.request.Body.IncludeStop)
	if !ok {
		return written{}, skippedShape
	}
	return written{compare.Answer{
		Side: s, Mirrored: true, Total: m.trials.World.Now().Sub(began), Tokens: u.Completion, USD: usd,
	}, text}, made
}

// isBusy reports whether a pool had no capacity.
func isBusy(err error) bool {
	f, ok := errors.AsType[*engine.Failure](err)
	return errors.Is(err, pool.ErrFull) || ok && f.Kind == engine.Backpressure
}

// generate has a pool answer, at the lowest priority.
func (m *mirrored) generate(ctx context.Context, p inflight.Pool) (*openai.DraftAnswer, error) {
	var whole openai.DraftAnswer
	caller := m.caller(p)
	_, err := caller.Do(ctx, caller.NewBackgroundRequest(p, &whole))
	return &whole, err
}

// finish records what the request cost, and the result.
func (m *mirrored) finish(result string) {
	skipped := result
	if result == made {
		skipped = ""
	}
	m.trials.Recorder.AddMirror(m.Pair, m.cost.generated, m.cost.scored, m.cost.usd, skipped)
	m.count(kindMirror, result)
}
