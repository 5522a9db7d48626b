package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

// probeRun is what is known of an engine, and how it is asked. A question is asked of a copy, so that one that fails
// leaves all other answers standing.
type probeRun struct {
	*asker
	found   Capabilities      // but for what is missing
	missing map[string]string // by name: the reason
	closed  string            // why scoring is suspended; "": it is not

	cards   []modelCard // of all models that the engine lists
	model   modelCard
	another string  // the name of another model that answered
	ids     []int32 // valid ids of this tokenizer
	tail    []int32 // the last ids of the first of chats
	begins  bool    // they begin thoughts
	chatted answer  // to the chat's question
	noChat  string  // why chats are not supported

	again  string // why the answer may be better at the next try
	deadly bool   // scoring has crashed the engine
}

// question is one that an engine is asked.
type question struct {
	name string
	of   []string // capabilities that its answer says something of
	ask  func(*probeRun, context.Context) error
}

// questions are all, in their order. An error says that the engine gives no answer now; a missing capability is none. The
// first foundations of them generate nothing. Scoring is late, because it may crash the engine.
var questions = []question{
	{"model card", []string{MissingWindow}, (*probeRun).window},
	{"tokenizer", []string{MissingTokenize}, (*probeRun).tokenizer},
	{"chat template", nil, (*probeRun).template},
	{"detokenizer", []string{MissingWords}, (*probeRun).detokenize},
	{"chat", []string{MissingIDs, MissingPromptIDs, MissingLogprobs}, (*probeRun).chat},
	{"continuation", []string{MissingContinue}, (*probeRun).continuation},
	{"end", []string{MissingEOS}, (*probeRun).ending},
	{"scores", []string{MissingScoring}, (*probeRun).scoring},
	{"continued text", nil, (*probeRun).continues},
}

// foundations is how many of the questions must be answered before anything is published: what evidence is kept by.
const foundations = 4

// try asks a question. With an error e is as it was.
func (e *probeRun) try(ctx context.Context, q *question) error {
	trial := *e
	trial.missing, trial.again, trial.deadly = maps.Clone(e.missing), "", false
	for _, name := range q.of {
		delete(trial.missing, name)
	}
	if err := q.ask(&trial, ctx); err != nil {
		return err
	}
	*e = trial
	return nil
}

// newRun knows nothing of an engine.
func newRun(a *asker) *probeRun {
	return &probeRun{asker: a, missing: map[string]string{}, found: Capabilities{Model: a.model, Engine: a.engine}}
}

// addMissing adds a missing capability; the first reason stays.
func (e *probeRun) addMissing(what, why string) {
	if _, reported := e.missing[what]; !reported {
		e.missing[what] = why
	}
}

// card is what is known. open are the questions that were not answered yet, with the reason.
func (e *probeRun) card(open map[string]string) *Capabilities {
	c := e.found
	missing := maps.Clone(e.missing)
	if e.another != "" { // what was found out is of another model
		why := fmt.Sprintf("asked for %q, the model %q answers", line(e.asker.model), e.another)
		c.Unscored, c.Scoring = true, ""
		for _, what := range []string{MissingLogprobs, MissingScoring, MissingContinue} {
			missing[what] = why
		}
	}
	c.Missing, c.Open = nil, nil
	for i := range questions {
		why, isOpen := open[questions[i].name]
		if !isOpen {
			continue
		}
		c.Open = append(c.Open, questions[i].name)
		for _, what := range questions[i].of {
			if _, known := missing[what]; !known {
				c.Missing = append(c.Missing, MissingCapability{what, "not known yet" + why, true})
			}
		}
	}
	for what, why := range missing {
		c.Missing = append(c.Missing, MissingCapability{Name: what, Reason: why})
	}
	slices.SortFunc(c.Missing, func(a, b MissingCapability) int { return cmp.Compare(a.Name, b.Name) })
	return &c
}

