package messages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// known are the fields of a request. Nothing is done with the hints service_tier and cache_control: engines cache every prefix.
var known = append([]string{
	"model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream", "tools",
	"tool_choice", "metadata", "thinking", "output_config", "container", "mcp_servers", "service_tier", "cache_control",
}, tuning...)

// tuning are the fields that only tune the provider's servers: they are dropped, and the receipt tells it.
var tuning = []string{"context_management", "speed", "betas", "anthropic_beta", "anthropic_version", "inference_geo", "diagnostics"}

// ownName is the API's name of a field of a chat completion, where that is another.
var ownName = map[string]string{
	"stop": "stop_sequences", "user": "metadata.user_id", "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
	"response_format": "output_config.format",
}

// Translate implements [clientapi.API].
func (a API) Translate(body []byte) (*clientapi.Request, error) {
	o, err := clientapi.ReadObject(body, "")
	if err != nil {
		return nil, err
	}
	r := &clientapi.Request{NewEncoder: newEncoder, Param: param}
	if r.Stream, err = o.Flag("stream"); err != nil {
		return nil, err
	}
	t := translator{in: o, counts: a.Counts}
	if r.Chat, err = t.chat(r.Stream); err != nil {
		return nil, err
	}
	r.Dropped, r.Thinking = t.dropped, t.thinking
	if t.silent {
		r.NewEncoder = newSilentEncoder
	}
	return r, nil
}

// translator translates one request.
type translator struct {
	in       clientapi.Object
	counts   bool // as in [API]
	dropped  clientapi.Dropped
	thinking clientapi.Thinking
	silent   bool              // the client does not want to see what the model thinks
	names    []json.RawMessage // of the tools that the chat has
	server   string            // the place of the type of the first tool that was left out; "" for none
}

// param is the API's name of a field of a chat completion. The places of messages differ: they lose their index.
func param(chat string) string {
	if own, ok := ownName[chat]; ok {
		return own
	}
	if strings.HasPrefix(chat, "messages") {
		return "messages"
	}
	return chat
}

// chat writes the body of the chat completion.
func (t *translator) chat(stream bool) ([]byte, error) {
	o := t.in
	if err := o.Only(known...); err != nil {
		return nil, err
	}
	for _, name := range []string{"container", "mcp_servers"} {
		if o.Has(name) && string(o.Raw(name)) != "[]" {
			return nil, o.EngineOnly(name, clientapi.ReasonTool)
		}
	}
	model, err := o.Required("model")
	if err != nil {
		return nil, err
	}
	for _, name := range tuning {
		if o.Has(name) {
			t.dropped.Add(name)
		}
	}
	dst := openai.AppendQuote([]byte(`{"model":`), model)
	for _, add := range []func([]byte) ([]byte, error){t.messages, t.numbers, t.stop, t.tools, t.choice, t.config, t.user} {
		if dst, err = add(dst); err != nil {
			return nil, err
		}
	}
	if err := t.readThinking(); err != nil {
		return nil, err
	}
	if stream {
		dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	return append(slices.Grow(dst, clientapi.ThinkingBytes), '}'), nil
}

// numbers appends the limits and the sampling.
func (t *translator) numbers(dst []byte) ([]byte, error) {
	o := t.in
	var limit int
	if (!t.counts || o.Has("max_tokens")) && (json.Unmarshal(o.Raw("max_tokens"), &limit) != nil || limit < 1) {
		return nil, clientapi.BadValue("max_tokens", "is required, and is a whole number of at least 1.")
	}
	if o.Has("temperature") {
		var t float64
		if json.Unmarshal(o.Raw("temperature"), &t) != nil || t < 0 || t > 1 {
			return nil, clientapi.BadValue("temperature", "is not a number from 0 to 1.")
		}
	}
	for _, name := range []string{"max_tokens", "temperature", "top_p", "top_k"} {
		if !o.Has(name) {
			continue
		}
		raw := o.Raw(name)
		var n json.Number
		if raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
			return nil, clientapi.BadType(name, "is not a number.")
		}
		dst = append(append(dst, `,"`+name+`":`...), raw...)
	}
	return dst, nil
}

// stop appends the stop strings.
func (t *translator) stop(dst []byte) ([]byte, error) {
	const at = "stop_sequences"
	l, err := t.in.List(at)
	if err != nil || len(l) == 0 {
		return dst, err
	}
	for i, raw := range l {
		if raw[0] != '"' {
			return nil, clientapi.BadType(clientapi.Element(at, i), "is not a string.")
		}
	}
	return clientapi.AppendCompact(append(dst, `,"stop":`...), t.in.Raw(at)), nil
}

// config appends the schema of the answer. Its name, which chat completions need, says nothing.
func (t *translator) config(dst []byte) ([]byte, error) {
	config, err := t.in.Object("output_config")
	if err != nil {
		return nil, err
	}
	if config.Has("task_budget") {
		t.dropped.Add(config.Member("task_budget"))
	}
	if err := config.Only("format", "effort", "task_budget"); err != nil || !config.Has("format") {
		return dst, err
	}
	f, err := config.Object("format")
	if err != nil {
		return nil, err
	}
	kind, err := f.Required("type")
	if err != nil {
		return nil, err
	}
	if kind != "json_schema" {
		return nil, clientapi.BadValue(f.Member("type"), "is not json_schema.")
	}
	if !f.IsObject("schema") {
		return nil, clientapi.BadType(f.Member("schema"), "is required, and is an object.")
	}
	if err := f.Only("type", "schema"); err != nil {
		return nil, err
	}
	dst = clientapi.AppendCompact(append(dst, `,"response_format":{"json_schema":{"name":"answer","schema":`...), f.Raw("schema"))
	return append(dst, `,"strict":true},"type":"json_schema"}`...), nil
}

// user appends the user's name.
func (t *translator) user(dst []byte) ([]byte, error) {
	m, err := t.in.Object("metadata")
	if err != nil {
		return nil, err
	}
	if err := m.Only("user_id"); err != nil {
		return nil, err
	}
	user, err := m.Text("user_id")
	if err != nil || user == "" {
		return dst, err
	}
	return openai.AppendQuote(append(dst, `,"user":`...), user), nil
}
