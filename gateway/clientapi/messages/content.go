package messages

import (
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// turn is one message's content, sorted by what a chat completion does with it.
type turn struct {
	chat    *clientapi.Chat
	parts   []any // content parts
	calls   []any // tool calls
	results []any // tool messages
}

// systemAt is where the system text is. Claude Code begins it with a block for the provider's accounts, at billingAt, which
// begins with billing.
const (
	systemAt  = "system"
	billingAt = "system[0]"
	billing   = "x-anthropic-billing-header:"
)

// messages adds the system text and the conversation.
func (t *translator) messages() {
	last := len(t.In.List("messages")) - 1
	if last < 0 {
		t.In.BadValue("messages", "is required, and is not empty.")
	}
	if t.In.Has(systemAt) {
		t.turn(t.In, systemAt, "system")
	}
	for i, m := range t.In.Objects("messages") {
		t.message(m, i == last)
	}
}

// message adds one message of the conversation. Instructions of the system may stand anywhere: they stay there.
func (t *translator) message(m clientapi.Object, last bool) {
	m.Only("role", "content")
	role := m.Required("role")
	if role != "user" && role != "assistant" && role != "system" {
		m.BadValue("role", "is none of user, assistant, system.")
	}
	if role == "assistant" && last {
		m.EngineOnly("role", clientapi.ReasonPrefill)
	}
	m.Need("content")
	t.turn(m, "content", role)
}

// turn adds the chat messages of a member that is content: results of tools come before the user's own words.
func (t *translator) turn(of clientapi.Object, name, role string) {
	in := turn{chat: &t.Chat}
	in.read(of, name, role)
	t.Messages = append(t.Messages, in.results...)
	switch empty := len(in.parts) == 0; {
	case len(in.calls) > 0:
		message := map[string]any{"role": role, "content": nil, "tool_calls": in.calls} // null as OpenAI's clients send it back
		if !empty {
			message["content"] = clientapi.Content(in.parts)
		}
		t.Messages = append(t.Messages, message)
	case !empty || len(in.results) == 0 && role != "system":
		t.Say(role, clientapi.Content(in.parts))
	}
}

// addText adds a text part.
func (t *turn) addText(s string) { t.parts = append(t.parts, clientapi.TextPart(s)) }

// read reads a member that is content: a string or blocks.
func (t *turn) read(of clientapi.Object, name, role string) {
	var s string
	switch raw := of.Raw(name); {
	case of.Err() != nil:
	case json.Unmarshal(raw, &s) == nil:
		t.addText(s)
	case raw[0] != '[':
		of.BadType(name, "is neither a string nor an array.")
	default:
		for _, b := range of.Objects(name) {
			t.block(b, role)
		}
	}
}

// block adds one block, whose members [openai.Peek] has accepted.
func (t *turn) block(b clientapi.Object, role string) {
	fromClient := role == "user" || role == "tool"
	switch kind := b.Required("type"); {
	case kind == "text":
		b.Need("text")
		s := b.Text("text")
		if b.At == billingAt && strings.HasPrefix(s, billing) {
			t.chat.Dropped.Add(b.At) // it differs between conversations, whose prefix would be cold
			return
		}
		t.addText(s)
	case kind == "image" && fromClient:
		t.image(b)
	case kind == "tool_use" && role == "assistant":
		t.call(b)
	case kind == "tool_result" && role == "user":
		t.result(b)
	case (kind == "thinking" || kind == "redacted_thinking") && role == "assistant": // of any model, with any signature: it reaches no engine
	case kind == "document" && fromClient:
		t.document(b)
	case kind == "search_result" && fromClient: // what a search of the client's has found: its title and source, then its text
		t.headings(b, "title", "source")
		b.Need("content")
		t.read(b, "content", "tool")
	case kind == "tool_reference" && role == "tool":
		t.addText(b.Required("tool_name"))
	case (kind == "tool_addition" || kind == "tool_removal") && role == "system":
		t.chat.Dropped.Add(b.Member("type") + " " + kind) // all tools are offered all the time
	case role == "system" || kind == "image" || kind == "tool_use" || kind == "tool_result":
		b.BadValue("type", "is not allowed in this place.")
	default:
		b.EngineOnly("type", clientapi.ReasonNoChat)
	}
}

// document adds a document whose text is in the request: its title and context, then its text. Files and addresses must be
// read or fetched, which nothing here does.
func (t *turn) document(b clientapi.Object) {
	t.headings(b, "title", "context")
	source := b.Object("source")
	switch source.Required("type") {
	case "text":
		t.addText(source.Text("data"))
	case "content":
		source.Need("content")
		t.read(source, "content", "tool")
	default:
		source.EngineOnly("type", clientapi.ReasonNoChat)
	}
}

// headings adds members that are texts, and notes that nothing is cited.
func (t *turn) headings(b clientapi.Object, names ...string) {
	for _, name := range names {
		if text := b.Text(name); text != "" {
			t.addText(text)
		}
	}
	if b.Object("citations").Flag("enabled") {
		t.chat.Dropped.Add(b.Member("citations"))
	}
}

// image adds an image, which is in the request: [openai.Peek] refuses one that must be fetched.
func (t *turn) image(b clientapi.Object) {
	s := b.Object("source")
	url := "data:" + s.Required("media_type") + ";base64," + s.Required("data")
	t.parts = append(t.parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
}

// call adds a call that the assistant made.
func (t *turn) call(b clientapi.Object) {
	id, name := b.Required("id"), b.Required("name")
	if b.NeedObject("input"); b.Err() == nil {
		t.calls = append(t.calls, clientapi.Call(id, name, string(clientapi.AppendCompact(nil, b.Raw("input")))))
	}
}

// result adds what a tool returned.
func (t *turn) result(b clientapi.Object) {
	id := b.Required("tool_use_id")
	in := turn{chat: t.chat}
	if b.Flag("is_error") {
		in.addText("Error:")
	}
	if b.Has("content") {
		in.read(b, "content", "tool")
	}
	t.results = append(t.results, map[string]any{"role": "tool", "tool_call_id": id, "content": clientapi.Content(in.parts)})
}
