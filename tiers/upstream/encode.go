package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// errNoContinuation says that it is not known how an engine of this kind continues the text of an assistant's message.
var errNoContinuation = errors.New("this engine was not seen to continue a given text of an answer")

// encode returns the path and the body of a call, for engines of a dialect. The error says that such engines cannot be
// asked for it.
func encode(call engine.Call, d *dialect.Dialect) (path string, body []byte, err error) {
	e := encoder{d}
	switch c := call.(type) {
	case *engine.Relay:
		if e.Members.OneChoice && c.Request.N > 1 {
			return "", nil, onlyOneChoice()
		}
		return c.Request.Kind.Path(), e.relayBody(c), nil
	case *engine.Draft:
		return c.Request.Kind.Path(), e.draftBody(c), nil
	case *engine.Answer:
		return c.Request.Kind.Path(), e.wholeBody(c), nil
	case *engine.ContinueIDs:
		return openai.Completion.Path(), e.idsBody(c), nil
	case *engine.ContinueText:
		body, err = e.textBody(c)
		return c.Request.Kind.Path(), body, err
	case *continueTokens:
		return openai.Completion.Path(), e.tokensBody(c), nil
	case *engine.Score:
		q := c.Question
		q.Terms = e.known(q.Terms)
		return q.Path(), q.Body(nil), nil
	case *engine.Judge:
		return openai.Chat.Path(), e.judgeBody(c), nil
	case *engine.Forward:
		return c.Path, c.Body, nil
	case *engine.Ask:
		return c.Path, nil, nil
	case *post:
		return c.path, c.body, nil
	}
	return e.encodeTokens(call)
}

// onlyOneChoice refuses a request for several choices.
func onlyOneChoice() *engine.Failure {
	return &engine.Failure{Kind: engine.Rejected, Status: http.StatusBadRequest, Fault: &openai.Fault{
		Status: http.StatusBadRequest, Param: "n", Code: "unsupported_parameter", Message: "The engine of this model counts the tokens of one choice only: n and best_of must be 1.",
	}}
}

// Drafts are requested with the logprobs of each token and of five alternatives.
var (
	draftChat   = []openai.Edit{openai.Set("logprobs", "true"), openai.Set("top_logprobs", "5")}
	draftPrompt = []openai.Edit{openai.Set("logprobs", "5")}
)

// relayBody passes a request on with the terms of the call.
func (e encoder) relayBody(c *engine.Relay) []byte {
	edits := e.termEdits(c.Request, &c.Terms)
	switch {
	case !c.Request.Stream && e.IgnoresClose:
		edits = append(edits, streamed, usageLast)
	case c.Request.Stream && (!c.Request.IncludeUsage || e.Members.Strict):
		edits = append(edits, usageLast)
	}
	return c.Request.Apply(nil, edits...)
}

func (e encoder) draftBody(c *engine.Draft) []byte {
	scores := draftChat
	if c.Request.Kind == openai.Completion {
		scores = draftPrompt
	}
	edits := append(e.streamEdits(c.Request, &c.Terms, e.usage(c.Counted)), e.idEdits(false)...)
	return c.Request.Apply(nil, append(edits, scores...)...)
}

func (e encoder) wholeBody(c *engine.Answer) []byte {
	edits := append(e.termEdits(c.Request, &c.Terms), openai.Set("stream", "false"), openai.Drop("stream_options"))
	if e.IgnoresClose {
		edits = append(edits, streamed, usageLast)
	}
	if c.Draft {
		edits = append(append(edits, e.idEdits(true)...), draftChat...)
	}
	return c.Request.Apply(nil, edits...)
}

// textBody requests a continuation of a text. In a chat, the text is an unfinished assistant message.
func (e encoder) textBody(c *engine.ContinueText) ([]byte, error) {
	edits := e.restEdits(c)
	switch {
	case len(c.Text) == 0:
	case c.Request.Kind == openai.Completion:
		prompt := append(c.Request.Text(), c.Text...)
		edits = append(edits, openai.Edit{Name: "prompt", Value: openai.Quote(prompt)})
	case e.ContinueBy == dialect.ContinueByFlags:
		edits = append(edits, openai.Edit{Name: "messages", Value: c.Request.Extended(c.Text)},
			openai.Set("add_generation_prompt", "false"), openai.Set("continue_final_message", "true"))
	case e.ContinueBy == dialect.ContinueByPrefill && c.Found != dialect.ContinueUnknown && dialect.Of(c.Probed) == e.Dialect:
		edits = append(edits, openai.Edit{Name: "messages", Value: c.Request.Extended(c.Text)})
	default: // by ids: see [Client.continueByIDs]
		return nil, errNoContinuation
	}
	return c.Request.Apply(nil, edits...), nil
}

// restEdits request the rest of an answer as a stream.
func (e encoder) restEdits(c *engine.ContinueText) []openai.Edit {
	edits := e.streamEdits(c.Request, &c.Terms, e.usage(true))
	if c.MaxTokens > 0 {
		edits = append(edits, openai.Drop("max_completion_tokens"), openai.SetInt("max_tokens", int64(c.MaxTokens)))
	}
	return edits
}

