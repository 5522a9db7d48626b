package upstream

import (
	"errors"
	"net/http"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// errNoContinuation says that it is not known how an engine of this kind continues the text of an assistant's message.
var errNoContinuation = errors.New("this engine was not seen to continue a given text of an answer")

// encode returns the path and the body of a call, for engines of a dialect. The error says that such engines cannot be
// asked for it.
func encode(call engine.Call, d *dialect.Dialect) (path string, body openai.Pieces, err error) {
	e := encoder{d}
	switch c := call.(type) {
	case *engine.Relay:
		if e.Members.OneChoice && c.Request.N > 1 {
			return "", openai.Pieces{}, onlyOneChoice()
		}
		return c.Request.Kind.Path(), e.relayBody(c), nil
	case *engine.Draft:
		return c.Request.Kind.Path(), e.draftBody(c), nil
	case *engine.DraftWhole:
		edits := append(e.idEdits(true), openai.Set("logprobs", "true"), openai.Set("top_logprobs", "5"))
		return c.Request.Kind.Path(), e.wholeBody(c.Request, &c.Terms, edits...), nil
	case *engine.Answer:
		return c.Request.Kind.Path(), e.wholeBody(c.Request, &c.Terms), nil
	}
	path, own, err := e.encodeOwn(call)
	return path, openai.PiecesOf(own), err
}

// onlyOneChoice refuses a request for several choices.
func onlyOneChoice() *engine.Failure {
	return &engine.Failure{Kind: engine.Rejected, Status: http.StatusBadRequest, Fault: &openai.Fault{
		Status: http.StatusBadRequest, Param: "n", Code: "unsupported_parameter", Message: "The engine of this model counts the tokens of one choice only: n and best_of must be 1.",
	}}
}

// encodeOwn returns the path and the body of a call that is not a client's request with other members.
func (e encoder) encodeOwn(call engine.Call) (path string, body []byte, err error) {
	switch c := call.(type) {
	case *engine.ContinueIDs:
		return openai.Completion.Path(), e.idsBody(c), nil
	case *engine.ContinueText:
		body, err = e.textBody(c)
		return c.Request.Kind.Path(), body, err
	case *continueTokens:
		return openai.Completion.Path(), e.tokensBody(c), nil
	case *engine.Score:
		q := e.question(c.Question)
		return q.Path(), q.Body(nil), nil
	case *engine.Judge:
		return openai.Chat.Path(), e.judgeBody(c), nil
	case *engine.Forward:
		return c.Path, c.Body, nil
	case *engine.Ask:
		return c.Path, nil, nil
	}
	return e.encodeTokens(call)
}

// The edits of every draft, made once: they are only read.
var (
	draftChat   = logprobs(openai.Chat, draftTop)
	draftPrompt = logprobs(openai.Completion, draftTop)
)

// draftTop is how many alternatives of each token are requested of a draft.
const draftTop = 5

// relayBody passes a request on with the terms of the call.
func (e encoder) relayBody(c *engine.Relay) openai.Pieces {
	var room [4]openai.Edit
	edits := e.appendTermEdits(room[:0], c.Request, &c.Terms)
	switch {
	case !c.Request.Stream && e.IgnoresClose:
		edits = append(edits, streamed, usageLast)
	case c.Request.Stream && (!c.Request.IncludeUsage || e.Members.Strict):
		edits = append(edits, usageLast)
	}
	return c.Request.Splice(edits...)
}

func (e encoder) draftBody(c *engine.Draft) openai.Pieces {
	options, scores := usageLast, draftChat
	if c.Counted && e.Members.UsageSoFar {
		options = usageSoFar
	}
	if c.Request.Kind == openai.Completion {
		scores = draftPrompt
	}
	edits := append(e.streamEdits(c.Request, &c.Terms, options), e.idEdits(false)...)
	return c.Request.Splice(append(edits, scores...)...)
}

// logprobs requests the logprobs of each token and of this many alternatives.
func logprobs(kind openai.Kind, top int) []openai.Edit {
	if kind == openai.Completion {
		return []openai.Edit{openai.SetInt("logprobs", int64(top))}
	}
	return []openai.Edit{openai.Set("logprobs", "true"), openai.SetInt("top_logprobs", int64(top))}
}

func (e encoder) wholeBody(r *openai.Request, t *engine.Terms, more ...openai.Edit) openai.Pieces {
	edits := append(e.termEdits(r, t), openai.Set("stream", "false"), openai.Drop("stream_options"))
	if e.IgnoresClose {
		edits = append(edits, streamed, usageLast)
	}
	return r.Splice(append(edits, more...)...)
}

// textBody requests a continuation of a text. In a chat, the text is an unfinished assistant message.
func (e encoder) textBody(c *engine.ContinueText) ([]byte, error) {
	edits := e.restEdits(c)
	switch {
	case len(c.Text) == 0:
	case c.Request.Kind == openai.Completion:
		prompt := append(c.Request.Text(), c.Text...)
		edits = append(edits, openai.Edit{Name: "prompt", Value: openai.Quote(string(prompt))})
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
	edits := e.streamEdits(c.Request, &c.Terms, openai.Set("stream_options", e.usage(true)))
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
	members := []openai.Edit{openai.SetText("model", c.Model), openai.SetIDs("prompt", c.PromptIDs, c.IDs), openai.SetInt("max_tokens", int64(c.MaxTokens))}
	if salt := e.salt(c.Salt); salt != "" {
		members = append(members, openai.SetText("cache_salt", salt))
	}
	if first := e.EnginePriority(c.Priority); first != nil {
		members = append(members, openai.SetInt("priority", *first))
	}
	for _, m := range membersOf(c.Request, openai.SamplingFields...) {
		if !e.Members.Strict || openai.PortableField(m.Name) {
			members = append(members, m)
		}
	}
	return openai.Object(nil, append(members, streamed, e.completionIDs(), openai.Set("stream_options", e.usage(true)))...)
}
