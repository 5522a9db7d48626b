package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/foregate/foregate/tiers/dialect"
)

// probeRun is one probe of one engine.
type probeRun struct {
	*asker
	found   Capabilities
	missing map[string]string // by name: the reason
	variant int               // index of the question variant
	closed  string            // why scoring is suspended; "": it is not

	cards   []modelCard // of all models that the engine lists
	model   modelCard
	another string  // the name of another model that answered
	opening answer  // to the short question
	opened  string  // that question
	noChat  string  // why chats are not supported
	ids     []int32 // valid ids of this tokenizer
	prompt  []int32 // of the long question; nil while unknown
	answer  answer  // to it

	weak   string // a result that may be better at the next try
	deadly bool   // scoring has crashed the engine
}

// run asks all questions. The error says that the engine cannot be probed now; a missing capability is no error.
func (e *probeRun) run(ctx context.Context) error {
	e.missing = map[string]string{}
	e.found.Model, e.found.Engine = e.asker.model, e.engine
	for _, part := range []func(context.Context) error{
		e.window, e.ending, e.tokenizer, e.template, e.detokenize, e.logprobs, e.longAnswer, e.continuation, e.continues, e.thinksFirst,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	e.missingEnd()
	// Last, because scoring may crash the engine.
	e.scoring(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.swappedModel()
	slices.Sort(e.found.EOS)
	for what, why := range e.missing {
		e.found.Missing = append(e.found.Missing, MissingCapability{what, why})
	}
	slices.SortFunc(e.found.Missing, func(a, b MissingCapability) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// addMissing adds a missing capability; the first reason stays.
func (e *probeRun) addMissing(what, why string) {
	if _, reported := e.missing[what]; !reported {
		e.missing[what] = why
	}
}

// complete calls /v1/completions or /v1/chat/completions, greedily unless the question says otherwise, and requests ids.
func (e *probeRun) complete(ctx context.Context, path string, maximum int, question map[string]any) (answer, error) {
	q := map[string]any{"max_tokens": maximum, "temperature": 0, "stream": false}
	switch known := &e.dialect().Members; {
	case known.TokenIDs || known.WholeTokenIDs:
		q["return_token_ids"] = true
	case known.IDsInLogprobs && question["messages"] != nil:
		q["logprobs"], q["top_logprobs"] = true, 1
	case known.IDsInLogprobs:
		q["logprobs"] = 1
	}
	maps.Copy(q, question)
	post := e.post
	if q["messages"] != nil {
		post = e.templated
	}
	body, err := post(ctx, path, q)
	if err != nil {
		return answer{}, err
	}
	a, err := parseAnswer(body)
	if e.another == "" && !sameModel(e.cards, e.asker.model, a.model) {
		e.another = line(a.model)
	}
	return a, err
}

// ask sends one question as a chat.
func (e *probeRun) ask(ctx context.Context, text string, maximum int, more map[string]any) (answer, error) {
	q := map[string]any{"messages": []message{{"user", text}}}
	maps.Copy(q, more)
	return e.complete(ctx, "/v1/chat/completions", maximum, q)
}

// ended stores the id that ended an answer.
func (e *probeRun) ended(a *answer) {
	if id, ok := a.end(); ok && !slices.Contains(e.found.EOS, id) {
		e.found.EOS = append(e.found.EOS, id)
	}
}

// ending asks for an answer that ends by itself soon. It is the first generated answer: an engine that cannot give one
// is not probed.
func (e *probeRun) ending(ctx context.Context) error {
	e.opened = short[e.variant%len(short)]
	a, err := e.ask(ctx, e.opened, shortTokens, nil)
	e.opening = a
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case err != nil && (!isRefusal || fails(err)):
		return err
	case err != nil:
		e.noChat = "chats are refused: " + refused.Error()
		e.addMissing(MissingIDs, e.noChat)
		e.addMissing(MissingPromptIDs, e.noChat)
		return nil
	case len(a.ids) == 0:
		e.addMissing(MissingIDs, e.withoutIDs())
	case a.tokens >= 0 && a.tokens != len(a.ids):
		e.addMissing(MissingIDs, fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens))
	case e.dialect().Members.WholeTokenIDs:
		e.addMissing(MissingIDs, "it tells token_ids of answers in one piece alone, and drafts are streamed")
	default:
		e.found.TokenIDs = true
	}
	if len(a.prompt) == 0 {
		e.addMissing(MissingPromptIDs, "it answers without prompt_token_ids")
	}
	e.ended(&a)
	return nil
}

// withoutIDs says why the ids of answers are not known.
func (e *probeRun) withoutIDs() string {
	switch known := &e.dialect().Members; {
	case known.IDsInLogprobs:
		return "the entries of its logprobs have no id"
	case !known.TokenIDs && !known.WholeTokenIDs:
		return "the API of " + string(e.engine) + " tells no ids of answers"
	}
	return "it answers without token_ids"
}

// logprobs finds out whether the engine tells logprobs with as many alternatives as drafts ask for, and true ones.
func (e *probeRun) logprobs(ctx context.Context) error {
	if e.noChat != "" {
		e.addMissing(MissingLogprobs, e.noChat)
		return nil
	}
	q := map[string]any{"logprobs": true, "top_logprobs": alternatives, "temperature": 1, "seed": 7}
	a, err := e.ask(ctx, long[e.variant%len(long)], logprobTokens, q)
	value, n, untrue := constant(a.scored)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingLogprobs, err.Error())
	case len(a.scored) == 0:
		e.withdrawLogprobs("it answers without logprobs")
	case untrue:
		e.withdrawLogprobs(fmt.Sprintf("the logprob is %g for %d of %d tokens, with no less likely alternative: the engine does not tell the true ones",
			value, n, len(a.scored)))
	}
	return nil
}

