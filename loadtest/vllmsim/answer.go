package vllmsim

import (
	"net/http"
	"strconv"
	"strings"
)

// choice gathers one choice of a JSON answer.
type choice struct {
	text   strings.Builder
	ids    []int32
	lps    []*tokenLogprob
	finish string
	stop   any
	tokens int
	cached int
}

// add takes one output.
func (c *choice) add(ev *event) {
	if ev.id >= 0 {
		c.tokens++
		c.ids = append(c.ids, ev.id)
	}
	c.cached += ev.cached
	if ev.part == partText {
		c.text.WriteString(ev.text)
	}
	if ev.lp != nil {
		c.lps = append(c.lps, ev.lp)
	}
	if ev.finish != "" {
		c.finish, c.stop = ev.finish, ev.stop
	}
}

// answer serves a request that does not stream.
func (c *call) answer() {
	if c.req.lazy != nil {
		c.s.writeError(c.w, c.req.lazy)
		return
	}
	if err := c.submit(); err != nil {
		c.s.writeError(c.w, err)
		return
	}
	defer c.abort()
	choices := make([]choice, len(c.jobs))
	var events []event
	for open, n := len(choices), 0; open > 0; {
		var ok bool
		if events, ok = c.wait(events); !ok {
			return
		}
		for i := range events {
			ev := &events[i]
			if ev.finish == finishDead {
				c.s.writeError(c.w, errDead)
				return
			}
			choices[ev.choice].add(ev)
			if ev.finish != "" {
				open--
			}
			n++
		}
		if c.answerFault(n) {
			return
		}
	}
	writeJSON(c.w, http.StatusOK, c.body(choices))
}

func (c *call) body(choices []choice) []byte {
	switch {
	case c.s.face != nil && c.req.native == nil:
		return c.s.face.encode(c.s.face.answer(c, choices))
	case c.req.chat:
		return c.chatBody(choices)
	case c.req.tokens:
		return c.tokensBody(choices)
	case c.req.native != nil:
		return c.nativeBody(&choices[0])
	}
	return c.completionBody(choices)
}

// answerFault plays the faults that strike after some tokens.
func (c *call) answerFault(tokens int) bool {
	f := &c.fault
	switch {
	case f.ErrorEventAfterTokens > 0 && tokens >= f.ErrorEventAfterTokens:
		c.s.writeError(c.w, errEngine)
		return true
	case f.Hang == "stream" && tokens >= f.AfterTokens, f.CleanEOFAfterTokens > 0 && tokens >= f.CleanEOFAfterTokens:
		c.w.Header().Set("Content-Type", "application/json")
		c.w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(c.w).Flush()
		if f.Hang == "stream" {
			c.abort()
			c.stalled()
		}
		return true
	}
	return false
}

func (c *call) head(object string) []byte {
	b := appendQuoted([]byte(`{"id":`), c.req.id)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, c.req.created, 10)
	b = appendQuoted(append(b, `,"model":`...), c.req.model)
	return append(b, `,"choices":[`...)
}

