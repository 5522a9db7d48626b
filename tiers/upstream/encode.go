package upstream

import (
	"fmt"
	"strconv"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// The options of a stream.
const (
	usageStream   = `{"include_usage":true}`                               // the usage at its end
	countedStream = `{"include_usage":true,"continuous_usage_stats":true}` // the usage so far in every chunk
)

// encode returns the path and the body of a call, for engines of a dialect.
func encode(call engine.Call, d *dialect.Dialect) (path string, body openai.Pieces) {
	switch c := call.(type) {
	case *engine.Relay:
		return c.Request.Kind.Path(), relayBody(c)
	case *engine.Draft:
		return c.Request.Kind.Path(), draftBody(c)
	case *engine.DraftWhole:
		return c.Request.Kind.Path(), wholeBody(c.Request, &c.Terms,
			set("return_token_ids", "true"), set("logprobs", "true"), set("top_logprobs", "5"))
	case *engine.Answer:
		return c.Request.Kind.Path(), wholeBody(c.Request, &c.Terms)
	case *engine.FirstBlock:
		return c.Request.Kind.Path(), firstBlockBody(c)
	case *engine.DraftListed:
		return c.Request.Kind.Path(), listedBody(c)
	}
	path, own := encodeOwn(call)
	return path, openai.PiecesOf(own)
}

// encodeOwn returns the path and the body of a call that is not a client's request with other members.
func encodeOwn(call engine.Call) (path string, body []byte) {
	switch c := call.(type) {
	case *engine.ContinueIDs:
		return openai.Completion.Path(), append(idsBody(c.Request, &c.Terms, c.MaxTokens, c.PromptIDs, c.IDs),
			`,"stream":true,"return_token_ids":true,"stream_options":`+countedStream+`}`...)
	case *engine.ContinueText:
		return c.Request.Kind.Path(), textBody(c)
	case *engine.NextBlock:
		return openai.Completion.Path(), append(idsBody(c.Request, &c.Terms, c.MaxTokens, c.PromptIDs, c.IDs), `,"return_token_ids":true}`...)
	case *engine.Draws:
		return openai.Completion.Path(), fmt.Appendf(idsBody(c.Request, &c.Terms, 1, c.PromptIDs, c.IDs),
			`,"n":%d,"logprobs":1,"return_token_ids":true,"return_tokens_as_token_ids":true}`, c.N)
	case *engine.Score:
		return c.Question.Path(), c.Question.Body(nil)
	case *engine.ScoreListed:
		return c.Question.Path(), c.Question.Body(nil)
	case *engine.Judge:
		return openai.Chat.Path(), openai.JudgeBody(nil, c.Request, c.Model, c.Answer, c.Salt, c.Priority)
	case *engine.TokenizeText:
		return openai.TokenizePath, openai.TokenizeText(c.Model, c.Text)
	case *engine.TokenizePrompt:
		return openai.TokenizePath, c.Request.TokenizePrompt(c.Model)
	case *engine.Detokenize:
		return openai.DetokenizePath, openai.Detokenize(c.Model, c.IDs)
	case *engine.Forward:
		return c.Path, c.Body
	}
	panic(fmt.Sprintf("upstream: no such call: %T", call))
}

// set sets a member of a request to a JSON value.
func set(name, value string) openai.Edit { return openai.Edit{Name: name, Value: []byte(value)} }

// The edits of every stream and of every draft, made once: they are only read.
var (
	streamed    = set("stream", "true")
	usageLast   = set("stream_options", usageStream)
	usageSoFar  = set("stream_options", countedStream)
	withIDs     = set("return_token_ids", "true")
	draftChat   = logprobs(openai.Chat, draftTop)
	draftPrompt = logprobs(openai.Completion, draftTop)
)

// draftTop is how many alternatives of each token are requested of a draft.
const draftTop = 5

// drop removes a member of a request.
func drop(name string) openai.Edit { return openai.Edit{Name: name} }

// number sets a member of a request to an integer.
func number(name string, n int) openai.Edit {
	return openai.Edit{Name: name, Value: strconv.AppendInt(nil, int64(n), 10)}
}

// fraction sets a member of a request to a number.
func fraction(name string, f float64) openai.Edit {
	return openai.Edit{Name: name, Value: strconv.AppendFloat(nil, f, 'g', -1, 64)}
}

// termEdits are the edits for the terms of a call.
func termEdits(t *engine.Terms) []openai.Edit { return appendTermEdits(make([]openai.Edit, 0, 16), t) }

// appendTermEdits appends the edits for the terms of a call. Their values are parts of one allocation.
func appendTermEdits(edits []openai.Edit, t *engine.Terms) []openai.Edit {
	values := openai.AppendQuote(make([]byte, 0, len(t.Model)+len(t.Salt)+4), t.Model)
	n := len(values)
	edits = append(edits, openai.Edit{Name: "model", Value: values[:n:n]})
	if t.Salt != "" {
		values = openai.AppendQuote(values, t.Salt)
		edits = append(edits, openai.Edit{Name: "cache_salt", Value: values[n:]})
	}
	if t.Priority != nil {
		edits = append(edits, openai.Edit{Name: "priority", Value: strconv.AppendInt(nil, *t.Priority, 10)})
	}
	return edits
}

// streamEdits request a stream without stop strings.
func streamEdits(t *engine.Terms, options openai.Edit) []openai.Edit {
	return append(termEdits(t), streamed, options, drop("stop"), drop("include_stop_str_in_output"))
}

func relayBody(c *engine.Relay) openai.Pieces {
	var room [4]openai.Edit
	edits := appendTermEdits(room[:0], &c.Terms)
	if c.Request.Stream && !c.Request.IncludeUsage {
		edits = append(edits, usageLast)
	}
	return c.Request.Splice(edits...)
}

func draftBody(c *engine.Draft) openai.Pieces {
	options, scores := usageLast, draftChat
	if c.Counted {
		options = usageSoFar
	}
	if c.Request.Kind == openai.Completion {
		scores = draftPrompt
	}
	edits := append(streamEdits(&c.Terms, options), withIDs)
	return c.Request.Splice(append(edits, scores...)...)
}

// logprobs requests the logprobs of each token and of this many alternatives.
func logprobs(kind openai.Kind, top int) []openai.Edit {
	if kind == openai.Completion {
		return []openai.Edit{number("logprobs", top)}
	}
	return []openai.Edit{set("logprobs", "true"), number("top_logprobs", top)}
}

func wholeBody(r *openai.Request, t *engine.Terms, more ...openai.Edit) openai.Pieces {
	edits := append(termEdits(t), set("stream", "false"), drop("stream_options"))
	return r.Splice(append(edits, more...)...)
}

// textBody requests a continuation of a text. In a chat, the text is an unfinished assistant message.
func textBody(c *engine.ContinueText) []byte {
	edits := streamEdits(&c.Terms, usageSoFar)
	if c.MaxTokens > 0 {
		edits = append(edits, drop("max_completion_tokens"), number("max_tokens", c.MaxTokens))
	}
	switch {
	case len(c.Text) == 0:
	case c.Request.Kind == openai.Completion:
		prompt := append(c.Request.Text(), c.Text...)
		edits = append(edits, openai.Edit{Name: "prompt", Value: openai.Quote(string(prompt))})
	default:
		edits = append(edits, openai.Edit{Name: "messages", Value: c.Request.Extended(c.Text)},
			set("add_generation_prompt", "false"), set("continue_final_message", "true"))
	}
	return c.Request.Apply(nil, edits...)
}

func firstBlockBody(c *engine.FirstBlock) openai.Pieces {
	return wholeBody(c.Request, &c.Terms, drop("stop"), drop("include_stop_str_in_output"), drop("max_completion_tokens"),
		number("max_tokens", c.MaxTokens), set("return_token_ids", "true"))
}

// listedBody sets every sampling field explicitly, so that no default of the engine changes the distribution.
func listedBody(c *engine.DraftListed) openai.Pieces {
	edits := append(termEdits(&c.Terms), set("stream", "false"), drop("stream_options"),
		drop("include_stop_str_in_output"), drop("max_completion_tokens"), number("max_tokens", c.MaxTokens),
		fraction("temperature", c.Law.Temperature), fraction("top_p", c.Law.TopP), number("top_k", c.Law.TopK), fraction("min_p", c.Law.MinP),
		set("repetition_penalty", "1"), set("return_token_ids", "true"), set("return_tokens_as_token_ids", "true"))
	return c.Request.Splice(append(edits, logprobs(c.Request.Kind, plan.SampledTop)...)...)
}

// idsBody begins the body of a completion after ids, with the request's sampling; its last brace is missing.
func idsBody(r *openai.Request, t *engine.Terms, maxTokens int, prompt, answer []int32) []byte {
	b := append(make([]byte, 0, 512+8*(len(prompt)+len(answer))), `{"model":`...)
	b = append(b, openai.Quote(t.Model)...)
	b = append(b, `,"prompt":[`...)
	for i, part := range [...][]int32{prompt, answer} {
		for n, id := range part {
			if i > 0 || n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
	}
	b = append(b, `],"max_tokens":`...)
	b = strconv.AppendInt(b, int64(maxTokens), 10)
	if t.Salt != "" {
		b = append(append(b, `,"cache_salt":`...), openai.Quote(t.Salt)...)
	}
	if t.Priority != nil {
		b = strconv.AppendInt(append(b, `,"priority":`...), *t.Priority, 10)
	}
	for _, name := range plan.Sampling {
		if raw := r.Raw(name); raw != nil {
			b = append(b, `,"`+name+`":`...)
			b = append(b, raw...)
		}
	}
	return b
}
