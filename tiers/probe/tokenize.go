package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/foregate/foregate/tiers/dialect"
)

// rendered returns the ids of a text or of a chat: by /tokenize, or, if that failed the first time, as the prompt of a
// one-token answer. Both give the same if both work.
func (e *probeRun) rendered(ctx context.Context, question map[string]any) ([]int32, error) {
	path, r := "/v1/completions", &e.ofTexts
	if question["messages"] != nil {
		path, r = "/v1/chat/completions", &e.ofChats
	}
	if r.not == "" {
		ids, err := e.tokenized(ctx, question)
		r.confirmed = r.confirmed || err == nil
		if r.confirmed || fails(err) {
			return ids, err
		}
		r.not = "/tokenize: " + err.Error()
	}
	if known := &e.dialect().Members; !known.TokenIDs && !known.WholeTokenIDs {
		return nil, &unreadable{r.not}
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

// tokenized returns the ids of a text or of a chat as the engine's own routes tell them.
func (e *probeRun) tokenized(ctx context.Context, question map[string]any) ([]int32, error) {
	var body []byte
	var err error
	switch e.dialect().Tokenize {
	case dialect.TokenizeNone:
		return nil, &unreadable{"the API of " + string(e.engine) + " has no such route"}
	case dialect.TokenizeLlamaCpp:
		text := question["prompt"]
		if question["messages"] != nil {
			if text, err = e.templateText(ctx, question); err != nil {
				return nil, err
			}
		}
		// A template's text lacks the token that begins all texts, and names special tokens by their text.
		body, err = e.post(ctx, "/tokenize", map[string]any{"content": text, "add_special": true, "parse_special": true})
	default:
		post := e.post
		if question["messages"] != nil {
			post = e.templated
		}
		body, err = post(ctx, "/tokenize", question)
	}
	if err != nil {
		return nil, err
	}
	return parseIDs(body)
}

// templateText has llama.cpp apply the chat template.
func (e *probeRun) templateText(ctx context.Context, question map[string]any) (string, error) {
	body, err := e.templated(ctx, "/apply-template", question)
	if err != nil {
		return "", err
	}
	return parseTemplateText(body)
}

// parseTemplateText reads an answer of /apply-template. The error is an *unreadable.
func parseTemplateText(body []byte) (string, error) {
	var w struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return "", &unreadable{"the answer of /apply-template cannot be read: " + line(err.Error())}
	}
	if w.Prompt == nil {
		return "", &unreadable{"/apply-template told no prompt"}
	}
	return *w.Prompt, nil
}

// parseWords reports whether an answer of /detokenize has a text, under a name that depends on the engine.
func parseWords(body []byte, name string) bool {
	var w map[string]json.RawMessage
	var text *string
	return json.Unmarshal(body, &w) == nil && json.Unmarshal(w[name], &text) == nil && text != nil
}

// wordsName is the member of an answer of /detokenize that has the text.
func (e *probeRun) wordsName() string {
	switch e.dialect().Tokenize {
	case dialect.TokenizeLlamaCpp:
		return "content"
	case dialect.TokenizeSGLang:
		return "text"
	}
	return "prompt"
}
