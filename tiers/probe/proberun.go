package probe

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
)

// probeRun is one probe of one engine.
type probeRun struct {
	*asker
	found   Capabilities
	missing map[string]string
	hazards map[string]string // by name: the reason
	variant int               // index of the question variant
	closed  string            // why scoring is suspended; "": it is not

	cards   []modelCard // of all models that the engine lists
	model   modelCard
	another string // the name of another model that answered
	opening answer // to the short question
	opened  string // that question
	pins    templateArguments
	ofTexts route
	ofChats route
	noChat  string  // why chats are not supported
	ids     []int32 // valid ids of this tokenizer
	prompt  []int32 // of the long question; nil while unknown
	answer  answer  // to it

	weak   string // a result that may be better at the next try
	deadly bool   // scoring has crashed the engine
}

// templateArguments says whether chats may have template arguments; engines without them refuse the field.
type templateArguments int

const (
	pinsUntried templateArguments = iota
	pinsTaken
	pinsRefused
)

// route is the way to get the ids of texts, or of chats.
type route struct {
	confirmed bool   // /tokenize has returned ids
	not       string // why it is not used any more
}

// addMissing adds a missing capability; the first reason stays.
func (e *probeRun) addMissing(what, why string) {
	if _, reported := e.missing[what]; !reported {
		e.missing[what] = why
	}
}

// addHazard records a hazard; the first reason stays.
func (e *probeRun) addHazard(name, why string) {
	if e.hazards[name] == "" {
		e.hazards[name] = why
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
	e.spent.Prompt += a.prompts
	e.spent.Generated += max(a.tokens, 0)
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

// templated sends a chat question, with template arguments if the engine takes them.
func (e *probeRun) templated(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	own, _ := question["chat_template_kwargs"].(map[string]any)
	if e.pins != pinsRefused && e.dialect().Members.TemplateArgs {
		q, arguments := maps.Clone(question), maps.Clone(pinned)
		maps.Copy(arguments, own)
		q["chat_template_kwargs"] = arguments
		body, err := e.post(ctx, path, q)
		if err == nil {
			e.pins = pinsTaken
		}
		r, refused := errors.AsType[*refusal](err)
		if e.pins == pinsTaken || !refused || r.status != http.StatusBadRequest {
			return body, err
		}
	}
	body, err := e.post(ctx, path, question)
	if err == nil && own == nil {
		e.pins = pinsRefused
	}
	return body, err
}

// ended stores the id that ended an answer.
func (e *probeRun) ended(a *answer) {
	if id, ok := a.end(); ok && !slices.Contains(e.found.EOS, id) {
		e.found.EOS = append(e.found.EOS, id)
	}
}

// question returns a request to score the last tokens of ids.
func (e *probeRun) question(style openai.ScoreStyle, ids []int32, draft int) *openai.ScoreQuestion {
	n := len(ids) - draft
	return &openai.ScoreQuestion{Style: style, Model: e.asker.model, Prompt: ids[:n:n], Draft: ids[n:], Top: 1,
		Priority: e.dialect().EnginePriority(e.priority)}
}
