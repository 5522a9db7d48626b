package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// probeRun is what is known of an engine, and how it is asked. A question is asked of a copy, so that one that fails
// leaves the answers before it as they are.
type probeRun struct {
	*asker
	found    Capabilities      // but for what is missing
	missing  map[string]string // by name: the reason
	known    int               // how many of the questions were answered
	mayScore func(tokens int) (leave func(error), err error)

	card    modelCard
	ids     []int32 // valid ids of this tokenizer
	tail    []int32 // the last ids of the first of chats
	begins  bool    // they begin thoughts
	chatted answer  // to the chat's question
	noChat  string  // why chats are not supported

	again string // why the last answer may be better at the next try
}

// question is one that an engine is asked.
type question struct {
	name string
	ask  func(*probeRun, context.Context) error
}

// questions are all, in their order. An error says that the engine gives no answer now; a missing capability is none. Scoring is
// last, because it may crash the engine.
var questions = []question{
	{"model card", (*probeRun).window},
	{"tokenizer", (*probeRun).tokenizer},
	{"chat template", (*probeRun).template},
	{"detokenizer", (*probeRun).detokenize},
	{"chat", (*probeRun).chat},
	{"continuation", (*probeRun).continuation},
	{"end", (*probeRun).ending},
	{"continued text", (*probeRun).continues},
	{"scores", (*probeRun).scoring},
}

// next asks the next question. With an error p is as it was.
func (p *probeRun) next(ctx context.Context) error {
	trial := *p
	trial.missing, trial.again = maps.Clone(p.missing), ""
	if err := questions[p.known].ask(&trial, ctx); err != nil {
		return err
	}
	trial.known++
	*p = trial
	return nil
}

// newRun knows nothing of an engine.
func newRun(a *asker) *probeRun {
	return &probeRun{asker: a, missing: map[string]string{}, found: Capabilities{Model: a.model, Engine: a.engine}}
}

// complete reports whether all questions were answered.
func (p *probeRun) complete() bool { return p.known == len(questions) }

// addMissing adds a missing capability; the first reason stays.
func (p *probeRun) addMissing(what, why string) {
	if _, reported := p.missing[what]; !reported {
		p.missing[what] = why
	}
}

// missingBy adds a capability as missing if an error says so. It returns an error that says nothing of it.
func (p *probeRun) missingBy(what, before string, err error) error {
	if err == nil || fails(err) {
		return err
	}
	p.addMissing(what, before+reason(err))
	return nil
}

