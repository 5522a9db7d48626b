package responses

import (
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
)

// translator makes one chat completion of one request.
type translator struct {
	clientapi.Chat
	form
	copied int // bytes of the added items that are not the request's own
}

// forwarded are the fields whose value a chat completion takes unchanged, with its name there.
var forwarded = map[string]string{
	"model": "model", "temperature": "temperature", "top_p": "top_p", "parallel_tool_calls": "parallel_tool_calls",
	"max_output_tokens": "max_tokens",
}

// engineOnly are the fields that only an engine's own implementation can serve, and why.
var engineOnly = map[string]clientapi.Reason{
	"prompt": clientapi.ReasonNoChat, "background": clientapi.ReasonNoChat, "conversation": clientapi.ReasonNoChat,
}

// Stateful are the fields that name what a [State] keeps.
var Stateful = []string{"previous_response_id"}

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

func (t *translator) run() {
	t.In.Only(fields...)
	on := func(name string) bool { return t.In.Has(name) && string(t.In.Raw(name)) != "false" }
	for _, name := range fields {
		if why, ok := engineOnly[name]; ok && on(name) {
			t.In.EngineOnly(name, why)
		}
	}
	for _, name := range stateful {
		if t.state == nil && on(name) {
			t.In.EngineOnly(name, clientapi.ReasonState)
		}
	}
	t.Drop(t.In, tuning)
	for name, to := range forwarded {
		if t.In.Has(name) {
			t.Members[to] = t.In.Raw(name)
		}
	}
	for _, step := range []func(){t.switches, t.user, t.readState, t.input, t.toolsAndChoice, t.texts, t.readReasoning} {
		if step(); t.In.Err() != nil {
			return
		}
	}
}

func (t *translator) switches() {
	t.Stream = t.In.Flag("stream")
	switch truncation := t.In.Text("truncation"); truncation {
	case "auto": // no input is cut: one that is too long is refused, with a code by which agents compact it
		t.Dropped.Add("truncation")
	case "", "disabled":
	default:
		t.In.BadValue("truncation", "must be auto or disabled.")
	}
	var calls int
	t.In.Value("max_tool_calls", &calls, "a whole number") // it counts calls of the provider's tools, and there are none
	t.include()
	if text := t.In.Text("instructions"); text != "" {
		t.Say("system", text)
	}
}

// includable are what an answer may include besides; only reasoning has it here, and it is never encrypted.
var includable = []string{
	"reasoning.encrypted_content", "web_search_call.action.sources", "web_search_call.results", "file_search_call.results",
	"code_interpreter_call.outputs", "computer_call_output.output.image_url", "message.input_image.image_url",
}

// include reads what the answer is to include.
func (t *translator) include() {
	var include []string
	t.In.Value("include", &include, "an array of strings")
	for i, what := range include {
		switch {
		case what == "message.output_text.logprobs":
			t.In.EngineOnly("include", clientapi.ReasonNoChat)
		case !slices.Contains(includable, what):
			t.In.BadValue(clientapi.Element("include", i), "is nothing that an answer could include.")
		}
	}
	var top int
	if t.In.Value("top_logprobs", &top, "a whole number"); top > 0 {
		t.In.EngineOnly("top_logprobs", clientapi.ReasonNoChat)
	}
}

// user names the end user. OpenAI has replaced the field user by safety_identifier, so that comes first.
func (t *translator) user() {
	for _, name := range []string{"safety_identifier", "user"} {
		if t.In.Text(name); t.In.Has(name) && t.Members["user"] == nil {
			t.Members["user"] = t.In.Raw(name)
		}
	}
}

// texts reads how the answer is to be written.
func (t *translator) texts() {
	text := t.In.Object("text")
	text.Only("format", "verbosity")
	if text.Has("verbosity") {
		t.Members["verbosity"] = text.Raw("verbosity")
	}
	if !text.Has("format") {
		return
	}
	f := text.Object("format")
	f.Only("type", "name", "schema", "strict", "description")
	switch kind := f.Text("type"); kind {
	case "text":
	case "json_object":
		t.Members["response_format"] = map[string]any{"type": kind}
	case "json_schema":
		t.Members["response_format"] = map[string]any{"type": kind, kind: f.Members("name", "schema", "strict", "description")}
	default:
		f.BadValue("type", "must be text, json_object or json_schema.")
	}
}

// readReasoning reads how much the model may reason. Engines tell all that they think: that is the summary, where one is asked for.
func (t *translator) readReasoning() {
	r := t.In.Object("reasoning")
	r.Only("effort", "summary", "generate_summary", "context")
	t.Thinking = clientapi.ThinkingOf(r, "effort")
	t.summary = r.Has("summary") || r.Has("generate_summary")
}
