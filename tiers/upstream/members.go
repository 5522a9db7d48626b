package upstream

import (
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// The options of a stream.
const (
	usageStream   = `{"include_usage":true}`                               // the usage at its end
	countedStream = `{"include_usage":true,"continuous_usage_stats":true}` // the usage so far in every chunk
)

// encoder writes calls for engines of a dialect.
type encoder struct{ *dialect.Dialect }

// The edits of every stream, made once: they are only read.
var (
	streamed   = openai.Set("stream", "true")
	usageLast  = openai.Set("stream_options", usageStream)
	usageSoFar = openai.Set("stream_options", countedStream)
	withIDs    = openai.Set("return_token_ids", "true")
)

// termEdits are the edits for the terms of a call.
func (e encoder) termEdits(r *openai.Request, t *engine.Terms) []openai.Edit {
	return e.appendTermEdits(make([]openai.Edit, 0, 16), r, t)
}

// appendTermEdits appends the edits for the terms of a call, behind those of the dialect: where the call itself sets a
// member, its edit is a later one and counts. Their values are parts of one allocation.
func (e encoder) appendTermEdits(edits []openai.Edit, r *openai.Request, t *engine.Terms) []openai.Edit {
	edits = e.appendOwnNames(edits, r)
	salt := e.salt(t.Salt)
	values := openai.AppendQuote(make([]byte, 0, len(t.Model)+len(salt)+4), t.Model)
	n := len(values)
	edits = append(edits, openai.Edit{Name: "model", Value: values[:n:n]})
	if salt != "" {
		values = openai.AppendQuote(values, salt)
		edits = append(edits, openai.Edit{Name: "cache_salt", Value: values[n:]})
	}
	if first := e.EnginePriority(t.Priority); first != nil {
		edits = append(edits, openai.SetInt("priority", *first))
	}
	return edits
}

// appendOwnNames appends the edits that name a client's members as the engine does, and delete those that it may refuse.
func (e encoder) appendOwnNames(edits []openai.Edit, r *openai.Request) []openai.Edit {
	if e.Members.Strict {
		edits = r.AppendDrops(edits, openai.PortableField)
	} else if !e.Members.OnlyMaxTokens {
		return edits
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

// salt is a tenant's salt for engines that know it, else "".
func (e encoder) salt(salt string) string {
	if !e.Members.CacheSalt {
		return ""
	}
	return salt
}

// question is a score's question with the members that the engine knows.
func (e encoder) question(q openai.ScoreQuestion) *openai.ScoreQuestion {
	q.Salt, q.Priority = e.salt(q.Salt), e.EnginePriority(q.Priority)
	return &q
}

// usage are the options of a stream; counted asks for the usage so far in every chunk.
func (e encoder) usage(counted bool) string {
	if counted && e.Members.UsageSoFar {
		return countedStream
	}
	return usageStream
}

// streamEdits request a stream without stop strings.
func (e encoder) streamEdits(r *openai.Request, t *engine.Terms, options openai.Edit) []openai.Edit {
	return append(e.termEdits(r, t), streamed, options, openai.Drop("stop"), openai.Drop("include_stop_str_in_output"))
}

// idEdits request the ids of generated tokens where a member does so. whole says that the answer is not streamed.
func (e encoder) idEdits(whole bool) []openai.Edit {
	if e.Members.TokenIDs || whole && e.Members.WholeTokenIDs {
		return askForIDs
	}
	return nil
}

// askForIDs is only read.
var askForIDs = []openai.Edit{withIDs}[:1:1]

// completionIDs is the member by which a completion tells its ids, if there is one.
func (e encoder) completionIDs() openai.Edit {
	switch {
	case e.Members.TokenIDs, e.Members.WholeTokenIDs:
		return withIDs
	case e.Members.IDsInLogprobs:
		return openai.Set("logprobs", "1")
	}
	return openai.Edit{}
}

// unthinking are the edits by which an engine does not think before it answers; none where no way is known.
func (e encoder) unthinking(r *openai.Request) []openai.Edit {
	if e.Thinking == dialect.ThinkingTemplate {
		return []openai.Edit{{Name: openai.Kwargs, Value: r.KwargsWithoutThinking()}}
	}
	return nil
}

// judgeBody asks in words whether an answer is correct.
func (e encoder) judgeBody(c *engine.Judge) []byte {
	q := openai.JudgeQuestion{
		Model: c.Model, Request: c.Request, Answer: c.Answer, Salt: e.salt(c.Salt), Priority: e.EnginePriority(c.Priority), Plain: e.Members.Strict, Stream: e.IgnoresClose,
	}
	if c.Thinks {
		q.Set = e.unthinking(c.Request)
	}
	return q.Body(nil)
}
