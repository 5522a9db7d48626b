package probe

import (
	"context"
	"fmt"

	"github.com/foregate/foregate/tiers/dialect"
)

// constantTokens is how many tokens are generated to look at their logprobs.
const constantTokens = 16

// constantLogprobs finds out whether logprobs are constants.
func (e *probeRun) constantLogprobs(ctx context.Context) error {
	if e.missing[MissingLogprobs] != "" {
		return nil
	}
	q := map[string]any{"logprobs": true, "temperature": 1, "seed": 7}
	if e.found.TopLogprobs > 0 {
		q["top_logprobs"] = min(e.found.TopLogprobs, 5)
	}
	a, err := e.ask(ctx, long[e.variant%len(long)], constantTokens, q)
	if fails(err) {
		return err
	}
	value, n, is := constant(a.chosen)
	if !is {
		return nil
	}
	why := fmt.Sprintf("the logprob is %g for %d of %d tokens, with no less likely alternative: the engine does not tell the true ones", value, n, len(a.chosen))
	e.addHazard(HazardConstantLogprobs, why)
	e.withdrawLogprobs(why)
	return nil
}

// withdrawLogprobs says that logprobs cannot be used, whatever was found out about them.
func (e *probeRun) withdrawLogprobs(why string) {
	e.found.Unscored, e.found.TopLogprobs = true, 0
	e.missing[MissingLogprobs] = why
}

// swappedModel draws the conclusions from another model that has answered. It asks nothing.
func (e *probeRun) swappedModel() {
	if e.another == "" {
		return
	}
	why := fmt.Sprintf("asked for %q, the model %q answers", line(e.asker.model), e.another)
	e.hazards[HazardSwappedModel] = why
	e.withdrawLogprobs(why)
	e.withdrawScoring(why)
	e.found.Continues = false
	e.missing[MissingContinue] = why
}

// thinksFirst finds out whether an engine that thinks before it answers can be told not to.
func (e *probeRun) thinksFirst(ctx context.Context) error {
	if !e.opening.thinks {
		return nil
	}
	e.found.Thinks = true
	more := map[string]any{}
	var how string
	switch e.dialect().Thinking {
	case dialect.ThinkingTemplate:
		more["chat_template_kwargs"], how = map[string]any{"enable_thinking": false}, "enable_thinking: false"
	default:
		e.thinksAlways("it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := e.ask(ctx, e.opened, shortTokens, more)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.thinksAlways("it thinks before it answers, and refuses " + how + ": " + err.Error())
	case a.thinks:
		e.thinksAlways("it thinks before it answers, and " + how + " does not turn that off")
	default:
		e.ended(&a)
		e.addHazard(HazardThinksFirst, "it thinks before it answers; "+how+" turns that off")
	}
	return nil
}

// thinksAlways says that a judge cannot be asked: its first token is a thought's.
func (e *probeRun) thinksAlways(why string) {
	e.addHazard(HazardThinksFirst, why)
	e.addMissing(MissingLogprobs, why)
}
