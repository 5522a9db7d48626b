package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// probeRun is one probe of one engine.
type probeRun struct {
	*asker
	found   Capabilities
	missing map[string]string
	variant int    // index of the question variant
	closed  string // why scoring is suspended; "": it is not

	model   modelCard
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

// addMissing adds a missing capability; the first reason stays.
func (e *probeRun) addMissing(what, why string) {
	if _, reported := e.missing[what]; !reported {
		e.missing[what] = why
	}
}

// complete calls /v1/completions or /v1/chat/completions, greedily unless the question says otherwise, and requests ids.
func (e *probeRun) complete(ctx context.Context, path string, maximum int, question map[string]any) (answer, error) {
	q := map[string]any{"max_tokens": maximum, "temperature": 0, "stream": false}
	maps.Copy(q, question)
	e.wantIDs(q)
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
	return a, err
}

// wantIDs adds to a question what makes the engine tell the ids of its answer, if there is such a thing.
func (e *probeRun) wantIDs(q map[string]any) {
	members := &e.dialect().Members
	if members.TokenIDs || members.WholeTokenIDs {
		q["return_token_ids"] = true
	}
	if !members.IDsInLogprobs || q["logprobs"] != nil {
		return
	}
	if q["messages"] == nil {
		q["logprobs"] = 1
		return
	}
	q["logprobs"], q["top_logprobs"] = true, 1
}

// ask sends one question as a chat.
func (e *probeRun) ask(ctx context.Context, text string, maximum int, more map[string]any) (answer, error) {
	q := map[string]any{"messages": []message{{"user", text}}}
	maps.Copy(q, more)
	return e.complete(ctx, "/v1/chat/completions", maximum, q)
}

// templated sends a chat question, with template arguments if the engine takes them.
func (e *probeRun) templated(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	if e.pins != pinsRefused && e.dialect().Members.TemplateArgs {
		q := maps.Clone(question)
		q["chat_template_kwargs"] = pinned
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
	if err == nil {
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

// route is the way to get the ids of texts, or of chats.
type route struct {
	confirmed bool   // /tokenize has returned ids
	not       string // why it is not used any more
}

// rendered returns the ids of a text or of a chat, in the way of the engine's kind.
func (e *probeRun) rendered(ctx context.Context, question map[string]any) ([]int32, error) {
	switch e.dialect().Tokenize {
	case dialect.TokenizeLlamaCpp:
		return e.renderedBySteps(ctx, question)
	case dialect.TokenizeNone:
		err := &unreadable{"engines of kind " + string(e.engine) + " have no route that tells ids"}
		e.ofTexts.not, e.ofChats.not = err.why, err.why
		return nil, err
	}
	return e.renderedAtOnce(ctx, question)
}

// renderedBySteps is llama.cpp's way: /apply-template makes a text of a chat, and /tokenize ids of a text. Like its own
// requests, it adds the first token and reads the names of special tokens as these.
func (e *probeRun) renderedBySteps(ctx context.Context, question map[string]any) ([]int32, error) {
	text, r := question["prompt"], &e.ofTexts
	if question["messages"] != nil {
		r = &e.ofChats
		chat := maps.Clone(question)
		delete(chat, "add_generation_prompt") // it always adds it
		body, err := e.templated(ctx, "/apply-template", chat)
		if err == nil {
			text, err = parseText(body, "/apply-template", "prompt")
		}
		if err != nil {
			if !r.confirmed {
				r.not = "/apply-template: " + err.Error()
			}
			return nil, err
		}
	}
	body, err := e.post(ctx, "/tokenize", map[string]any{"content": text, "add_special": true, "parse_special": true})
	var ids []int32
	if err == nil {
		ids, err = parseIDs(body)
	}
	if err != nil {
		r.not = "/tokenize: " + err.Error()
		return nil, err
	}
	r.confirmed = true
	return ids, nil
}

// renderedAtOnce is vLLM's way, by /tokenize, or, if that failed the first time, as the prompt of a one-token answer. Both
// give the same if both work.
func (e *probeRun) renderedAtOnce(ctx context.Context, question map[string]any) ([]int32, error) {
	post, path, r := e.post, "/v1/completions", &e.ofTexts
	if question["messages"] != nil {
		post, path, r = e.templated, "/v1/chat/completions", &e.ofChats
	}
	if r.not == "" {
		body, err := post(ctx, "/tokenize", question)
		var ids []int32
		if err == nil {
			ids, err = parseIDs(body)
		}
		r.confirmed = r.confirmed || err == nil
		if r.confirmed || fails(err) {
			return ids, err
		}
		r.not = "/tokenize: " + err.Error()
	}
	a, err := e.complete(ctx, path, 1, question)
	if _, refused := errors.AsType[*refusal](err); refused && question["tools"] != nil {
		// "auto" needs a parser; some engines leave the tools out for "none".
		q := maps.Clone(question)
		q["tool_choice"] = "none"
		a, err = e.complete(ctx, path, 1, q)
	}
	if err == nil && len(a.prompt) == 0 {
		err = &unreadable{"answers come without prompt_token_ids"}
	}
	if err != nil && !fails(err) {
		err = fmt.Errorf("%s; %s: %w", r.not, path, err)
	}
	return a.prompt, err
}

// question returns a request to score the last tokens of ids.
func (e *probeRun) question(style openai.ScoreStyle, ids []int32, draft int) *openai.ScoreQuestion {
	n := len(ids) - draft
	return &openai.ScoreQuestion{Style: style, Model: e.asker.model, Prompt: ids[:n:n], Draft: ids[n:], Top: 1, Priority: e.dialect().EnginePriority(e.priority)}
}
