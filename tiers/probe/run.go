package probe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
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
	{"chat", []string{MissingIDs, MissingPromptIDs, MissingLogprobs, MissingJudge}, (*probeRun).chat},
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

// missingBy adds a capability as missing if an error says so. It returns an error that says nothing of it.
func (e *probeRun) missingBy(what, before string, err error) error {
	if err == nil || fails(err) {
		return err
	}
	e.addMissing(what, before+reason(err))
	return nil
}

// card is what is known. states are those of the questions; none is open without.
func (e *probeRun) card(states []state) *Capabilities {
	c := e.found
	missing := maps.Clone(e.missing)
	if e.another != "" { // what was found out is of another model
		why := fmt.Sprintf("asked for %q, the model %q answers", line(e.asker.model), e.another)
		c.Unscored, c.Scoring = true, ""
		for _, what := range []string{MissingLogprobs, MissingJudge, MissingScoring, MissingContinue} {
			missing[what] = why
		}
	}
	c.Missing, c.Open = nil, nil
	for i := range states {
		q, s := &questions[i], &states[i]
		if !s.open() {
			continue
		}
		why := "not known yet"
		if s.fails > 0 {
			why += ": " + s.failed
		}
		c.Open = append(c.Open, q.name)
		for _, what := range q.of {
			if _, known := missing[what]; !known {
				c.Missing = append(c.Missing, MissingCapability{what, why, true})
			}
		}
	}
	for what, why := range missing {
		c.Missing = append(c.Missing, MissingCapability{Name: what, Reason: why})
	}
	slices.SortFunc(c.Missing, func(a, b MissingCapability) int { return cmp.Compare(a.Name, b.Name) })
	return &c
}

// longQuestion has a long answer, so that its beginning can be compared.
const longQuestion = "Describe a walk through a market town on a rainy morning, in about two hundred words."

const (
	answerTokens = 16 // of each answer, at most
	maxBehind    = 6  // ids of an answer and behind it that may be its end
)

// asked are the members of a chat of one question.
func asked(question string) map[string]any { return chat(message{"user", question}) }

// unthinking are those of a chat whose engine is not to think.
func unthinking(members map[string]any) map[string]any {
	members[openai.Kwargs] = map[string]any{"enable_thinking": false}
	return members
}

