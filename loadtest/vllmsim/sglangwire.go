package vllmsim

// The shapes of SGLang's answers, with their members in its order (sglang/srt/entrypoints/openai/protocol.py, sse_utils.py).

type sglangAnswer struct {
	ID       string          `json:"id"`
	Object   string          `json:"object"`
	Created  int64           `json:"created"`
	Model    string          `json:"model"`
	Choices  []any           `json:"choices"`
	Usage    *sglangUsage    `json:"usage,omitempty"`
	Metadata *sglangMetadata `json:"metadata,omitempty"`
}

type sglangMetadata struct {
	Version string `json:"weight_version"`
}

type sglangUsage struct {
	Prompt     int            `json:"prompt_tokens"`
	Total      int            `json:"total_tokens"`
	Completion int            `json:"completion_tokens"`
	Details    *sglangDetails `json:"prompt_tokens_details"`
	Reasoning  int            `json:"reasoning_tokens"`
}

type sglangDetails struct {
	Cached int `json:"cached_tokens"`
}

type sglangChoice struct {
	Index    int             `json:"index"`
	Message  *sglangMessage  `json:"message,omitempty"`
	Delta    *sglangDelta    `json:"delta,omitempty"`
	Logprobs *sglangLogprobs `json:"logprobs"`
	sglangEnd
}

type sglangText struct {
	Index    int                `json:"index"`
	Text     string             `json:"text"`
	Logprobs *sglangTextLogprob `json:"logprobs"`
	sglangEnd
}

// sglangEnd is how a choice ends. matched_stop is vLLM's stop_reason, and the id of an ordinary end, too.
type sglangEnd struct {
	Finish   *string `json:"finish_reason"`
	Matched  any     `json:"matched_stop"`
	TokenIDs []int32 `json:"token_ids,omitempty"`
	Prompt   []int32 `json:"prompt_token_ids,omitempty"`
}

type sglangMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning *string    `json:"reasoning_content"`
	ToolCalls []wireCall `json:"tool_calls"`
}

