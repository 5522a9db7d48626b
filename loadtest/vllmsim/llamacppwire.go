package vllmsim

import "time"

// The shapes of llama-server's answers, with their members in its order (tools/server/server-task.cpp).

type llamaAnswer struct {
	Choices     []any       `json:"choices"`
	Created     int64       `json:"created"`
	ID          string      `json:"id,omitempty"` // of chunks it stands here
	Model       string      `json:"model"`
	Fingerprint string      `json:"system_fingerprint"`
	Object      string      `json:"object"`
	Usage       *llamaUsage `json:"usage,omitempty"`
	Timings     *llamaTimes `json:"timings,omitempty"`
}

// llamaWhole is a JSON answer: its id stands behind the usage.
type llamaWhole struct {
	Choices     []any       `json:"choices"`
	Created     int64       `json:"created"`
	Model       string      `json:"model"`
	Fingerprint string      `json:"system_fingerprint"`
	Object      string      `json:"object"`
	Usage       *llamaUsage `json:"usage,omitempty"`
	ID          string      `json:"id"`
	Timings     *llamaTimes `json:"timings,omitempty"`
}

type llamaUsage struct {
	Completion int `json:"completion_tokens"`
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
}

type llamaTimes struct {
	Cached      int     `json:"cache_n"`
	Prompt      int     `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`
	Predicted   int     `json:"predicted_n"`
	PredictedMS float64 `json:"predicted_ms"`
}

type llamaChoice struct {
	Finish   *string        `json:"finish_reason"`
	Index    int            `json:"index"`
	Message  *llamaMessage  `json:"message,omitempty"`
	Delta    any            `json:"delta,omitempty"`
	Logprobs *llamaLogprobs `json:"logprobs,omitempty"`
}

type llamaText struct {
	Text     string         `json:"text"`
	Index    int            `json:"index"`
	Logprobs *llamaLogprobs `json:"logprobs"`
	Finish   *string        `json:"finish_reason"`
}

type llamaMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type llamaDelta struct {
	Content   string     `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type llamaLogprobs struct {
	Content []llamaLogprob `json:"content"`
}

type llamaLogprob struct {
	llamaToken
	Top []llamaToken `json:"top_logprobs"`
}

// llamaToken has the token's id, which other engines do not tell.
type llamaToken struct {
	ID      int32   `json:"id"`
	Token   string  `json:"token"`
	Bytes   []int   `json:"bytes"`
	Logprob float64 `json:"logprob"`
}

func newLlamaLogprob(lp *tokenLogprob) llamaLogprob {
	token := func(a altLogprob) llamaToken {
		if all := DefaultTokenizer().pieces; a.text == all[tokEOT] || a.text == all[tokEndOfText] {
			a.text = "" // special tokens are not rendered
		}
		return llamaToken{a.id, a.text, bytesOf(a.text), a.lp}
	}
	out := llamaLogprob{token(lp.altLogprob), make([]llamaToken, len(lp.top))}
	for i, a := range lp.top {
		out.Top[i] = token(a)
	}
	return out
}

func llamaList(lps []*tokenLogprob) *llamaLogprobs {
	if len(lps) == 0 {
		return nil
	}
	return &llamaLogprobs{logprobsOf(lps, newLlamaLogprob)}
}

// answer implements wire.
func (llamaWire) answer(c *call, choices []choice) any {
	list := make([]any, len(choices))
	for i := range choices {
		ch := &choices[i]
		finish := c.finishOf(llamaFinish(ch.finish))
		if !c.req.chat {
			list[i] = llamaText{ch.text.String(), i, llamaList(ch.lps), &finish}
			continue
		}
		m := &llamaMessage{Role: "assistant", Reasoning: ch.think.String(), ToolCalls: c.calls()}
		if text := ch.text.String(); m.ToolCalls == nil {
			m.Content = &text
		}
		list[i] = llamaChoice{Finish: &finish, Index: i, Message: m, Logprobs: llamaList(ch.lps)}
	}
	t := c.spend(choices)
	return llamaWhole{Choices: list, Created: c.req.created, Model: c.req.model, Fingerprint: llamaBuild, Object: c.object(false),
		Usage: t.llama(), ID: c.req.id, Timings: c.llamaTimes(t)}
}

func (t spend) llama() *llamaUsage { return &llamaUsage{t.generated, t.prompt, t.prompt + t.generated} }

// llamaTimes are in milliseconds of the wall's clock.
func (c *call) llamaTimes(t spend) *llamaTimes {
	took := float64(time.Since(time.Unix(c.req.created, 0)).Microseconds()) / 1000
	return &llamaTimes{Cached: t.cached, Prompt: t.prompt - t.cached, PromptMS: took / 2, Predicted: t.generated, PredictedMS: took / 2}
}

// llamaFinish is one of the two reasons that it knows.
func llamaFinish(finish string) string {
	if finish == finishStop {
		return finish
	}
	return finishLength
}

// first implements wire.
func (llamaWire) first(c *call) []any {
	if !c.req.chat {
		return nil
	}
	list := make([]any, 0, len(c.jobs))
	for i := range c.jobs {
		list = append(list, c.llamaChunk(llamaChoice{Index: i, Delta: llamaMessage{Role: "assistant"}}))
	}
	return list
}

func (c *call) llamaChunk(choice any) llamaAnswer {
	list := []any{}
	if choice != nil {
		list = append(list, choice)
	}
	return llamaAnswer{Choices: list, Created: c.req.created, ID: c.req.id, Model: c.req.model, Fingerprint: llamaBuild, Object: c.object(true)}
}

// chunk implements wire. A token without text has no chunk, and its logprobs are lost.
func (llamaWire) chunk(c *call, ev *chunk, sent int) []any {
	var out []any
	text, thought := ev.said()
	d := llamaDelta{Content: text, Reasoning: thought, ToolCalls: c.callDelta(ev)}
	switch {
	case text == "" && thought == "" && d.ToolCalls == nil:
	case c.req.chat:
		out = append(out, c.llamaChunk(llamaChoice{Index: ev.choice, Delta: d, Logprobs: llamaStreamed(ev.lps)}))
	default:
		out = append(out, c.llamaChunk(llamaText{text, ev.choice, llamaStreamed(ev.lps), nil}))
	}
	if ev.finish == "" {
		return out
	}
	finish := c.finishOf(llamaFinish(ev.finish))
	if c.req.chat {
		return append(out, c.llamaChunk(llamaChoice{Finish: &finish, Index: ev.choice, Delta: struct{}{}}))
	}
	last := c.llamaChunk(llamaText{"", ev.choice, nil, &finish})
	last.Usage = spend{prompt: c.promptTokens(), generated: sent}.llama()
	return append(out, last)
}

// llamaStreamed leaves out what has no alternatives: a token that the engine's own speculation has accepted.
func llamaStreamed(lps []*tokenLogprob) *llamaLogprobs {
	for _, lp := range lps {
		if len(lp.top) == 0 {
			return nil
		}
	}
	return llamaList(lps)
}

// last implements wire.
func (llamaWire) last(c *call, t spend) []any {
	if !c.req.usage || !c.req.chat {
		return nil
	}
	v := c.llamaChunk(nil)
	v.Usage, v.Timings = t.llama(), c.llamaTimes(t)
	return []any{v}
}
