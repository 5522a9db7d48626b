package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	o := clientapi.ReadObject(body)
	r := &clientapi.Request{Param: param, Stream: o.Flag("stream")}
	t := translator{in: o, counts: a.Counts}
	r.Chat = t.chat(r.Stream)
	if err := o.Err(); err != nil {
		return nil, err
	}
	r.Dropped, r.Thinking = t.dropped, t.thinking
	r.NewEncoder = func(id string, maxBytes int64) clientapi.Encoder { return newEncoder(id, maxBytes, t.silent) }
	return r, nil
}

// translator translates one request.
type translator struct {
	in       clientapi.Object
	counts   bool // as in [API]
	dropped  clientapi.Dropped
	thinking clientapi.Thinking
	silent   bool     // the client does not want to see what the model thinks
	names    []string // of the tools that the chat has
	server   string   // the place of the type of the first tool that was left out; "" for none
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
func (t *translator) chat(stream bool) []byte {
	o := t.in
	o.Only(known...)
	for _, name := range []string{"container", "mcp_servers"} {
		if o.Has(name) && string(o.Raw(name)) != "[]" {
			o.EngineOnly(name, clientapi.ReasonTool)
		}
	}
	for _, name := range tuning {
		if o.Has(name) {
			t.dropped.Add(name)
		}
	}
	dst := openai.AppendQuote([]byte(`{"model":`), o.Required("model"))
	for _, add := range []func([]byte) []byte{t.messages, t.numbers, t.stop, t.tools, t.choice, t.config, t.user} {
		if dst = add(dst); o.Err() != nil {
			return nil
		}
	}
	if t.readThinking(); stream {
		dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	return append(slices.Grow(dst, clientapi.ThinkingBytes), '}')
}

// numbers appends the limits and the sampling.
func (t *translator) numbers(dst []byte) []byte {
	o := t.in
	var limit int
	if (!t.counts || o.Has("max_tokens")) && (json.Unmarshal(o.Raw("max_tokens"), &limit) != nil || limit < 1) {
		o.BadValue("max_tokens", "is required, and is a whole number of at least 1.")
	}
	var temperature float64
	if o.Has("temperature") && (json.Unmarshal(o.Raw("temperature"), &temperature) != nil || temperature < 0 || temperature > 1) {
		o.BadValue("temperature", "is not a number from 0 to 1.")
	}
	for _, name := range []string{"max_tokens", "temperature", "top_p", "top_k"} {
		var n float64
		if o.Value(name, &n, "a number"); o.Has(name) {
			dst = append(append(dst, `,"`+name+`":`...), o.Raw(name)...)
		}
	}
	return dst
}

// stop appends the stop strings.
func (t *translator) stop(dst []byte) []byte {
	const at = "stop_sequences"
	l := t.in.List(at)
	for i, raw := range l {
		if raw[0] != '"' {
			t.in.BadType(clientapi.Element(at, i), "is not a string.")
		}
	}
	if len(l) == 0 {
		return dst
	}
	return clientapi.AppendCompact(append(dst, `,"stop":`...), t.in.Raw(at))
}

// config appends the schema of the answer. Its name, which chat completions need, says nothing.
func (t *translator) config(dst []byte) []byte {
	config := t.in.Object("output_config")
	if config.Has("task_budget") {
		t.dropped.Add(config.Member("task_budget"))
	}
	if config.Only("format", "effort", "task_budget"); !config.Has("format") {
		return dst
	}
	f := config.Object("format")
	if f.Required("type") != "json_schema" {
		f.BadValue("type", "is not json_schema.")
	}
	f.NeedObject("schema")
	f.Only("type", "schema")
	dst = clientapi.AppendCompact(append(dst, `,"response_format":{"json_schema":{"name":"answer","schema":`...), f.Raw("schema"))
	return append(dst, `,"strict":true},"type":"json_schema"}`...)
}

// user appends the user's name.
func (t *translator) user(dst []byte) []byte {
	m := t.in.Object("metadata")
	m.Only("user_id")
	user := m.Text("user_id")
	if user == "" {
		return dst
	}
	return openai.AppendQuote(append(dst, `,"user":`...), user)
}

// minBudget is the least budget of thinking in the API, in tokens.
const minBudget = 1024

// effortOf is the effort that stands for a budget of thinking, for engines that have no budgets.
func effortOf(tokens int) string {
	switch {
	case tokens <= 4<<10:
		return "low"
	case tokens <= 16<<10:
		return "medium"
	}
	return "high"
}

// readThinking reads how the model may think: as the chat's members, for engines that think.
func (t *translator) readThinking() {
	if t.thinking = clientapi.ThinkingOf(t.in.Object("output_config"), "effort"); !t.in.Has("thinking") {
		return
	}
	t.thinking.Fields = append(t.thinking.Fields, "thinking")
	o := t.in.Object("thinking")
	o.Only("type", "budget_tokens", "display")
	show := o.Text("display")
	if t.silent = show == "omitted"; !t.silent && show != "" && show != "summarized" {
		o.BadValue("display", "is neither summarized nor omitted.")
	}
	switch o.Required("type") {
	case "disabled":
		t.thinking.Off, t.thinking.Effort = true, ""
	case "adaptive": // the model decides
	case "enabled":
		t.thinking.Budget = t.budget(o)
		t.thinking.On, t.thinking.Off = true, false
		t.thinking.Effort = cmp.Or(t.thinking.Effort, effortOf(t.thinking.Budget))
	default:
		o.BadValue("type", "is none of adaptive, enabled, disabled.")
	}
}

// budget reads the tokens of thinking.
func (t *translator) budget(o clientapi.Object) int {
	var tokens, most int
	if json.Unmarshal(o.Raw("budget_tokens"), &tokens) != nil || tokens < minBudget {
		o.BadValue("budget_tokens", fmt.Sprintf("is required, and is a whole number of at least %d.", minBudget))
	}
	if json.Unmarshal(t.in.Raw("max_tokens"), &most) == nil && tokens >= most {
		o.BadValue("budget_tokens", "is not less than max_tokens.")
	}
	return tokens
}
