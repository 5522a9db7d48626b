package upstream

import (
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
	prompt *engine.TokenizePrompt
	into   []byte // the prompt as a text
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

// asksTokenizer reports whether a call turns text into ids, or back.
func asksTokenizer(call engine.Call) bool {
	switch call.(type) {
	case *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize, *applyTemplate, *tokenizeRendered:
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
	case *engine.TokenizePrompt: // of a completion: see [tokenizesInTwo]
		return openai.TokenizePath, openai.TokenizeContent(c.Request.Text(), true)
	case *tokenizeRendered:
		return openai.TokenizePath, openai.TokenizeContent(c.text, true)
	case *applyTemplate:
		return openai.TemplatePath, c.prompt.Request.ApplyTemplate()
	case *engine.Detokenize:
		return openai.DetokenizePath, openai.Detokenize(c.Model, c.IDs)
	}
	return "", nil
}

// tokenizesInTwo returns the call if an attempt takes two exchanges: to render a chat and to tokenize its text.
func tokenizesInTwo(a *engine.Attempt) (*engine.TokenizePrompt, bool) {
	c, ok := a.Call.(*engine.TokenizePrompt)
	return c, ok && c.Request.Kind == openai.Chat && dialect.Of(a.Engine).Tokenize == dialect.TokenizeLlamaCpp
}