// chat finds out whether chats are answered, with the ids of prompt and answer, and with logprobs of as many alternatives
// as drafts ask for, and true ones.
func (e *probeRun) chat(ctx context.Context) error {
	e.found.TokenIDs, e.found.Unscored, e.noChat = false, false, ""
	unscored := ""
	a, err := e.draft(ctx, asked(longQuestion))
	if err != nil && !fails(err) {
		unscored = reason(err)
		a, err = e.relay(ctx, asked(longQuestion))
	}
	if fails(err) {
		return err
	}
	if err != nil {
		e.noChat = "chats are refused: " + reason(err)
		for _, what := range []string{MissingIDs, MissingPromptIDs, MissingLogprobs, MissingJudge} {
			e.addMissing(what, e.noChat)
		}
		return nil
	}
	if e.chatted, e.another = a, ""; !sameModel(e.cards, e.asker.model, a.model) {
		e.another = line(a.model)
	}
	switch {
	case len(a.ids) == 0:
		e.addMissing(MissingIDs, "it answers without token_ids")
	case a.tokens >= 0 && a.tokens != len(a.ids):
		e.addMissing(MissingIDs, fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens))
	default:
		e.found.TokenIDs = true
	}
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
	if !e.dialect().Members.TemplateArgs {
		e.addMissing(MissingJudge, "it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := e.relay(ctx, unthinking(asked(longQuestion)))
	if err == nil && (a.thinks || e.begins && e.beginsAnyhow(ctx)) {
		e.addMissing(MissingJudge, "it thinks before it answers, and enable_thinking: false does not turn that off")
	}
	return e.missingBy(MissingJudge, "it thinks before it answers, and refuses enable_thinking: false: ", err)
}

// continuation finds out whether an answer can be continued from ids.
func (e *probeRun) continuation(ctx context.Context) error {
	if why := e.cannotTakeIDs(); why != "" {
		e.addMissing(MissingContinue, why)
		return nil
	}
	var err error
	if e.chatted.text == "" { // another replica has asked for it
		if e.chatted, err = e.relay(ctx, asked(longQuestion)); err != nil {
			return e.missingBy(MissingContinue, "", err)
		}
	}
	prompt := e.chatted.prompt
	if len(prompt) == 0 && e.missing[MissingTokenize] == "" {
		if prompt, err = e.rendered(ctx, asked(longQuestion)); fails(err) {
			return err
		}
	}
	if len(prompt) == 0 {
		e.addMissing(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	a, err := e.behindIDs(ctx, prompt)
	if err != nil {
		return e.missingBy(MissingContinue, "", err)
	}
	if same, at := goesOn(&e.chatted, &a); !same && (at == 0 || !a.tied(at)) {
		e.addMissing(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
	}
	return nil
}

// behindIDs has the engine answer to the ids of a prompt, with logprobs where it has them.
func (e *probeRun) behindIDs(ctx context.Context, prompt []int32) (answer, error) {
	if e.missing[MissingLogprobs] == "" {
		return e.draft(ctx, map[string]any{"prompt": prompt})
	}
	r, err := e.request(asked(longQuestion))
	if err != nil {
		return answer{}, err
	}
	return e.said(ctx, &engine.ContinueIDs{Terms: e.terms(), Request: r, PromptIDs: prompt, MaxTokens: answerTokens})
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
	prompt, err := e.rendered(ctx, chat(said[0]))
	if err != nil {
		return e.missingBy(MissingEOS, "", err)
	}
	whole, err := e.rendered(ctx, chat(said...))
	if err != nil {
		return e.missingBy(MissingEOS, "", err)
	}
	for _, id := range behind(prompt, whole) {
		a, err := e.relay(ctx, map[string]any{"prompt": prompt, "max_tokens": 2, "logit_bias": map[int32]int{id: 100}})
		if err != nil {
			return e.missingBy(MissingEOS, "", err)
		}
		if a.finish == "stop" && !a.cut && a.text == "" {
			e.found.EOS = []int32{id}
			return nil
		}
	}
	e.addMissing(MissingEOS, fmt.Sprintf("none of the %d ids behind an answer in a chat has ended one", maxBehind))
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

// longQuestions are questions whose answers are longer than what is asked for. Where an engine seems not to continue the answer to
// one, the next is asked: two tokens may be as likely.
var longQuestions = []string{
	"Describe a walk through a market town on a rainy morning.",
	"Explain how bread is baked.",
	"Count from one to thirty in words.",
}

// unlikelyText is what no model says by itself: whose answer begins with it repeats what it was given.
const unlikelyText = "Purple seventeen doorknob, said the"

// continues finds out what the engine answers that is asked to continue a text, by the very call of a continuation.
func (e *probeRun) continues(ctx context.Context) error {
	if e.noChat != "" {
		return nil
	}
	for _, question := range longQuestions {
		found, err := e.continued(ctx, question)
		if err != nil && !fails(err) {
			found, err = dialect.ContinueNot, nil
		}
		if err != nil {
			return err
		}
		if e.found.Continue = found; found != dialect.ContinueNot && found != dialect.ContinueUnknown {
			return nil
		}
	}
	return nil
}

// continued has the engine continue its own answer to a question, which it does as before. If the text comes once more, it
// may repeat what it is given, or answer anew: the answer to unlikelyText tells.
func (e *probeRun) continued(ctx context.Context, question string) (dialect.Continue, error) {
	whole, err := e.rest(ctx, question, "")
	if err != nil {
		return dialect.ContinueUnknown, err
	}
	cut := strings.LastIndexByte(whole[:len(whole)*2/3], ' ')
	if cut <= 0 {
		return dialect.ContinueUnknown, nil // it is too short, or all thoughts
	}
	got, err := e.rest(ctx, question, whole[:cut])
	found := continuationOf(whole[:cut], whole[cut:], got)
	if err == nil && found == dialect.Repeats {
		if got, err = e.rest(ctx, question, unlikelyText); !strings.HasPrefix(got, unlikelyText) {
			found = dialect.ContinueNot
		}
	}
	return found, err
}

// continuationOf says what an engine has answered that was asked to continue a text whose rest is known.
func continuationOf(text, rest, got string) dialect.Continue {
	again, repeats := strings.CutPrefix(got, text)
	switch {
	case agree(got, rest):
		return dialect.Continues
	case repeats && agree(again, rest):
		return dialect.Repeats
	}
	return dialect.ContinueNot
}

// agree reports whether two texts begin with the same few bytes, as far as both go. Some tokens later they may differ: an
// engine's results depend on how it computes them.
func agree(a, b string) bool {
	n := min(len(a), len(b), 8)
	return n > 2 && a[:n] == b[:n]
}

// rest has the engine continue the text of an answer, by at most answerTokens tokens.
func (e *probeRun) rest(ctx context.Context, question, text string) (string, error) {
	r, err := e.request(asked(question))
	if err != nil {
		return "", err
	}
	a, err := e.said(ctx, &engine.ContinueText{
		Terms: e.terms(), Request: r, Text: []byte(text), MaxTokens: answerTokens, Found: dialect.Continues, Probed: e.engine,
	})
	return a.text, err
}