// tail closes an answer after its choices; extra stands between usage and the rest.
func (c *call) tail(b []byte, choices []choice, extra func([]byte) []byte) []byte {
	b = append(b, `],"service_tier":null,"system_fingerprint":"`+fingerprint+`","usage":`...)
	b = extra(c.appendTotals(b, choices))
	return append(b, `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

// appendTotals appends the usage of the whole answer. What was cached is told of the last sequence alone, as vLLM does.
func (c *call) appendTotals(b []byte, choices []choice) []byte {
	prompt, tokens := 0, 0
	for _, p := range c.req.prompts {
		prompt += len(p)
	}
	for i := range choices {
		tokens += choices[i].tokens
	}
	b = append(appendUsage(b, prompt, tokens), `,"prompt_tokens_details":`...)
	b = c.appendDetails(b, choices[len(choices)-1].cached)
	return append(b, `,"completion_tokens_details":null}`...)
}

// appendDetails appends prompt_tokens_details; only the chat route tells of nothing being cached.
func (c *call) appendDetails(b []byte, cached int) []byte {
	if !c.s.opts.PromptTokensDetails || cached == 0 && !c.req.chat {
		return append(b, "null"...)
	}
	b = append(b, `{"cached_tokens":`...)
	return append(strconv.AppendInt(b, int64(cached), 10), '}')
}

// appendUsage leaves the object open.
func appendUsage(b []byte, prompt, tokens int) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+tokens), 10)
	b = append(b, `,"completion_tokens":`...)
	return strconv.AppendInt(b, int64(tokens), 10)
}

func (c *call) chatBody(choices []choice) []byte {
	b := c.head("chat.completion")
	for i := range choices {
		ch := &choices[i]
		b = append(appendComma(b, i), `{"index":`+strconv.Itoa(i)+`,"message":{"role":`...)
		b = appendQuoted(b, c.req.role)
		b = append(b, `,"content":`...)
		b = c.appendMessage(b, ch)
		b = append(b, `,"logprobs":`...)
		if ch.lps == nil {
			b = append(b, "null"...)
		} else {
			b = append(b, `{"content":[`...)
			for k, lp := range ch.lps {
				b = lp.appendChat(appendComma(b, k), c.req.asIDs)
			}
			b = append(b, "]}"...)
		}
		b = appendFinish(b, c.finishOf(ch.finish), ch.stop)
		b = append(b, `,"token_ids":`...)
		b = c.appendIDsIf(b, ch.ids)
		b = append(b, `,"routed_experts":null}`...)
	}
	return c.tail(b, choices, func(b []byte) []byte {
		b = append(b, `,"prompt_logprobs":`...)
		b = c.appendScores(b, c.req.prompts[0])
		b = append(b, `,"prompt_token_ids":`...)
		b = c.appendPromptIf(b, c.req.prompts[0])
		return append(b, `,"prompt_text":null`...)
	})
}

// appendMessage appends the message's fields after its role.
func (c *call) appendMessage(b []byte, ch *choice) []byte {
	t := c.req.tool
	if t == nil {
		b = appendQuoted(b, c.req.echoText+ch.text.String())
		return append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}`...)
	}
	b = append(b, `null,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[{"id":`...)
	b = appendQuoted(b, t.id)
	b = appendQuoted(append(b, `,"type":"function","function":{"name":`...), t.name)
	b = appendQuoted(append(b, `,"arguments":`...), t.args)
	return append(b, `}}],"reasoning":null}`...)
}

// finishOf is the finish reason as the chat route shows it.
func (c *call) finishOf(finish string) string {
	if finish == finishStop && c.req.tool != nil {
		return finishTools
	}
	return finish
}

func appendFinish(b []byte, finish string, stop any) []byte {
	b = append(b, `,"finish_reason":"`+finish+`","stop_reason":`...)
	return appendStopReason(b, stop)
}

// appendPromptIf appends the ids of a prompt, if they were asked for.
func (c *call) appendPromptIf(b []byte, prompt []int32) []byte {
	if c.s.missingFeatures.promptIDs {
		return append(b, "null"...)
	}
	return c.appendIDsIf(b, c.s.wire.outAll(prompt))
}

// appendIDsIf appends ids as they go over the wire.
func (c *call) appendIDsIf(b []byte, ids []int32) []byte {
	if !c.req.returnIDs {
		return append(b, "null"...)
	}
	return appendIDs(b, ids)
}

func (c *call) appendScores(b []byte, prompt []int32) []byte {
	if c.req.promptLogprobs < 0 {
		return append(b, "null"...)
	}
	in := scoring{prompt: prompt, form: c.req.form, fault: c.fault.Score, wire: c.s.wire}
	return c.s.model.appendPromptLogprobs(b, in, c.req.promptLogprobs, !c.req.wire.undecoded())
}

func (c *call) completionBody(choices []choice) []byte {
	b := c.head("text_completion")
	for i := range choices {
		ch := &choices[i]
		p := i / c.req.n
		prompt := c.req.prompts[p]
		b = append(appendComma(b, i), `{"index":`+strconv.Itoa(i)+`,"text":`...)
		b = appendQuoted(b, c.completionText(p, ch.text.String()))
		b = append(b, `,"logprobs":`...)
		if c.req.specs[i].logprobs < 0 {
			b = append(b, "null"...)
		} else {
			lp := completionLogprobs{asIDs: c.req.asIDs}
			if c.req.echo {
				c.s.echoLogprobs(&lp, scoring{prompt: prompt, form: c.req.form}, c.req.specs[i].logprobs)
			}
			if !c.req.hideGenerated {
				lp.addAll(ch.lps)
			}
			b = lp.append(b)
		}
		b = appendFinish(b, ch.finish, ch.stop)
		b = append(b, `,"token_ids":`...)
		b = c.appendIDsIf(b, ch.ids)
		b = append(b, `,"prompt_logprobs":`...)
		b = c.appendScores(b, prompt)
		b = append(b, `,"prompt_token_ids":`...)
		b = c.appendPromptIf(b, prompt)
		b = append(b, `,"routed_experts":null}`...)
	}
	return c.tail(b, choices, func(b []byte) []byte { return b })
}

// completionText is the text with the prompt in front when it is echoed.
func (c *call) completionText(prompt int, text string) string {
	if c.req.hideGenerated {
		text = ""
	}
	if c.req.echo {
		return c.req.texts[prompt] + text
	}
	return text
}

func (l *completionLogprobs) addAll(lps []*tokenLogprob) {
	for _, lp := range lps {
		text := lp.text
		if l.asIDs {
			text = tokenIDText(lp.id)
		}
		l.entries, l.texts = append(l.entries, lp), append(l.texts, text)
	}
}

// echoLogprobs puts the prompt's tokens in front.
func (s *Server) echoLogprobs(l *completionLogprobs, in scoring, n int) {
	prompt := in.prompt
	s.model.scorePrompt(in, func(i int, d *Dist) {
		if d == nil {
			l.entries, l.texts = append(l.entries, nil), append(l.texts, s.tok.shown(prompt[0]))
			return
		}
		l.addAll([]*tokenLogprob{s.wire.logprob(newTokenLogprob(s.tok, d, prompt[i], n))})
	})
}