// ofChats are the members of a chat that a completion has not, or otherwise. A request with others of them that matter is
// not continued.
var ofChats = []openai.Edit{
	openai.Drop("messages"), openai.Drop("tools"), openai.Drop("tool_choice"), openai.Drop(openai.Kwargs), openai.Drop("response_format"), openai.Drop("logprobs"), openai.Drop("top_logprobs"),
}

// tokensBody requests a continuation behind ids, with all else that the request has.
func (e encoder) tokensBody(c *continueTokens) []byte {
	return c.Request.Apply(nil, append(append(e.restEdits(c.ContinueText), ofChats...), openai.SetIDs("prompt", c.prompt, c.text))...)
}

// idsBody is a completion after ids, with the request's sampling.
func (e encoder) idsBody(c *engine.ContinueIDs) []byte {
	terms := e.terms(&c.Terms)
	members := append([]openai.Edit{terms[0], openai.SetIDs("prompt", c.PromptIDs, c.IDs), openai.SetInt("max_tokens", int64(c.MaxTokens))}, terms[1:]...)
	for _, m := range membersOf(c.Request, openai.SamplingFields...) {
		if !e.Members.Strict || openai.PortableField(m.Name) {
			members = append(members, m)
		}
	}
	members = append(append(members, streamed), e.idEdits(true)...)
	if e.Members.IDsInLogprobs {
		members = append(members, openai.Set("logprobs", "1"))
	}
	return openai.Object(nil, append(members, e.usage(true))...)
}

// encoder writes calls for engines of a dialect.
type encoder struct{ *dialect.Dialect }

// Edits of streams: with the usage at the end, or so far in every chunk, too.
var (
	streamed   = openai.Set("stream", "true")
	usageLast  = openai.Set("stream_options", `{"include_usage":true}`)
	usageSoFar = openai.Set("stream_options", `{"include_usage":true,"continuous_usage_stats":true}`)
	withIDs    = openai.Set("return_token_ids", "true")
)

// termEdits are the edits for the terms of a call, behind those of the dialect: where the call itself sets a member, its edit
// is a later one and counts.
func (e encoder) termEdits(r *openai.Request, t *engine.Terms) []openai.Edit {
	return append(e.ownNames(r), e.terms(t)...)
}

// terms are the members for the terms of a call.
func (e encoder) terms(t *engine.Terms) []openai.Edit {
	known := e.known(*t)
	return append([]openai.Edit{openai.SetText("model", t.Model)}, known.Scheduling("cache_salt")...)
}

// known are the terms as the engine knows them.
func (e encoder) known(t engine.Terms) engine.Terms {
	if t.Priority = e.EnginePriority(t.Priority); !e.Members.CacheSalt {
		t.Salt = ""
	}
	return t
}

// ownNames are the edits that name a client's members as the engine does, and delete those that it may refuse.
func (e encoder) ownNames(r *openai.Request) (edits []openai.Edit) {
	if e.Members.Strict {
		edits = r.AppendDrops(edits, openai.PortableField)
	} else if !e.Members.OnlyMaxTokens {
		return nil
	}
	given := func(name string) bool { raw := r.Raw(name); return raw != nil && string(raw) != "null" }
	if r.Kind == openai.Completion { // they have only max_tokens, and such engines may lack OpenAI's default
		if edits = append(edits, openai.Drop("max_completion_tokens")); !given("max_tokens") {
			edits = append(edits, openai.SetInt("max_tokens", int64(r.Limit())))
		}
		return edits
	}
	switch newer := given("max_completion_tokens"); { // of both, the newer name counts
	case newer && e.Members.OnlyMaxTokens:
		edits = append(edits, openai.Edit{Name: "max_tokens", Value: r.Raw("max_completion_tokens")}, openai.Drop("max_completion_tokens"))
	case newer:
		edits = append(edits, openai.Drop("max_tokens"))
	}
	return edits
}

// usage asks for the usage of a stream; counted, so far in every chunk.
func (e encoder) usage(counted bool) openai.Edit {
	if counted && e.Members.UsageSoFar {
		return usageSoFar
	}
	return usageLast
}

// streamEdits request a stream without stop strings.
func (e encoder) streamEdits(r *openai.Request, t *engine.Terms, options openai.Edit) []openai.Edit {
	return append(e.termEdits(r, t), streamed, options, openai.Drop("stop"), openai.Drop("include_stop_str_in_output"))
}

// idEdits request the ids of generated tokens where a member does so. whole says that the answer is no stream of a chat.
func (e encoder) idEdits(whole bool) []openai.Edit {
	if e.Members.TokenIDs || whole && e.Members.WholeTokenIDs {
		return []openai.Edit{withIDs}
	}
	return nil
}

// judgeBody asks in words whether an answer is correct.
func (e encoder) judgeBody(c *engine.Judge) []byte {
	q := c.Question
	q.Terms, q.Plain, q.Stream = e.known(q.Terms), e.Members.Strict, e.IgnoresClose
	if c.Thinks && e.Members.TemplateArgs {
		q.Set = []openai.Edit{{Name: openai.Kwargs, Value: q.Request.KwargsWithoutThinking()}}
	}
	return q.Body(nil)
}

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