// complete calls /v1/completions or /v1/chat/completions, greedily and as a stream, and requests ids.
func (e *probeRun) complete(ctx context.Context, path string, question map[string]any) (answer, error) {
	known := &e.dialect().Members
	q := map[string]any{"max_tokens": answerTokens, "temperature": 0}
	if !known.WholeTokenIDs { // else it has none in streams
		q["stream"], q["stream_options"] = true, map[string]any{"include_usage": true}
	}
	switch {
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
	a, err := parseAnswer(body, known.IDsInLogprobs)
	if err == nil {
		e.another = ""
		if !sameModel(e.cards, e.asker.model, a.model) {
			e.another = line(a.model)
		}
	}
	return a, err
}

// say sends one question as a chat.
func (e *probeRun) say(ctx context.Context, more map[string]any) (answer, error) {
	q := map[string]any{"messages": []message{{"user", longQuestion}}}
	maps.Copy(q, more)
	return e.complete(ctx, "/v1/chat/completions", q)
}

// chat finds out whether chats are answered, with the ids of prompt and answer, and with logprobs of as many alternatives
// as drafts ask for, and true ones.
func (e *probeRun) chat(ctx context.Context) error {
	e.found.TokenIDs, e.found.Unscored, e.noChat = false, false, ""
	unscored := ""
	a, err := e.say(ctx, map[string]any{"logprobs": true, "top_logprobs": alternatives})
	if refused, is := errors.AsType[*refusal](err); is && !fails(err) {
		unscored = refused.Error()
		a, err = e.say(ctx, nil)
	}
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case err != nil && (!isRefusal || fails(err)):
		return err
	case err != nil:
		e.noChat = "chats are refused: " + refused.Error()
		for _, what := range []string{MissingIDs, MissingPromptIDs, MissingLogprobs} {
			e.addMissing(what, e.noChat)
		}
		return nil
	}
	e.chatted = a
	if why := e.withoutIDs(&a); why != "" {
		e.addMissing(MissingIDs, why)
	}
	e.found.TokenIDs = e.missing[MissingIDs] == ""
	if len(a.prompt) == 0 {
		e.addMissing(MissingPromptIDs, "it answers without prompt_token_ids")
	}
	if unscored != "" {
		e.addMissing(MissingLogprobs, unscored)
	} else if why := a.withoutLogprobs(); why != "" {
		e.found.Unscored = true
		e.addMissing(MissingLogprobs, why)
	}
	return e.thinking(ctx)
}

// withoutIDs says why the ids of a chat's answer cannot be used; "" if they can.
func (e *probeRun) withoutIDs(a *answer) string {
	switch known := &e.dialect().Members; {
	case known.WholeTokenIDs:
		return "it tells token_ids of answers in one piece alone, and drafts are streamed"
	case len(a.ids) > 0 && a.tokens >= 0 && a.tokens != len(a.ids):
		return fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens)
	case len(a.ids) > 0:
		return ""
	case known.IDsInLogprobs:
		return "the entries of its logprobs have no id"
	case !known.TokenIDs:
		return "the API of " + string(e.engine) + " tells no ids of answers"
	}
	return "it answers without token_ids"
}

// withoutLogprobs says why the logprobs of an answer cannot be believed; "" if they can.
func (a *answer) withoutLogprobs() string {
	if len(a.logprobs) == 0 {
		return "it answers without logprobs"
	}
	if value, n, untrue := a.constant(); untrue {
		return fmt.Sprintf("the logprob is %g for %d of %d tokens, with no less likely alternative: the engine does not tell the true ones",
			value, n, len(a.logprobs))
	}
	return ""
}

// thinking finds out whether an engine that thinks before it answers can be told not to. Where it cannot, a judge cannot
// be asked: its first token is a thought's.
func (e *probeRun) thinking(ctx context.Context) error {
	if e.found.Thinks = e.begins || e.chatted.thinks; !e.found.Thinks {
		return nil
	}
	if e.dialect().Thinking != dialect.ThinkingTemplate {
		e.addMissing(MissingLogprobs, "it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := e.say(ctx, map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}})
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingLogprobs, "it thinks before it answers, and refuses enable_thinking: false: "+err.Error())
	case a.thinks || e.begins && e.beginsAnyhow(ctx):
		e.addMissing(MissingLogprobs, "it thinks before it answers, and enable_thinking: false does not turn that off")
	}
	return nil
}

