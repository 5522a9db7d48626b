package trial

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
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
	m := &mirrored{Trial: t, Mirror: t.setup.Mirror}
	writer := writerOf(d.Outcome)
	m.incumbent = answerOf(d, d.Alone, t.request.Body.Stream)
	if reason := m.mayRun(writer); reason != "" {
		m.finish(reason)
		return
	}
	if !t.start(func(ctx context.Context) { m.finish(m.run(ctx, writer)) }) {
		m.finish(skippedBusy)
	}
}

// mirrored is a request that the mirror is compared by.
type mirrored struct {
	*Trial
	*Mirror
	incumbent compare.Answer // by the target in force, if that wrote it alone

	generated, prompt int // tokens of the mirror's answer, and of its prompt
	own, other        int // tokens that were computed for opinions, by the target in force and by the mirror
}

// mayRun returns why the request is not used, "" if it is.
func (m *mirrored) mayRun(writer plan.Tier) string {
	if writer == "" || !m.request.Body.SinglePlain {
		return skippedShape
	}
	if reason := m.unfit(m.setup.Incumbent); reason != "" {
		return reason
	}
	return m.unfit(m.Pool)
}

// run compares both targets. It returns the result.
func (m *mirrored) run(ctx context.Context, writer plan.Tier) string {
	draft, ok := m.answer.draft(m.request.Body.IncludeStop)
	switch {
	case !ok:
		return skippedShape
	case writer == plan.Draft:
		return m.compareDraft(ctx, draft)
	}
	return m.compareAnswers(ctx, draft)
}

// compareDraft asks both targets about the draft that was served.
func (m *mirrored) compareDraft(ctx context.Context, draft verify.Draft) string {
	a := m.ask(ctx, m.setup.Incumbent, draft)
	m.own += a.computed
	if !a.answered {
		return skippedNoOpinion
	}
	b := m.ask(ctx, m.Pool, draft)
	m.other += b.computed
	if !b.answered {
		return skippedNoOpinion
	}
	m.trials.Recorder.AddDraft(m.Pair, compare.Incumbent, a.good)
	m.trials.Recorder.AddDraft(m.Pair, compare.Candidate, b.good)
	return made
}

// compareAnswers has the mirror answer, too, and asks the target in force about both answers.
func (m *mirrored) compareAnswers(ctx context.Context, draft verify.Draft) string {
	whole, candidate, err := m.generate(ctx)
	switch {
	case isFull(err):
		return skippedBusy
	case err != nil:
		m.trials.Recorder.AddAnswer(m.Pair, m.incumbent)
		m.trials.Recorder.AddFailure(m.Pair, compare.Candidate)
		return skippedFailed
	}
	m.trials.Recorder.AddAnswer(m.Pair, m.incumbent)
	m.trials.Recorder.AddAnswer(m.Pair, candidate)
	theirs, ok := questionOf(whole, m.request.Body.IncludeStop)
	if !ok {
		return skippedShape
	}
	a := m.ask(ctx, m.setup.Incumbent, draft)
	m.own += a.computed
	if !a.answered {
		return skippedNoOpinion
	}
	b := m.ask(ctx, m.setup.Incumbent, theirs)
	m.own += b.computed
	if !b.answered {
		return skippedNoOpinion
	}
	m.trials.Recorder.AddOpinion(m.Pair, compare.Incumbent, a.good)
	m.trials.Recorder.AddOpinion(m.Pair, compare.Candidate, b.good)
	return made
}

// isFull reports whether the mirror had no capacity.
func isFull(err error) bool {
	tried, ok := errors.AsType[*dispatch.ExhaustedError](err)
	return errors.Is(err, pool.ErrFull) || ok && tried.AllBusy
}

// generate has the mirror answer, at the lowest priority.
func (m *mirrored) generate(ctx context.Context) (*openai.DraftAnswer, compare.Answer, error) {
	var whole openai.DraftAnswer
	caller := m.caller(m.Pool)
	o := caller.NewRequest(m.Pool, &engine.Answer{Terms: caller.Terms(m.Pool), Request: caller.Body, Into: &whole})
	o.Ticket.NoWait, o.Demand.Whole = true, true
	o.FirstByteTimeout = caller.Config.Timeouts.WholeAnswer(caller.FirstByteTimeout(caller.Config.Timeouts.TargetFirstToken), caller.Body)
	began := m.trials.World.Now()
	if _, err := caller.Do(ctx, o); err != nil {
		return nil, compare.Answer{}, err
	}
	m.generated, m.prompt = whole.Usage.Completion, whole.Usage.Prompt
	p := m.prices()
	return &whole, compare.Answer{
		Side: compare.Candidate, Mirrored: true, Total: m.trials.World.Now().Sub(began), Tokens: m.generated,
		USD: float64(m.prompt)*p.TargetPrefill + float64(m.generated)*p.TargetDecode,
	}, nil
}

// prices returns the prices of tokens at the mirror; zero if unknown.
func (m *mirrored) prices() (p economy.Prices) {
	if m.Prices != nil {
		p = m.Prices()
	}
	return p
}

// finish records what the request cost, and the result.
func (m *mirrored) finish(result string) {
	p := m.prices()
	usd := float64(m.prompt+m.other)*p.TargetPrefill + float64(m.generated)*p.TargetDecode +
		float64(m.own)*m.request.TokenPrices().TargetPrefill
	skipped := result
	if result == made {
		skipped = ""
	}
	m.trials.Recorder.AddMirror(m.Pair, m.generated, m.own+m.other, usd, skipped)
	m.count(kindMirror, result)
}
