package vllmsim

import (
	"encoding/json"
	"strconv"
)

// toolCall is the call that an answer makes.
type toolCall struct{ id, name, args string }

// autoCallOdds is the share of prompts that make the model call a tool it may call.
const autoCallOdds = 0.4

// form is what a request's fields say of the shape of the answer. A real model reads it in its prompt; here it stands in
// the request, but for tools, which the template writes into the prompt.
type form struct {
	schema json.RawMessage
	choice []string
	tool   *wireTool
	given  *Answer
}

// script decides whether the answer is forced by a grammar (tool call, JSON) or a judge's, and returns its tokens. They are the whole
// answer, whatever the prompt ends with: vLLM's grammar starts at the first token that is generated.
func (s *Server) script(w *wireRequest, r *request) ([]scripted, *apiError) {
	if len(r.prompts) == 0 {
		return nil, nil
	}
	c := s.model.readTo(r.prompts[0])
	v := s.model.voiceAt(&c)
	var err *apiError
	if r.form, err = w.form(r.chat, v.calls()); err != nil {
		return nil, err
	}
	if f := c.shape.given(s.tok); r.chat && f != nil && string(w.ToolChoice) != `"none"` {
		if r.form = nil; f.tool != nil && !w.ContinueFinalMessage { // a text comes of itself, and goes on
			r.form = f
		}
	}
	if r.form == nil {
		var answer []scripted
		if r.chat {
			answer, r.others = s.judged(w)
		}
		return answer, nil
	}
	out := s.model.answer(v, r.form)
	if r.form.tool == nil {
		return out, nil
	}
	r.named = len(w.ToolChoice) > 0 && w.ToolChoice[0] == '{'
	r.tool = &toolCall{name: r.form.tool.Function.Name, id: "chatcmpl-tool-" + strconv.FormatUint(hashString(s.nonce, r.id), 16)}
	for _, sc := range out {
		if sc.part == partArgs {
			r.tool.args += s.tok.pieces[sc.id]
		}
	}
	return out, nil
}

// callTag begins a tool call.
var callTag = scripted{id: tokPythonTag, p: 0.97, part: partHidden}

// calls reports whether the model calls a tool that it may call.
func (v *voice) calls() bool { return unit(mix(v.hash, 0x7001)) < autoCallOdds }

// form reads the fields; nil when the answer is free. calls says what the model does when it may call a tool.
func (w *wireRequest) form(chat, calls bool) (*form, *apiError) {
	if chat {
		if t, err := w.pickTool(calls); t != nil || err != nil {
			return &form{tool: t}, err
		}
	}
	switch f, o := w.ResponseFormat, w.StructuredOutputs; {
	case f != nil && f.Type == "json_object", o != nil && o.JSONObject:
		return &form{schema: anyObject}, nil
	case f != nil && f.Type == "json_schema":
		if f.JSONSchema == nil {
			return nil, invalid("When response_format type is 'json_schema', the 'json_schema' field must be provided.", "response_format", "")
		}
		return &form{schema: f.JSONSchema.Schema}, nil
	case f != nil && f.Type != "text":
		return nil, refused("Unsupported response_format type: " + f.Type)
	case o != nil && !isNull(o.JSON):
		return &form{schema: o.JSON}, nil
	case o != nil && len(o.Choice) > 0:
		return &form{choice: o.Choice}, nil
	}
	return nil, nil
}

// pickTool returns the tool to call, or nil.
func (w *wireRequest) pickTool(calls bool) (*wireTool, *apiError) {
	if len(w.Tools) == 0 {
		return nil, nil
	}
	var mode string
	if isNull(w.ToolChoice) {
		mode = "auto"
	} else if json.Unmarshal(w.ToolChoice, &mode) != nil {
		var named wireTool
		if json.Unmarshal(w.ToolChoice, &named) != nil {
			return nil, refused("`tool_choice` must be a named tool, \"auto\", \"none\" or \"required\".")
		}
		for i := range w.Tools {
			if w.Tools[i].Function.Name == named.Function.Name {
				return &w.Tools[i], nil
			}
		}
		return nil, invalid("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice", "")
	}
	switch mode {
	case "required":
		return &w.Tools[0], nil
	case "auto":
		if calls {
			return &w.Tools[0], nil
		}
		return nil, nil
	case "none":
		return nil, nil
	}
	return nil, refused("Invalid value for `tool_choice`: " + mode)
}
