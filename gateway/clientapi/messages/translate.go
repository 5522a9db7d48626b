package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
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
	t := translator{Chat: clientapi.NewChat(body), counts: a.Counts}
	t.run()
	r := t.Request()
	if r == nil {
		return nil, t.In.Err()
	}
	r.Param = param
	r.NewEncoder = func(id string, maxBytes int64) clientapi.Encoder { return newEncoder(id, maxBytes, t.silent) }
	return r, nil
}

// translator translates one request.
type translator struct {
	clientapi.Chat
	counts bool // as in [API]
	silent bool // the client does not want to see what the model thinks
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

// run fills the chat completion.
func (t *translator) run() {
	o := t.In
	o.Only(known...)
	for _, name := range []string{"container", "mcp_servers"} {
		if o.Has(name) && string(o.Raw(name)) != "[]" {
			o.EngineOnly(name, clientapi.ReasonTool)
		}
	}
	t.Drop(o, tuning)
	t.Stream = o.Flag("stream")
	t.Members["model"] = o.Required("model")
	for _, step := range []func(){t.messages, t.numbers, t.stop, t.tools, t.choice, t.config, t.user, t.readThinking} {
		if step(); o.Err() != nil {
			return
		}
	}
}

// numbers adds the limits and the sampling.
func (t *translator) numbers() {
	o := t.In
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
			t.Members[name] = o.Raw(name)
		}
	}
}

// stop adds the stop strings.
func (t *translator) stop() {
	const at = "stop_sequences"
	l := t.In.List(at)
	for i, raw := range l {
		if raw[0] != '"' {
			t.In.BadType(clientapi.Element(at, i), "is not a string.")
		}
	}
	if len(l) > 0 {
		t.Members["stop"] = t.In.Raw(at)
	}
}

// config adds the schema of the answer. Its name, which chat completions need, says nothing.
func (t *translator) config() {
	config := t.In.Object("output_config")
	t.Drop(config, []string{"task_budget"})
	if config.Only("format", "effort", "task_budget"); !config.Has("format") {
		return
	}
	f := config.Object("format")
	if f.Required("type") != "json_schema" {
		f.BadValue("type", "is not json_schema.")
	}
	f.NeedObject("schema")
	f.Only("type", "schema")
	schema := map[string]any{"name": "answer", "schema": f.Raw("schema"), "strict": true}
	t.Members["response_format"] = map[string]any{"type": "json_schema", "json_schema": schema}
}

// user adds the user's name.
func (t *translator) user() {
	m := t.In.Object("metadata")
	m.Only("user_id")
	if user := m.Text("user_id"); user != "" {
		t.Members["user"] = user
	}
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
	if t.Thinking = clientapi.ThinkingOf(t.In.Object("output_config"), "effort"); !t.In.Has("thinking") {
		return
	}
	t.Thinking.Fields = append(t.Thinking.Fields, "thinking")
	o := t.In.Object("thinking")
	o.Only("type", "budget_tokens", "display")
	show := o.Text("display")
	if t.silent = show == "omitted"; !t.silent && show != "" && show != "summarized" {
		o.BadValue("display", "is neither summarized nor omitted.")
	}
	switch o.Required("type") {
	case "disabled":
		t.Thinking.Off, t.Thinking.Effort = true, ""
	case "adaptive": // the model decides
	case "enabled":
		t.Thinking.Budget = t.budget(o)
		t.Thinking.On, t.Thinking.Off = true, false
		t.Thinking.Effort = cmp.Or(t.Thinking.Effort, effortOf(t.Thinking.Budget))
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
	if json.Unmarshal(t.In.Raw("max_tokens"), &most) == nil && tokens >= most {
		o.BadValue("budget_tokens", "is not less than max_tokens.")
	}
	return tokens
}
