package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// errNoTokenizer says that an engine of this kind has no route that tells the ids of a text.
var errNoTokenizer = errors.New("this kind of engine does not tell the ids of a text")

// applyTemplate has llama.cpp render a chat: its /tokenize takes only a text.
type applyTemplate struct {
	request *openai.Request
	kwargs  []byte // as [openai.Request.ApplyTemplate]
	into    []byte // the prompt as a text
}

// Usage implements [engine.Call].
func (*applyTemplate) Usage() openai.Usage { return openai.Usage{} }

// tokenizeRendered has llama.cpp tokenize a rendered chat, whose text has its special tokens.
type tokenizeRendered struct {
	text []byte
	into *[]int32
}

// Usage implements [engine.Call].
func (*tokenizeRendered) Usage() openai.Usage { return openai.Usage{} }

// isOptional reports whether a call is of a path that not every engine has: text into ids or back, and what it tells of itself.
func isOptional(call engine.Call) bool {
	switch call.(type) {
	case *engine.Ask, *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize, *applyTemplate, *tokenizeRendered:
		return true
	}
	return false
}

// encodeTokens returns the path and the body of a call that turns text into ids, or back.
func (e encoder) encodeTokens(call engine.Call) (path string, body []byte, err error) {
	switch e.Tokenize {
	case dialect.TokenizeVLLM:
		path, body = encodeVLLMTokens(call)
	case dialect.TokenizeSGLang:
		switch c := call.(type) {
		case *engine.Detokenize:
			return openai.DetokenizePath, openai.DetokenizeAll(c.Model, c.IDs), nil
		case *engine.TokenizePrompt:
			return openai.TokenizePath, c.Request.TokenizePrompt(c.Model, false), nil
		}
		path, body = encodeVLLMTokens(call)
	case dialect.TokenizeLlamaCpp:
		path, body = encodeLlamaTokens(call)
	case dialect.TokenizeNone:
		return "", nil, errNoTokenizer
	}
	if path == "" {
		panic(fmt.Sprintf("upstream: no such call: %T", call))
	}
	return path, body, nil
}

func encodeVLLMTokens(call engine.Call) (path string, body []byte) {
	switch c := call.(type) {
	case *engine.TokenizeText:
		return openai.TokenizePath, openai.TokenizeText(c.Model, c.Text)
	case *engine.TokenizePrompt:
		return openai.TokenizePath, c.Request.TokenizePrompt(c.Model, true)
	case *engine.Detokenize:
		return openai.DetokenizePath, openai.Detokenize(c.Model, c.IDs)
	}
	return "", nil
}

func encodeLlamaTokens(call engine.Call) (path string, body []byte) {
	switch c := call.(type) {
	case *engine.TokenizeText:
		return openai.TokenizePath, openai.TokenizeContent(c.Text, false)
	case *engine.TokenizePrompt: // of a completion: see [Client.tokenizeChat]
		return openai.TokenizePath, openai.TokenizeContent(c.Request.Text(), true)
	case *tokenizeRendered:
		return openai.TokenizePath, openai.TokenizeContent(c.text, true)
	case *applyTemplate:
		return openai.TemplatePath, c.request.ApplyTemplate(c.kwargs)
	case *engine.Detokenize:
		return openai.DetokenizePath, openai.Detokenize(c.Model, c.IDs)
	}
	return "", nil
}

// continueTokens continues the text of a chat's answer behind the ids of prompt and text.
type continueTokens struct {
	*engine.ContinueText
	prompt, text []int32
}

// tokenizeChat has an engine render a chat and tokenize that, in two exchanges. It returns the second.
func (c *Client) tokenizeChat(ctx context.Context, a *engine.Attempt, render *applyTemplate, into *[]int32) (engine.Stream, error) {
	if err := c.ask(ctx, a, render); err != nil {
		return nil, err
	}
	return c.openOne(ctx, with(a, &tokenizeRendered{text: render.into, into: into}))
}

// continueByIDs has an engine continue the text of a chat's answer behind ids, all of which it tells itself. What a model
// thinks first is not part of the text: the prompt is one behind which it does not think.
func (c *Client) continueByIDs(ctx context.Context, a *engine.Attempt, call *engine.ContinueText) (engine.Stream, error) {
	behind := continueTokens{ContinueText: call}
	prompt, err := c.tokenizeChat(ctx, a, &applyTemplate{request: call.Request, kwargs: call.Request.KwargsWithoutThinking()}, &behind.prompt)
	if err != nil {
		return nil, err
	}
	prompt.Close()
	if err := c.ask(ctx, a, &engine.TokenizeText{Model: call.Model, Text: call.Text, Into: &behind.text}); err != nil {
		return nil, err
	}
	return c.openOne(ctx, with(a, &behind))
}

// ask makes one exchange whose answer is read by then.
func (c *Client) ask(ctx context.Context, a *engine.Attempt, call engine.Call) error {
	s, err := c.openOne(ctx, with(a, call))
	if err == nil {
		s.Close()
	}
	return err
}

// with returns an attempt like another with another call.
func with(a *engine.Attempt, call engine.Call) *engine.Attempt {
	other := *a
	other.Call = call
	return &other
}