// capabilities is what was found out.
func (p *probeRun) capabilities() *Capabilities {
	c := p.found
	c.Missing = nil
	for _, what := range slices.Sorted(maps.Keys(p.missing)) {
		c.Missing = append(c.Missing, MissingCapability{what, p.missing[what]})
	}
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
func (p *probeRun) chat(ctx context.Context) error {
	p.found.TokenIDs, p.found.Unscored, p.noChat = false, false, ""
	unscored := ""
	a, err := p.draft(ctx, asked(longQuestion))
	if err != nil && !fails(err) {
		unscored = reason(err)
		a, err = p.relay(ctx, asked(longQuestion))
	}
	if fails(err) {
		return err
	}
	if err != nil {
		p.noChat = "chats are refused: " + reason(err)
		for _, what := range []string{MissingIDs, MissingPromptIDs, MissingLogprobs, MissingJudge} {
			p.addMissing(what, p.noChat)
		}
		return nil
	}
	p.chatted = a
	switch {
	case len(a.ids) == 0:
		p.addMissing(MissingIDs, "it answers without token_ids")
	case a.tokens >= 0 && a.tokens != len(a.ids):
		p.addMissing(MissingIDs, fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens))
	default:
		p.found.TokenIDs = true
	}
	if len(a.prompt) == 0 {
		p.addMissing(MissingPromptIDs, "it answers without prompt_token_ids")
	}
	if unscored != "" {
		p.addMissing(MissingLogprobs, unscored)
	} else if why := a.withoutLogprobs(); why != "" {
		p.found.Unscored = true
		p.addMissing(MissingLogprobs, why)
	}
	return p.thinking(ctx)
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
func (p *probeRun) thinking(ctx context.Context) error {
	if p.found.Thinks = p.begins || p.chatted.thinks; !p.found.Thinks {
		return nil
	}
	if !p.dialect().Members.TemplateArgs {
		p.addMissing(MissingJudge, "it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := p.relay(ctx, unthinking(asked(longQuestion)))
	if err == nil && (a.thinks || p.begins && p.beginsAnyhow(ctx)) {
		p.addMissing(MissingJudge, "it thinks before it answers, and enable_thinking: false does not turn that off")
	}
	return p.missingBy(MissingJudge, "it thinks before it answers, and refuses enable_thinking: false: ", err)
}

// continuation finds out whether an answer can be continued from ids.
func (p *probeRun) continuation(ctx context.Context) error {
	if why := p.cannotTakeIDs(); why != "" {
		p.addMissing(MissingContinue, why)
		return nil
	}
	prompt := p.chatted.prompt
	if len(prompt) == 0 && p.missing[MissingTokenize] == "" {
		var err error
		if prompt, err = p.rendered(ctx, asked(longQuestion)); fails(err) {
			return err
		}
	}
	if len(prompt) == 0 {
		p.addMissing(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	a, err := p.behindIDs(ctx, prompt)
	if err != nil {
		return p.missingBy(MissingContinue, "", err)
	}
	if same, at := goesOn(&p.chatted, &a); !same && (at == 0 || !a.tied(at)) {
		p.addMissing(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
	}
	return nil
}

// behindIDs has the engine answer to the ids of a prompt, with logprobs where it has them.
func (p *probeRun) behindIDs(ctx context.Context, prompt []int32) (answer, error) {
	if p.missing[MissingLogprobs] == "" {
		return p.draft(ctx, map[string]any{"prompt": prompt})
	}
	r, err := p.request(asked(longQuestion))
	if err != nil {
		return answer{}, err
	}
	return p.said(ctx, &engine.ContinueIDs{Terms: p.terms(), Request: r, PromptIDs: prompt, MaxTokens: answerTokens})
}

// cannotTakeIDs says why no answer can be asked for from ids; "" if it can.
func (p *probeRun) cannotTakeIDs() string {
	switch {
	case p.noChat != "":
		return p.noChat
	case !p.dialect().Members.IDPrompts:
		return "the API of " + string(p.engine) + " takes no ids as a prompt"
	}
	return ""
}

// ending looks for the id that ends answers, where a draft's end is scored. Templates have it behind an answer of a chat: of
// the ids there, it is the one that ends an answer that it is the whole of.
func (p *probeRun) ending(ctx context.Context) error {
	p.found.EOS = nil
	why := p.cannotTakeIDs()
	if len(p.dialect().Scoring) == 0 {
		why = string(p.engine) + " scores no drafts, so no end is looked for"
	}
	if why = cmp.Or(why, p.missing[MissingTokenize]); why != "" {
		p.addMissing(MissingEOS, why)
		return nil
	}
	said := []message{{"user", "Say OK."}, {"assistant", "OK"}, {"user", "Thanks."}}
	prompt, err := p.rendered(ctx, chat(said[0]))
	if err != nil {
		return p.missingBy(MissingEOS, "", err)
	}
	whole, err := p.rendered(ctx, chat(said...))
	if err != nil {
		return p.missingBy(MissingEOS, "", err)
	}
	for _, id := range behind(prompt, whole) {
		a, err := p.relay(ctx, map[string]any{"prompt": prompt, "max_tokens": 2, "logit_bias": map[int32]int{id: 100}})
		if err != nil {
			return p.missingBy(MissingEOS, "", err)
		}
		if a.finish == "stop" && !a.cut && a.text == "" {
			p.found.EOS = []int32{id}
			return nil
		}
	}
	p.addMissing(MissingEOS, fmt.Sprintf("none of the %d ids behind an answer in a chat has ended one", maxBehind))
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
func (p *probeRun) continues(ctx context.Context) error {
	if p.noChat != "" {
		return nil
	}
	for _, question := range longQuestions {
		found, err := p.continued(ctx, question)
		if err != nil && !fails(err) {
			found, err = dialect.ContinueNot, nil
		}
		if err != nil {
			return err
		}
		if p.found.Continue = found; found != dialect.ContinueNot && found != dialect.ContinueUnknown {
			return nil
		}
	}
	return nil
}

// continued has the engine continue its own answer to a question, which it does as before. If the text comes once more, it
// may repeat what it is given, or answer anew: the answer to unlikelyText tells.
func (p *probeRun) continued(ctx context.Context, question string) (dialect.Continue, error) {
	whole, err := p.rest(ctx, question, "")
	if err != nil {
		return dialect.ContinueUnknown, err
	}
	cut := strings.LastIndexByte(whole[:len(whole)*2/3], ' ')
	if cut <= 0 {
		return dialect.ContinueUnknown, nil // it is too short, or all thoughts
	}
	got, err := p.rest(ctx, question, whole[:cut])
	found := continuationOf(whole[:cut], whole[cut:], got)
	if err == nil && found == dialect.Repeats {
		if got, err = p.rest(ctx, question, unlikelyText); !strings.HasPrefix(got, unlikelyText) {
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
func (p *probeRun) rest(ctx context.Context, question, text string) (string, error) {
	r, err := p.request(asked(question))
	if err != nil {
		return "", err
	}
	a, err := p.said(ctx, &engine.ContinueText{
		Terms: p.terms(), Request: r, Text: []byte(text), MaxTokens: answerTokens, Found: dialect.Continues, Probed: p.engine,
	})
	return a.text, err
}

// modelCard is what an engine tells of a model. Two cards are equal where they tell the same.
type modelCard struct {
	ID     string
	Root   string
	Parent string
	Window int    // context length of a request, tokens; 0: not told
	Start  string // changes with each start of the engine; "": nothing tells it
}

// parseCard reads the card of a model from an answer of /v1/models: the one with its name, or the only one.
func parseCard(body []byte, model string) (modelCard, error) {
	models, err := dialect.ParseModels(body)
	if err != nil {
		return modelCard{}, unusable("the answer of /v1/models cannot be read: " + line(err.Error()))
	}
	for _, m := range models {
		if m.ID == model || len(models) == 1 {
			return modelCard{ID: m.ID, Root: m.Root, Parent: m.Parent, Window: max(m.Window, 0)}, nil
		}
	}
	return modelCard{}, unusable("/v1/models does not list " + line(strconv.Quote(model)))
}

// parseProps reads the context length of a request from an answer of llama.cpp's /props, and what changes with each start.
func parseProps(body []byte) (window int, start string, err error) {
	var w struct {
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Marker json.RawMessage `json:"media_marker"` // drawn at each start
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return 0, "", unusable("the answer cannot be read: " + line(err.Error()))
	}
	if w.Settings.Window <= 0 {
		return 0, "", unusable("it tells no n_ctx")
	}
	_ = json.Unmarshal(w.Marker, &start) // of another type it is none
	return w.Settings.Window, line(start), nil
}

// startTime is the metric of Python's client that tells when the process was started.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds (\S{1,32})\s*$`)

// started returns when the engine says that it was started, "" if it does not.
func (p *probeRun) started(ctx context.Context) string {
	if !p.dialect().Load.Reads() {
		return ""
	}
	body, err := p.get(ctx, "/metrics")
	if told := startTime.FindSubmatch(body); err == nil && told != nil {
		return string(told[1])
	}
	return ""
}

// window reads the model card, and the context length of a request where the engine tells it.
func (p *probeRun) window(ctx context.Context) error {
	body, err := p.get(ctx, dialect.ModelsPath)
	if err == nil {
		p.card, err = parseCard(body, p.model)
	}
	if fails(err) {
		return err
	}
	if p.dialect().PropsWindow {
		if body, err = p.get(ctx, "/props"); err == nil {
			p.card.Window, p.card.Start, err = parseProps(body)
		}
		if fails(err) {
			return err
		}
	} else {
		p.card.Start = p.started(ctx)
	}
	switch p.found.Window = p.card.Window; {
	case err != nil:
		p.addMissing(MissingWindow, reason(err))
	case p.found.Window == 0:
		p.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
	}
	return nil
}
