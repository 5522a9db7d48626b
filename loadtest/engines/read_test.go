package engines

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// answer is what an answer says, whatever its API: the text of the first choice, calls of tools, why it ended, its usage.
type answer struct {
	Text   string
	Calls  []call
	Finish string // as chat completions name it
	Prompt int    // tokens
	Output int    // tokens
}

type call struct{ Name, Arguments string }

// finishes are the reasons of other APIs as chat completions name them.
var finishes = map[string]string{
	"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls", "completed": "stop", "incomplete": "length",
}

// read reads an answer of an API, whole or streamed.
func read(api, body string) (a answer, err error) {
	parts, done := []string{body}, true
	if !strings.HasPrefix(strings.TrimSpace(body), "{") {
		parts, done = events(body)
	}
	for _, p := range parts {
		var e struct{ Error json.RawMessage }
		if err := json.Unmarshal([]byte(p), &e); err != nil {
			return a, fmt.Errorf("%w: %q", err, p)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return a, fmt.Errorf("after %+v: %s", a, p)
		}
		switch api {
		case "messages":
			err = a.message([]byte(p))
			done = done || strings.Contains(p, `"message_stop"`)
		case "responses":
			err = a.response([]byte(p))
			done = done || a.Finish != ""
		default:
			err = a.choice([]byte(p))
		}
		if err != nil {
			return a, fmt.Errorf("%w: %q", err, p)
		}
	}
	if f := finishes[a.Finish]; f != "" {
		a.Finish = f
	}
	if len(a.Calls) > 0 && a.Finish == "stop" && api == "responses" { // which does not tell
		a.Finish = "tool_calls"
	}
	if !done {
		return a, fmt.Errorf("the stream ended after %+v", a)
	}
	return a, nil
}

// call is the i-th call, which may begin.
func (a *answer) call(i int) *call {
	for len(a.Calls) <= i {
		a.Calls = append(a.Calls, call{})
	}
	return &a.Calls[i]
}

// choice takes a chat completion, a completion or a chunk of one up.
func (a *answer) choice(p []byte) error {
	type part struct {
		Content string
		Calls   []struct {
			Index    int
			Function call
		} `json:"tool_calls"`
	}
	var m struct {
		Choices []struct {
			Index          int
			Message, Delta part
			Text           string
			Finish         string `json:"finish_reason"`
		}
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(p, &m); err != nil {
		return err
	}
	if m.Usage != nil {
		a.Prompt, a.Output = m.Usage.Prompt, m.Usage.Completion
	}
	for _, c := range m.Choices {
		if c.Index > 0 {
			continue
		}
		a.Text += c.Message.Content + c.Delta.Content + c.Text
		a.Finish = max(a.Finish, c.Finish)
		for i, said := range c.Message.Calls {
			*a.call(i) = said.Function
		}
		for _, said := range c.Delta.Calls {
			to := a.call(said.Index)
			to.Name, to.Arguments = to.Name+said.Function.Name, to.Arguments+said.Function.Arguments
		}
	}
	return nil
}

// message takes an answer or an event of Anthropic's Messages up.
func (a *answer) message(p []byte) error {
	type usage struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	}
	type block struct {
		Type, Text, Name string
		Input            json.RawMessage
	}
	var m struct {
		Content []block
		Stop    string `json:"stop_reason"`
		Usage   *usage
		Index   int
		Block   *block `json:"content_block"`
		Delta   struct {
			Text, Stop string
			Reason     string `json:"stop_reason"`
			Partial    string `json:"partial_json"`
		}
	}
	if err := json.Unmarshal(p, &m); err != nil {
		return err
	}
	for _, b := range m.Content {
		if a.Text += b.Text; b.Type == "tool_use" {
			a.Calls = append(a.Calls, call{b.Name, string(b.Input)})
		}
	}
	if m.Block != nil && m.Block.Type == "tool_use" {
		a.Calls = append(a.Calls, call{Name: m.Block.Name})
	}
	a.Text += m.Delta.Text
	if m.Delta.Partial != "" && len(a.Calls) > 0 {
		a.Calls[len(a.Calls)-1].Arguments += m.Delta.Partial
	}
	a.Finish = max(a.Finish, m.Stop, m.Delta.Reason)
	if m.Usage != nil && m.Usage.Output > 0 {
		a.Prompt, a.Output = m.Usage.Input+m.Usage.Cached, m.Usage.Output
	}
	return nil
}

// response takes an answer or an event of OpenAI's Responses up; the last event of a stream has the whole answer.
func (a *answer) response(p []byte) error {
	type response struct {
		Status string
		Output []struct {
			Type, Name, Arguments string
			Content               []struct{ Text string }
		}
		Usage struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	var m struct {
		response
		Response *response
	}
	if err := json.Unmarshal(p, &m); err != nil {
		return err
	}
	r := m.response
	if m.Response != nil {
		r = *m.Response
	}
	if !slices.Contains([]string{"completed", "incomplete"}, r.Status) || m.Response == nil && len(m.Output) == 0 {
		return nil // an event on the way
	}
	*a = answer{Finish: r.Status, Prompt: r.Usage.Input, Output: r.Usage.Output}
	for _, o := range r.Output {
		if o.Type == "function_call" {
			a.Calls = append(a.Calls, call{o.Name, o.Arguments})
		}
		for _, c := range o.Content {
			a.Text += c.Text
		}
	}
	return nil
}