// withdrawLogprobs says that logprobs cannot be used, whatever was found out about them.
func (e *probeRun) withdrawLogprobs(why string) {
	e.found.Unscored = true
	e.missing[MissingLogprobs] = why
}

// longAnswer asks for the answer that is continued. It is long, so that it ends by itself and tells the end's id; but where
// nothing will be scored it is short: a laptop's processor generates five to twenty tokens a second, and a question has 30 s.
func (e *probeRun) longAnswer(ctx context.Context) error {
	if e.noChat != "" || !e.dialect().Members.IDPrompts {
		return nil
	}
	question, maximum := long[e.variant%len(long)], longTokens
	if len(e.opening.ids) == 0 || len(e.dialect().Scoring) == 0 {
		maximum = 2 * continueTokens
	}
	a, err := e.ask(ctx, question, maximum, nil)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingContinue, err.Error())
		return nil
	}
	e.answer, e.prompt = a, a.prompt
	e.ended(&a)
	if len(e.prompt) > 0 || e.missing[MissingTokenize] != "" {
		return nil
	}
	e.prompt, err = e.rendered(ctx, map[string]any{"messages": []message{{"user", question}}, "add_generation_prompt": true})
	if fails(err) {
		return err
	}
	return nil // without ids of the prompt, the rest says so
}

// continuation finds out whether an answer can be continued from ids.
func (e *probeRun) continuation(ctx context.Context) error {
	switch {
	case e.noChat != "":
		e.addMissing(MissingContinue, e.noChat)
		return nil
	case !e.dialect().Members.IDPrompts:
		e.addMissing(MissingContinue, "the API of "+string(e.engine)+" takes no ids as a prompt")
		return nil
	case len(e.prompt) == 0:
		e.addMissing(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	more := map[string]any{"prompt": e.prompt}
	if e.missing[MissingLogprobs] == "" {
		more["logprobs"] = 2
	}
	a, err := e.complete(ctx, "/v1/completions", continueTokens, more)
	switch same, at := goesOn(&e.answer, &a); {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingContinue, err.Error())
		return nil
	case !same && (at == 0 || !a.tied(at)):
		e.addMissing(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
		return nil
	}
	if len(e.found.EOS) > 0 || len(e.answer.ids) == 0 {
		return nil
	}
	// Neither answer has ended; a little more of the long one may.
	a, err = e.complete(ctx, "/v1/completions", moreTokens, map[string]any{"prompt": slices.Concat(e.prompt, e.answer.ids)})
	if fails(err) {
		return err
	}
	e.ended(&a)
	return nil
}

// missingEnd says why no end-of-sequence id is known.
func (e *probeRun) missingEnd() {
	switch {
	case len(e.found.EOS) > 0:
	case e.noChat != "":
		e.addMissing(MissingEOS, e.noChat)
	case !e.found.TokenIDs && len(e.opening.ids) == 0:
		e.addMissing(MissingEOS, "the ids of answers are not told")
	default:
		e.addMissing(MissingEOS, fmt.Sprintf("no answer has ended by itself, in %d and %d tokens", shortTokens, longTokens))
		e.weak = e.missing[MissingEOS] // other questions may have shorter answers
	}
}

// thinksFirst finds out whether an engine that thinks before it answers can be told not to. Where it cannot, a judge cannot
// be asked: its first token is a thought's.
func (e *probeRun) thinksFirst(ctx context.Context) error {
	if !e.opening.thinks {
		return nil
	}
	e.found.Thinks = true
	if e.dialect().Thinking != dialect.ThinkingTemplate {
		e.addMissing(MissingLogprobs, "it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := e.ask(ctx, e.opened, shortTokens, map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}})
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingLogprobs, "it thinks before it answers, and refuses enable_thinking: false: "+err.Error())
	case a.thinks:
		e.addMissing(MissingLogprobs, "it thinks before it answers, and enable_thinking: false does not turn that off")
	default:
		e.ended(&a)
	}
	return nil
}

// swappedModel draws the conclusions from another model that has answered. It asks nothing.
func (e *probeRun) swappedModel() {
	if e.another == "" {
		return
	}
	why := fmt.Sprintf("asked for %q, the model %q answers", line(e.asker.model), e.another)
	e.withdrawLogprobs(why)
	e.found.Scoring = ""
	e.missing[MissingScoring], e.missing[MissingContinue] = why, why
}
