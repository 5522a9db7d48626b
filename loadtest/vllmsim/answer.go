package vllmsim

import (
	"net/http"
	"strings"
)

// choice gathers one choice of a JSON answer.
type choice struct {
	text   strings.Builder
	end    ending
	tokens int
	cached int
}

// add takes one output.
func (c *choice) add(ev *event) {
	if ev.id >= 0 {
		c.tokens++
		c.end.ids = append(c.end.ids, ev.id)
	}
	c.cached += ev.cached
	if ev.part == partText {
		c.text.WriteString(ev.text)
	}
	if ev.lp != nil {
		c.end.lps = append(c.end.lps, ev.lp)
	}
	if ev.finish != "" {
		c.end.finish, c.end.stop = ev.finish, ev.stop
	}
}

// answer serves a request that does not stream.
func (c *call) answer() {
	if c.req.lazy != nil {
		c.s.writeError(c.w, c.req.lazy)
		return
	}
	c.submit()
	defer c.abort()
	choices := make([]choice, len(c.jobs))
	for i := range choices {
		choices[i].end.prompt = c.req.prompts[i/c.req.n]
	}
	var events []event
	for open, n := len(choices), 0; open > 0; {
		var ok bool
		if events, ok = c.wait(events); !ok {
			return
		}
		for i := range events {
			ev := &events[i]
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
	if c.req.native != nil {
		writeJSON(c.w, http.StatusOK, c.nativeAnswer(&choices[0]))
		return
	}
	writeJSON(c.w, http.StatusOK, c.whole(choices))
}

// whole is the answer in the words of the server's engine.
func (c *call) whole(choices []choice) *answerBody {
	f := c.s.face
	a := f.head(c, false)
	t := spend{prompt: c.promptTokens()}
	for i := range choices {
		ch := &choices[i]
		t.generated += ch.tokens
		t.cached = ch.cached
		text := ch.text.String()
		v := &choiceBody{Index: i}
		f.finish(c, v, &ch.end)
		if c.req.chat {
			v.Logprobs = f.logprobs(&ch.end)
			v.Message = &message{Role: c.req.role, Content: text, ToolCalls: c.calls()}
			if v.Message.ToolCalls != nil && text == "" && !c.s.vllm() {
				v.Message.Content = null
			}
		} else {
			v.Text = &text
			if c.req.specs[i].logprobs >= 0 {
				v.Logprobs = f.textLogprobs(ch.end.lps, 0)
			}
		}
		a.Choices = append(a.Choices, v)
	}
	f.whole(c, a, t)
	c.told = t
	return a
}

func (c *call) promptTokens() (n int) {
	for _, p := range c.req.prompts {
		n += len(p)
	}
	return n
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