type sglangDelta struct {
	Reasoning *string    `json:"reasoning_content,omitempty"`
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type sglangLogprobs struct {
	Content []sglangLogprob `json:"content"`
}

type sglangLogprob struct {
	sglangToken
	Top []sglangToken `json:"top_logprobs"`
}

type sglangToken struct {
	Token   string  `json:"token"`
	Bytes   []int   `json:"bytes"`
	Logprob float64 `json:"logprob"`
}

// sglangTextLogprob is the old shape. It tells no offsets.
type sglangTextLogprob struct {
	Offset   []int                `json:"text_offset"`
	Logprobs []*float64           `json:"token_logprobs"`
	Tokens   []string             `json:"tokens"`
	Top      []map[string]float64 `json:"top_logprobs"`
}

func newSGLangLogprob(lp *tokenLogprob) sglangLogprob {
	token := func(a altLogprob) sglangToken { return sglangToken{a.text, bytesOf(a.text), a.lp} }
	out := sglangLogprob{token(lp.altLogprob), make([]sglangToken, len(lp.top))}
	for i, a := range lp.top {
		out.Top[i] = token(a)
	}
	return out
}

func sglangList(lps []*tokenLogprob) *sglangLogprobs {
	if len(lps) == 0 {
		return nil
	}
	return &sglangLogprobs{logprobsOf(lps, newSGLangLogprob)}
}

// add appends an entry; nil is of a prompt's first token, of which nothing is known.
func (l *sglangTextLogprob) add(text string, lp *tokenLogprob) {
	l.Offset, l.Tokens = append(l.Offset, -1), append(l.Tokens, text)
	if lp == nil {
		l.Logprobs, l.Top = append(l.Logprobs, nil), append(l.Top, nil)
		return
	}
	own := lp.lp
	top := map[string]float64{}
	for _, a := range lp.top {
		if _, both := top[a.text]; !both {
			top[a.text] = a.lp
		}
	}
	l.Logprobs, l.Top = append(l.Logprobs, &own), append(l.Top, top)
}

// sglangScores is the old shape for a choice, with the prompt in front where it is echoed.
func (c *call) sglangScores(i int, lps []*tokenLogprob, echo bool) *sglangTextLogprob {
	if c.req.specs[i].logprobs < 0 {
		return nil
	}
	out := &sglangTextLogprob{}
	if prompt := c.req.prompts[i/c.req.n]; echo {
		var l completionLogprobs
		c.s.echoLogprobs(&l, scoring{prompt: prompt, form: c.req.form}, c.req.specs[i].logprobs)
		for k, e := range l.entries {
			out.add(l.texts[k], e)
		}
	}
	for _, lp := range lps {
		out.add(lp.text, lp)
	}
	return out
}

// sglangEnd is the end of a choice: no reason while it goes on.
func (c *call) sglangEnd(finish string, stop any, ids []int32) sglangEnd {
	if finish == "" {
		return sglangEnd{}
	}
	reason := c.finishOf(finish)
	e := sglangEnd{Finish: &reason, Matched: stop}
	if finish == finishStop && stop == nil && len(ids) > 0 {
		e.Matched = ids[len(ids)-1]
	}
	return e
}

// answer implements wire.
func (sglangWire) answer(c *call, choices []choice) any {
	list := make([]any, len(choices))
	for i := range choices {
		ch := &choices[i]
		end, text := c.sglangEnd(ch.finish, ch.stop, ch.ids), ch.text.String()
		if c.req.returnIDs {
			end.TokenIDs = ch.ids
		}
		if !c.req.chat {
			if c.req.returnIDs {
				end.Prompt = c.s.wire.outAll(c.req.prompts[i/c.req.n])
			}
			list[i] = sglangText{i, c.completionText(i/c.req.n, text), c.sglangScores(i, ch.lps, c.req.echo), end}
			continue
		}
		m := &sglangMessage{Role: "assistant", Content: &text, ToolCalls: c.calls()}
		if m.ToolCalls != nil {
			m.Content = nil
		}
		list[i] = sglangChoice{Index: i, Message: m, Logprobs: sglangList(ch.lps), sglangEnd: end}
	}
	v := c.sglangHead(false, list)
	v.Usage, v.Metadata = c.sglangUsage(c.spend(choices)), &sglangMetadata{"default"}
	return v
}

func (c *call) sglangHead(stream bool, choices []any) sglangAnswer {
	return sglangAnswer{ID: c.req.id, Object: c.object(stream), Created: c.req.created, Model: c.req.model, Choices: choices}
}

// sglangUsage tells of the cache under --enable-cache-report.
func (c *call) sglangUsage(t spend) *sglangUsage {
	u := &sglangUsage{Prompt: t.prompt, Total: t.prompt + t.generated, Completion: t.generated}
	if c.s.opts.PromptTokensDetails && t.cached > 0 {
		u.Details = &sglangDetails{t.cached}
	}
	return u
}

// first implements wire.
func (sglangWire) first(c *call) []any {
	if !c.req.chat {
		return nil
	}
	var list []any
	for i := range c.jobs {
		empty := ""
		list = append(list, c.sglangHead(true, []any{sglangChoice{Index: i, Delta: &sglangDelta{Role: "assistant", Content: &empty}}}))
	}
	return list
}

// chunk implements wire. The end of a chat has a chunk of its own.
func (sglangWire) chunk(c *call, ev *chunk, _ int) []any {
	text := ev.said()
	end := c.sglangEnd(ev.finish, ev.stop, ev.ids)
	if !c.req.chat {
		if c.req.returnIDs {
			end.TokenIDs = ev.ids
		}
		return []any{c.sglangHead(true, []any{sglangText{ev.choice, text, c.sglangScores(ev.choice, ev.lps, false), end}})}
	}
	var out []any
	d := &sglangDelta{Content: ptr(text), ToolCalls: c.callDelta(ev)}
	if d.Content != nil || d.ToolCalls != nil || len(ev.lps) > 0 {
		out = append(out, c.sglangHead(true, []any{sglangChoice{Index: ev.choice, Delta: d, Logprobs: sglangList(ev.lps)}}))
	}
	if ev.finish != "" {
		out = append(out, c.sglangHead(true, []any{sglangChoice{Index: ev.choice, Delta: &sglangDelta{}, sglangEnd: end}}))
	}
	return out
}

// last implements wire.
func (sglangWire) last(c *call, t spend) []any {
	if !c.req.usage {
		return nil
	}
	v := c.sglangHead(true, []any{})
	v.Usage = c.sglangUsage(t)
	return []any{v}
}
