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

// post is a call that one kind of engine alone needs: a body for a path, and what reads the answer.
type post struct {
	path string
	body []byte
	read func(answer []byte) error
}

// isOptional reports whether a call is of a path that not every engine has: text into ids or back, and what it tells of itself.
func isOptional(call engine.Call) bool {
	switch call.(type) {
	case *engine.Ask, *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize, *post:
		return true
	}
	return false
}

// encodeTokens returns the path and the body of a call that turns text into ids, or back.
func (e encoder) encodeTokens(call engine.Call) (path string, body []byte, err error) {
	if e.Tokenize == dialect.TokenizeNone {
		return "", nil, errNoTokenizer
	}
	llama, special := e.Tokenize == dialect.TokenizeLlamaCpp, openai.Set("skip_special_tokens", "false")
	switch c := call.(type) {
	case *engine.TokenizeText: // without the tokens that begin a prompt
		if llama {
			return openai.TokenizePath, contentBody(c.Text, "false"), nil
		}
		return openai.TokenizePath, openai.Object(nil, openai.SetText("model", c.Model), openai.SetText("prompt", c.Text), openai.Set("add_special_tokens", "false")), nil
	case *engine.TokenizePrompt:
		if llama { // of a completion: see [Client.tokenizeChat]
			return openai.TokenizePath, contentBody(c.Request.Text(), "true"), nil
		}
		return openai.TokenizePath, e.promptBody(c), nil
	case *engine.Detokenize:
		if e.Tokenize != dialect.TokenizeSGLang { // which leaves out special tokens by default
			special = openai.Drop("")
		}
		return openai.DetokenizePath, openai.Object(nil, openai.SetText("model", c.Model), openai.SetIDs("tokens", c.IDs), special), nil
	}
	panic(fmt.Sprintf("upstream: no such call: %T", call))
}

// contentBody requests the ids of a text from llama.cpp. Of a prompt, the tokens that begin it are
// added, and names of special tokens in it become these tokens; an answer has neither.
func contentBody(text []byte, prompt string) []byte {
	return openai.Object(nil, openai.SetText("content", text), openai.Set("add_special", prompt), openai.Set("parse_special", prompt))
}

// promptBody requests the ids of a request's prompt as an engine renders it. vLLM's chat lists tools in the prompt also where
// tool_choice is "none".
func (e encoder) promptBody(c *engine.TokenizePrompt) []byte {
	members := []openai.Edit{openai.SetText("model", c.Model)}
	if c.Request.Kind == openai.Completion {
		return openai.Object(nil, append(members, membersOf(c.Request, "prompt")...)...)
	}
	members = append(members, membersOf(c.Request, "messages", "tools", openai.Kwargs, "chat_template")...)
	if !c.Request.Tools && e.Tokenize == dialect.TokenizeSGLang {
		members[2].Value = nil
	}
	return openai.Object(nil, append(members, openai.Set("add_generation_prompt", "true"))...)
}

// membersOf are members of a request, without a value where it has none.
func membersOf(r *openai.Request, names ...string) []openai.Edit {
	members := make([]openai.Edit, len(names))
	for i, name := range names {
		members[i] = openai.Edit{Name: name, Value: r.Raw(name)}
	}
	return members
}

// continueTokens continues the text of a chat's answer behind the ids of prompt and text.
type continueTokens struct {
	*engine.ContinueText
	prompt, text []int32
}

// tokenizeChat has llama.cpp render a chat of these members, and tokenize the text, which has its special tokens, in two
// exchanges: its /tokenize takes only a text. It returns the second.
func (c *Client) tokenizeChat(ctx context.Context, a *engine.Attempt, chat []openai.Edit, into *[]int32) (engine.Stream, error) {
	var text []byte
	if err := c.ask(ctx, a, rendering(chat, &text)); err != nil {
		return nil, err
	}
	return c.openOne(ctx, with(a, tokenizing(text, into)))
}

// rendering has llama.cpp write a chat of these members as a text.
func rendering(chat []openai.Edit, into *[]byte) *post {
	return &post{openai.TemplatePath, openai.Object(nil, chat...), func(body []byte) (err error) {
		*into, err = openai.ParseText(body)
		return err
	}}
}

// tokenizing has llama.cpp tokenize that.
func tokenizing(text []byte, into *[]int32) *post {
	return &post{openai.TokenizePath, contentBody(text, "true"), func(body []byte) (err error) {
		*into, err = openai.ParseTokens(body)
		return err
	}}
}

// continueByIDs has an engine continue the text of a chat's answer behind ids, all of which it tells itself. What a model
// thinks first is not part of the text: the prompt is one behind which it does not think.
func (c *Client) continueByIDs(ctx context.Context, a *engine.Attempt, call *engine.ContinueText) (engine.Stream, error) {
	behind := continueTokens{ContinueText: call}
	chat := append(membersOf(call.Request, "messages", "tools", "tool_choice"), openai.Edit{Name: openai.Kwargs, Value: call.Request.KwargsWithoutThinking()})
	prompt, err := c.tokenizeChat(ctx, a, chat, &behind.prompt)
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
