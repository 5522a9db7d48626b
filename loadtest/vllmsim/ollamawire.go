package vllmsim

// The shapes of Ollama's answers (openai/openai.go, middleware/openai.go).

type ollamaAnswer struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint"`
	Choices     []any        `json:"choices"`
	Usage       *ollamaUsage `json:"usage,omitempty"`
}

type ollamaUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

type ollamaChoice struct {
	Index    int             `json:"index"`
	Message  *ollamaMessage  `json:"message,omitempty"`
	Delta    *ollamaMessage  `json:"delta,omitempty"`
	Finish   *string         `json:"finish_reason"`
	Logprobs *ollamaLogprobs `json:"logprobs,omitempty"`
}

type ollamaText struct {
	Text   string  `json:"text"`
	Index  int     `json:"index"`
	Finish *string `json:"finish_reason"`
}

type ollamaMessage struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type ollamaLogprobs struct {
	Content []ollamaLogprob `json:"content"`
}

type ollamaLogprob struct {
	ollamaToken
	Top []ollamaToken `json:"top_logprobs,omitempty"`
}

type ollamaToken struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes,omitempty"`
}

func newOllamaLogprob(lp *tokenLogprob) ollamaLogprob {
	token := func(a altLogprob) ollamaToken { return ollamaToken{a.text, a.lp, bytesOf(a.text)} }
	out := ollamaLogprob{ollamaToken: token(lp.altLogprob)}
	for _, a := range lp.top {
		out.Top = append(out.Top, token(a))
	}
	return out
}

// ollamaListed leaves out the token that ends an answer.
func ollamaListed(lps []*tokenLogprob, ended bool) *ollamaLogprobs {
	if ended && len(lps) > 0 {
		lps = lps[:len(lps)-1]
	}
	if len(lps) == 0 {
		return nil
	}
	return &ollamaLogprobs{logprobsOf(lps, newOllamaLogprob)}
}

// endsItself reports whether the last token is the model's own end.
func endsItself(finish string, stop any) bool { return finish == finishStop && stop == nil }

// ollamaFinish is the reason in Ollama's words; nil while an answer goes on.
func (c *call) ollamaFinish(finish string) *string {
	switch finish {
	case "":
		return nil
	case finishStop, finishLength:
	default:
		finish = finishStop
	}
	finish = c.finishOf(finish)
	return &finish
}

func (c *call) ollamaHead(stream bool, choices ...any) ollamaAnswer {
	if choices == nil {
		choices = []any{}
	}
	return ollamaAnswer{ID: c.req.id, Object: c.object(stream), Created: c.req.created, Model: c.req.model, Fingerprint: "fp_ollama", Choices: choices}
}

func (t spend) ollama() *ollamaUsage {
	return &ollamaUsage{t.prompt, t.generated, t.prompt + t.generated}
}

// answer implements wire.
func (ollamaWire) answer(c *call, choices []choice) any {
	ch := &choices[0]
	finish := c.ollamaFinish(ch.finish)
	var one any = ollamaText{ch.text.String(), 0, finish}
	if c.req.chat {
		one = ollamaChoice{Message: &ollamaMessage{Role: "assistant", Content: ch.text.String(), Reasoning: ch.think.String(), ToolCalls: c.calls()},
			Finish: finish, Logprobs: ollamaListed(ch.lps, endsItself(ch.finish, ch.stop))}
	}
	v := c.ollamaHead(false, one)
	v.Usage = c.spend(choices).ollama()
	return v
}

// first implements wire: every chunk has the role.
func (ollamaWire) first(*call) []any { return nil }

// chunk implements wire. The last chunk of a chat has no text.
func (ollamaWire) chunk(c *call, ev *chunk, _ int) []any {
	text, thought := ev.said()
	if !c.req.chat {
		v := c.ollamaHead(true, ollamaText{text, 0, c.ollamaFinish(ev.finish)})
		if c.req.usage {
			v.Usage = &ollamaUsage{}
		}
		return []any{v}
	}
	var out []any
	d := &ollamaMessage{Role: "assistant", Content: text, Reasoning: thought, ToolCalls: c.callDelta(ev)}
	lps := ollamaListed(ev.lps, endsItself(ev.finish, ev.stop))
	if text != "" || thought != "" || d.ToolCalls != nil || lps != nil {
		out = append(out, c.ollamaHead(true, ollamaChoice{Delta: d, Logprobs: lps}))
	}
	if ev.finish != "" {
		out = append(out, c.ollamaHead(true, ollamaChoice{Delta: &ollamaMessage{Role: "assistant"}, Finish: c.ollamaFinish(ev.finish)}))
	}
	return out
}

// last implements wire.
func (ollamaWire) last(c *call, t spend) []any {
	if !c.req.usage {
		return nil
	}
	v := c.ollamaHead(true)
	v.Usage = t.ollama()
	return []any{v}
}
