package responses

import (
	"encoding/json"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
)

// translator makes one chat completion of one request.
type translator struct {
	in       clientapi.Object
	chat     map[string]any
	stream   bool
	summary  bool // reasoning is told as its summary
	messages []any

	kept         State             // nil keeps nothing
	store        bool              // the answer is to be kept
	previous     string            // previous_response_id; "" for none
	conversation string            // "" for none
	added        []json.RawMessage // the items of the input
	copied       int               // bytes of these that are not the request's own

	functions []chatTool
	names     map[string]toolName // of the tools, by their names in the chat
	thinking  clientapi.Thinking
	dropsTool string // the type of the first tool that was dropped; "" for none
	dropped   clientapi.Dropped
}

// forwarded are the fields whose value a chat completion takes unchanged, with its name there.
var forwarded = map[string]string{
	"model": "model", "temperature": "temperature", "top_p": "top_p", "parallel_tool_calls": "parallel_tool_calls",
	"max_output_tokens": "max_tokens",
}

// engineOnly are the fields that only an engine's own implementation can serve, and why.
var engineOnly = map[string]clientapi.Reason{
	"prompt": clientapi.ReasonNoChat, "background": clientapi.ReasonNoChat,
}

// Stateful are the fields that name what a [State] keeps.
var Stateful = []string{"previous_response_id", "conversation"}

// stateful are all that need a [State].
var stateful = append([]string{"store"}, Stateful...)

// tuning are the fields that only tune the provider; what they ask for is dropped.
var tuning = []string{"context_management", "moderation"}

// known are the other fields: those that change nothing here, and those that run reads by name.
var known = []string{
	"client_metadata", "max_tool_calls", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "stream_options", "metadata", "user", "safety_identifier",
	"input", "instructions", "stream", "tools", "tool_choice", "text", "reasoning", "truncation", "include", "top_logprobs",
}

// fields are all of them.
var fields = func() []string {
	all := slices.Concat(known, tuning, stateful)
	for name := range forwarded {
		all = append(all, name)
	}
	for name := range engineOnly {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}()

// read reads a field that may be absent or null.
func read[T any](o clientapi.Object, name string) (v T, err error) {
	if o.Has(name) && json.Unmarshal(o.Raw(name), &v) != nil {
		return v, clientapi.BadType(o.Member(name), "has the wrong type.")
	}
	return v, nil
}

func (t *translator) run() error {
	if err := t.in.Only(fields...); err != nil {
		return err
	}
	for _, name := range fields {
		why, ok := engineOnly[name]
		if ok && t.in.Has(name) && string(t.in.Raw(name)) != "false" {
			return t.in.EngineOnly(name, why)
		}
	}
	for _, name := range stateful {
		if t.kept == nil && t.in.Has(name) && string(t.in.Raw(name)) != "false" {
			return t.in.EngineOnly(name, clientapi.ReasonState)
		}
	}
	for _, name := range tuning {
		if t.in.Has(name) {
			t.dropped.Add(name)
		}
	}
	for name, to := range forwarded {
		if t.in.Has(name) {
			t.chat[to] = t.in.Raw(name)
		}
	}
	for _, step := range []func() error{t.switches, t.user, t.instructions, t.state, t.input, t.toolsAndChoice, t.texts, t.reasoning} {
		if err := step(); err != nil {
			return err
		}
	}
	t.chat["messages"] = t.messages
	return nil
}

func (t *translator) switches() (err error) {
	if t.stream, err = t.in.Flag("stream"); err != nil {
		return err
	}
	if t.stream {
		t.chat["stream"], t.chat["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	truncation, err := t.in.Text("truncation")
	switch {
	case err != nil:
		return err
	case truncation == "auto": // no input is cut: one that is too long is refused, with a code by which agents compact it
		t.dropped.Add("truncation")
	case truncation != "" && truncation != "disabled":
		return clientapi.BadValue("truncation", "must be auto or disabled.")
	}
	if _, err := read[int](t.in, "max_tool_calls"); err != nil { // it counts calls of the provider's tools, and there are none
		return err
	}
	return t.include()
}

// includable are what an answer may include besides; only reasoning has it here, and it is never encrypted.
var includable = []string{
	"reasoning.encrypted_content", "web_search_call.action.sources", "web_search_call.results", "file_search_call.results",
	"code_interpreter_call.outputs", "computer_call_output.output.image_url", "message.input_image.image_url",
}

// include reads what the answer is to include.
func (t *translator) include() error {
	include, err := read[[]string](t.in, "include")
	if err != nil {
		return err
	}
	for i, what := range include {
		switch {
		case what == "message.output_text.logprobs":
			return t.in.EngineOnly("include", clientapi.ReasonNoChat)
		case !slices.Contains(includable, what):
			return clientapi.BadValue(clientapi.Element("include", i), "is nothing that an answer could include.")
		}
	}
	top, err := read[int](t.in, "top_logprobs")
	if top > 0 {
		return t.in.EngineOnly("top_logprobs", clientapi.ReasonNoChat)
	}
	return err
}

// user names the end user. OpenAI has replaced the field user by safety_identifier, so that comes first.
func (t *translator) user() error {
	for _, name := range []string{"safety_identifier", "user"} {
		if !t.in.Has(name) {
			continue
		}
		if _, err := t.in.Text(name); err != nil {
			return err
		}
		if t.chat["user"] == nil {
			t.chat["user"] = t.in.Raw(name)
		}
	}
	return nil
}

func (t *translator) instructions() error {
	text, err := t.in.Text("instructions")
	if text != "" {
		t.messages = append(t.messages, map[string]any{"role": "system", "content": text})
	}
	return err
}

// texts reads how the answer is to be written.
func (t *translator) texts() error {
	text, err := t.in.Object("text")
	if err != nil {
		return err
	}
	if err := text.Only("format", "verbosity"); err != nil {
		return err
	}
	if text.Has("verbosity") {
		t.chat["verbosity"] = text.Raw("verbosity")
	}
	f, err := text.Object("format")
	if err != nil || !text.Has("format") {
		return err
	}
	if err := f.Only("type", "name", "schema", "strict", "description"); err != nil {
		return err
	}
	kind, err := f.Text("type")
	switch kind {
	case "text":
	case "json_object":
		t.chat["response_format"] = map[string]any{"type": kind}
	case "json_schema":
		t.chat["response_format"] = map[string]any{"type": kind, kind: members(f, "name", "schema", "strict", "description")}
	default:
		return clientapi.BadValue(f.Member("type"), "must be text, json_object or json_schema.")
	}
	return err
}

// reasoning reads how much the model may reason. Engines tell all that they think: that is the summary, where one is asked for.
func (t *translator) reasoning() error {
	r, err := t.in.Object("reasoning")
	if err != nil {
		return err
	}
	if err := r.Only("effort", "summary", "generate_summary", "context"); err != nil {
		return err
	}
	effort, err := r.Text("effort")
	if err != nil {
		return err
	}
	if effort != "" {
		if t.thinking, err = clientapi.ThinkingOf(effort, r.Member("effort")); err != nil {
			return err
		}
	}
	t.summary = r.Has("summary") || r.Has("generate_summary")
	return nil
}

// members are some members of an object, as they are.
func members(o clientapi.Object, names ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for _, name := range names {
		if o.Has(name) {
			m[name] = o.Raw(name)
		}
	}
	return m
}