// continuation finds out whether an answer can be continued from ids.
func (e *probeRun) continuation(ctx context.Context) error {
	if why := e.cannotTakeIDs(); why != "" {
		e.addMissing(MissingContinue, why)
		return nil
	}
	if e.chatted.text == "" { // another replica has asked for it
		a, err := e.say(ctx, nil)
		if err != nil && !fails(err) {
			e.addMissing(MissingContinue, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		e.chatted = a
	}
	prompt, err := e.chatted.prompt, error(nil)
	if len(prompt) == 0 && e.missing[MissingTokenize] == "" {
		prompt, err = e.rendered(ctx, map[string]any{"messages": []message{{"user", longQuestion}}, "add_generation_prompt": true})
	}
	if fails(err) {
		return err
	}
	if len(prompt) == 0 {
		e.addMissing(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	more := map[string]any{"prompt": prompt}
	if e.missing[MissingLogprobs] == "" {
		more["logprobs"] = 2
	}
	a, err := e.complete(ctx, "/v1/completions", more)
	switch same, at := goesOn(&e.chatted, &a); {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingContinue, err.Error())
	case !same && (at == 0 || !a.tied(at)):
		e.addMissing(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
	}
	return nil
}

// cannotTakeIDs says why no answer can be asked for from ids; "" if it can.
func (e *probeRun) cannotTakeIDs() string {
	switch {
	case e.noChat != "":
		return e.noChat
	case !e.dialect().Members.IDPrompts:
		return "the API of " + string(e.engine) + " takes no ids as a prompt"
	}
	return ""
}

// ending looks for the id that ends answers, where a draft's end is scored. Templates have it behind an answer of a chat: of
// the ids there, it is the one that ends an answer that it is the whole of.
func (e *probeRun) ending(ctx context.Context) error {
	e.found.EOS = nil
	why := e.cannotTakeIDs()
	if len(e.dialect().Scoring) == 0 {
		why = string(e.engine) + " scores no drafts, so no end is looked for"
	}
	if why = cmp.Or(why, e.missing[MissingTokenize]); why != "" {
		e.addMissing(MissingEOS, why)
		return nil
	}
	said := []message{{"user", "Say OK."}, {"assistant", "OK"}, {"user", "Thanks."}}
	prompt, err := e.rendered(ctx, map[string]any{"messages": said[:1], "add_generation_prompt": true})
	var whole []int32
	if err == nil {
		whole, err = e.rendered(ctx, map[string]any{"messages": said, "add_generation_prompt": true})
	}
	for _, id := range behind(prompt, whole) {
		a, failed := e.complete(ctx, "/v1/completions", map[string]any{"prompt": prompt, "max_tokens": 2, "logit_bias": map[int32]int{id: 100}})
		if err = failed; err != nil {
			break
		}
		if a.endsWith(id) {
			e.found.EOS = []int32{id}
			return nil
		}
	}
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingEOS, err.Error())
	default:
		e.addMissing(MissingEOS, fmt.Sprintf("none of the %d ids behind an answer in a chat has ended one", maxBehind))
	}
	return nil
}

// behind returns the ids with which a whole chat goes on behind what the two have in common.
func behind(prompt, whole []int32) []int32 {
	n := 0
	for n < min(len(prompt), len(whole)) && prompt[n] == whole[n] {
		n++
	}
	return whole[n:min(n+maxBehind, len(whole))]
}

// doubled is the n-th pause, from 1 on: each is twice the one before, to most at most.
func doubled(minimum time.Duration, n int, maximum time.Duration) time.Duration {
	return min(minimum<<min(n-1, 20), maximum)
}
