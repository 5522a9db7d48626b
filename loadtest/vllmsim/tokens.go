package vllmsim

import (
	"net/http"
	"slices"
	"strconv"
)

// tokensRequest is the body of /inference/v1/generate: the sampling fields of the other routes, one level down.
type tokensRequest struct {
	RequestID     string         `json:"request_id"`
	Model         string         `json:"model"`
	TokenIDs      []int32        `json:"token_ids"`
	Sampling      *wireRequest   `json:"sampling_params"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	CacheSalt     *string        `json:"cache_salt"`
	Priority      int64          `json:"priority"`
}

// readWire reads a body of any of the routes.
func readWire(body []byte, a api) (*wireRequest, *apiError) {
	if a == apiNative {
		return readNative(body)
	}
	if a != apiTokens {
		var w wireRequest
		return &w, decode(body, &w)
	}
	var t tokensRequest
	if err := decode(body, &t); err != nil {
		return nil, err
	}
	switch {
	case t.TokenIDs == nil:
		return nil, missing("token_ids")
	case t.Sampling == nil:
		return nil, missing("sampling_params")
	case len(t.TokenIDs) == 0:
		return nil, malformed(`{'type': 'too_short', 'loc': ('body', 'token_ids'), 'msg': 'List should have at least 1 item after validation, not 0'}`)
	case slices.Min(t.TokenIDs) < 0:
		return nil, malformed(`{'type': 'value_error', 'loc': ('body', 'token_ids'), 'msg': 'Value error, token_ids must not contain negative values'}`)
	}
	w := *t.Sampling
	w.Prompt = appendIDs(nil, t.TokenIDs)
	w.RequestID, w.Model, w.Stream, w.StreamOptions = t.RequestID, t.Model, t.Stream, t.StreamOptions
	w.CacheSalt, w.Priority, w.Echo = t.CacheSalt, t.Priority, false
	if w.StreamOptions != nil && !w.Stream {
		w.StreamOptions = nil // this route does not mind
	}
	return &w, nil
}

// tokensBody is the answer of /inference/v1/generate.
func (c *call) tokensBody(choices []choice) []byte {
	b := appendQuoted([]byte(`{"request_id":`), c.req.id)
	b = appendQuoted(append(b, `,"model":`...), c.req.model)
	b = append(b, `,"created":`...)
	b = append(strconv.AppendInt(b, c.req.created, 10), `,"choices":[`...)
	for i := range choices {
		ch := &choices[i]
		b = append(appendComma(b, i), `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = c.appendTokensLogprobs(b, ch.lps)
		b = appendQuoted(append(b, `,"finish_reason":`...), ch.finish)
		b = appendIDs(append(b, `,"token_ids":`...), ch.ids)
		b = append(b, `,"routed_experts":null,"sampling_mask":null}`...)
	}
	b = c.appendTotals(append(b, `],"usage":`...), choices)
	b = c.appendScores(append(b, `,"prompt_logprobs":`...), c.req.prompts[0])
	return append(b, `,"kv_transfer_params":null,"ec_transfer_params":null}`...)
}

// appendTokensLogprobs appends the logprobs field: the chat shape, tokens named by their ids.
func (c *call) appendTokensLogprobs(b []byte, lps []*tokenLogprob) []byte {
	b = append(b, `,"logprobs":`...)
	if len(lps) == 0 {
		return append(b, "null"...)
	}
	b = append(b, `{"content":[`...)
	for i, lp := range lps {
		b = lp.appendNamed(appendComma(b, i), max(c.req.specs[0].logprobs, 1))
	}
	return append(b, "]}"...)
}

// appendNamed appends one element of logprobs.content of /inference/v1/generate.
func (l *tokenLogprob) appendNamed(b []byte, n int) []byte {
	put := func(a *altLogprob) {
		b = appendQuoted(append(b, `{"token":`...), tokenIDText(a.id))
		b = append(appendFloat(append(b, `,"logprob":`...), a.lp), `,"bytes":null`...)
	}
	put(&l.altLogprob)
	b = append(b, `,"top_logprobs":[`...)
	l.alternatives(n, func(i int, a *altLogprob) {
		b = appendComma(b, i)
		put(a)
		b = append(b, '}')
	})
	return append(b, "]}"...)
}

// tokensChunk writes one output of /inference/v1/generate. An end without a token is not shown.
func (st *streamer) tokensChunk(ev *chunk) {
	if len(ev.ids) == 0 {
		return
	}
	b := st.begin(ev.choice)
	b = st.appendTokensLogprobs(b, ev.lps)
	b = append(b, `,"finish_reason":`...)
	if ev.finish == "" {
		b = append(b, "null"...)
	} else {
		b = appendQuoted(b, ev.finish)
	}
	b = append(b, `,"token_ids":[`...)
	for i, id := range ev.ids {
		b = strconv.AppendInt(appendComma(b, i), int64(id), 10)
	}
	b = append(b, `],"routed_experts":null}],"usage":`...)
	if st.req.continuous {
		b = append(appendUsage(b, st.prompt, st.n[ev.choice]), `,"prompt_tokens_details":null,"completion_tokens_details":null}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n\n"...)
	st.buf = b
}

// serveRender answers the two render routes: what would be generated from, as bodies for /inference/v1/generate.
func (s *Server) serveRender(w http.ResponseWriter, r *http.Request, a api) {
	body, err := readBody(r)
	var req *request
	if err == nil {
		req, err = s.parse(body, intake{api: a, render: true, header: r.Header.Get})
	}
	if err == nil {
		err = req.lazy
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	var b []byte
	for i := range req.prompts {
		b = s.appendRendered(appendComma(b, i), req, i)
	}
	if a == apiCompletion {
		b = append(append([]byte("["), b...), ']')
	}
	writeJSON(w, http.StatusOK, b)
}

func (s *Server) appendRendered(b []byte, r *request, i int) []byte {
	w, a := r.wire, apiCompletion
	if r.chat {
		a = apiChat
	}
	b = appendQuoted(append(b, `{"request_id":`...), s.requestID(a, "", ""))
	b = appendIDs(append(b, `,"token_ids":`...), s.wire.outAll(r.prompts[i]))
	b = append(b, `,"features":null,"sampling_params":`...)
	spec := r.specs[i*r.n]
	spec.stopIDs = s.wire.outAll(spec.stopIDs)
	b = r.appendSampling(b, &spec)
	b = appendNullable(append(b, `,"model":`...), w.Model)
	b = append(b, `,"stream":`+strconv.FormatBool(w.Stream)+`,"stream_options":`...)
	if o := w.StreamOptions; o != nil {
		b = append(b, `{"include_usage":`+strconv.FormatBool(o.IncludeUsage)+`,"continuous_usage_stats":`+strconv.FormatBool(o.Continuous)+`}`...)
	} else {
		b = append(b, "null"...)
	}
	salt := ""
	if w.CacheSalt != nil {
		salt = *w.CacheSalt
	}
	b = appendNullable(append(b, `,"cache_salt":`...), salt)
	b = strconv.AppendInt(append(b, `,"priority":`...), r.priority, 10)
	return append(b, `,"kv_transfer_params":null}`...)
}

// appendSampling writes vLLM's SamplingParams, as far as they are known here.
func (r *request) appendSampling(b []byte, g *genSpec) []byte {
	number := func(name string, v int) {
		b = strconv.AppendInt(append(b, `,"`+name+`":`...), int64(v), 10)
	}
	float := func(name string, v float64) { b = appendFloat(append(b, `,"`+name+`":`...), v) }
	flag := func(name string, v bool) { b = strconv.AppendBool(append(b, `,"`+name+`":`...), v) }
	many := func(name string, v int) {
		if v == none {
			b = append(b, `,"`+name+`":null`...)
			return
		}
		number(name, v)
	}
	b = strconv.AppendInt(append(b, `{"n":`...), int64(r.n), 10)
	b = append(b, `,"presence_penalty":0.0,"frequency_penalty":0.0,"repetition_penalty":1.0`...)
	float("temperature", g.temperature)
	float("top_p", g.topP)
	number("top_k", g.topK)
	float("min_p", g.minP)
	b = append(b, `,"seed":`...)
	if r.wire.Seed != nil {
		b = strconv.AppendInt(b, *r.wire.Seed, 10)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"stop":[`...)
	for i, word := range g.stop {
		b = appendQuoted(appendComma(b, i), word)
	}
	b = appendIDs(append(b, `],"stop_token_ids":`...), g.stopIDs)
	flag("ignore_eos", g.ignoreEOS)
	number("max_tokens", g.maxTokens)
	number("min_tokens", g.minTokens)
	many("logprobs", g.logprobs)
	many("prompt_logprobs", r.promptLogprobs)
	b = append(b, `,"detokenize":true`...)
	flag("skip_special_tokens", !g.keepSpecial)
	b = append(b, `,"spaces_between_special_tokens":true`...)
	flag("include_stop_str_in_output", g.includeStop)
	return append(b, `,"structured_outputs":null}`...)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendQuoted(b, s)
}
