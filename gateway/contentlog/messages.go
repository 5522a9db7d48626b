package contentlog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
)

// maxContent bounds an attribute with content, in bytes.
const maxContent = 64 << 10

// message is a message in the form of the conventions.
type message struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is a part of a message. A part that is no text, such as an image, has its type alone.
type part struct {
	Type      string          `json:"type"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Content   string          `json:"content,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// encode returns v as JSON without HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil // no value of this package fails
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// bounded returns messages as JSON of at most room bytes, and whether something was cut. The last messages are kept. From
// the last one backwards, a message gets what the earlier ones leave free, and at least half of the room; a longer one
// loses the end of its texts.
func bounded(all []message, room int) (out string, cut bool) {
	room -= len("[]") - len(",") // each message is counted with a comma, and the last one has none
	before := sizesBefore(all, room)
	var kept [][]byte // the last one first
	for i, m := range slices.Backward(all) {
		share := max(room/2, room-before[i]) - len(",")
		text := encode(m)
		if len(text) > share {
			m, cut = shortened(m, share), true
			if text = encode(m); len(m.Parts) == 0 || len(text) > share {
				break
			}
		}
		kept = append(kept, text)
		room -= len(text) + len(",")
	}
	slices.Reverse(kept)
	return "[" + string(bytes.Join(kept, []byte(","))) + "]", cut
}

// sizesBefore returns the bytes that the messages before each one take as JSON with commas. It counts no further than room.
func sizesBefore(all []message, room int) []int {
	before, sum := make([]int, len(all)), 0
	for i, m := range all {
		before[i] = sum
		if sum <= room {
			sum += len(encode(m)) + len(",")
		}
	}
	return before
}

// shortened returns the beginning of a message, so that its JSON has at most room bytes where that is possible.
func shortened(m message, room int) message {
	kept := message{Role: m.Role, Parts: []part{}, FinishReason: m.FinishReason}
	room -= len(encode(kept))
	for _, whole := range m.Parts {
		p, text := whole, whole.text()
		size, n := len(encode(p))+len(","), len(text)
		for size > room && n > 0 {
			// An escaped byte takes at most six: each turn removes a sixth of what is too much, or more. JSON is never shorter.
			n = len(cutText(text, min(n-max(1, (size-room)/6), room)))
			p = whole.withText(text[:n])
			size = len(encode(p)) + len(",")
		}
		if size > room || (n == 0 && text != "") {
			break
		}
		kept.Parts = append(kept.Parts, p)
		if room -= size; n < len(text) {
			break
		}
	}
	return kept
}

// text returns the text of a part: its content, the result of a tool, or the arguments of a call.
func (p part) text() string {
	switch {
	case p.Response != "":
		return p.Response
	case len(p.Arguments) == 0:
		return p.Content
	}
	var text string
	if p.Arguments[0] == '"' && json.Unmarshal(p.Arguments, &text) == nil {
		return text // arguments that are not JSON
	}
	return string(p.Arguments)
}

// withText returns the part with another text. Arguments become a string, because their beginning is no JSON.
func (p part) withText(text string) part {
	switch {
	case p.Response != "":
		p.Response = text
	case len(p.Arguments) == 0:
		p.Content = text
	default:
		p.Arguments = encode(text)
	}
	return p
}

// cutText returns at most n bytes of a text, whole characters.
func cutText(text string, n int) string {
	for n > 0 && n < len(text) && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:max(n, 0)]
}

// chatMessage is a message of a chat completion, as far as it is exported.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// input returns the leading system messages of a request, and the others. Both are empty where the messages cannot be
// read.
func input(r *openai.Request) (system []part, rest []message) {
	if r.Kind == openai.Completion {
		return nil, []message{{Role: "user", Parts: []part{{Type: "text", Content: string(r.PromptText(maxContent + 1))}}}}
	}
	var all []chatMessage
	if json.Unmarshal(r.Raw("messages"), &all) != nil {
		return nil, nil
	}
	for i := range all {
		m := all[i].export()
		if len(rest) == 0 && (m.Role == "system" || m.Role == "developer") {
			system = append(system, m.Parts...)
			continue
		}
		rest = append(rest, m)
	}
	return system, rest
}

// export returns a message in the form of the conventions.
func (m *chatMessage) export() message {
	out := message{Role: m.Role, Parts: []part{}}
	texts := contentOf(m.Content)
	if m.Role == "tool" {
		answer := part{Type: "tool_call_response", ID: m.ToolCallID}
		for _, t := range texts {
			answer.Response += t.Content
		}
		answer.Response = cutText(answer.Response, min(len(answer.Response), maxContent))
		out.Parts = append(out.Parts, answer)
		return out
	}
	out.Parts = append(out.Parts, texts...)
	for _, c := range m.ToolCalls {
		out.Parts = append(out.Parts, callPart(c.ID, c.Function.Name, c.Function.Arguments))
	}
	return out
}

// contentOf returns the parts of a content: a string, a list or null.
func contentOf(raw json.RawMessage) (parts []part) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil
		}
		return []part{{Type: "text", Content: text}}
	}
	var list []struct{ Type, Text string }
	_ = json.Unmarshal(raw, &list) // what cannot be read has no parts
	for _, p := range list {
		parts = append(parts, part{Type: p.Type, Content: p.Text})
	}
	return parts
}

// callPart returns a tool call. Arguments that are not JSON are a string.
func callPart(id, name, arguments string) part {
	p := part{Type: "tool_call", ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	if !json.Valid(p.Arguments) {
		p.Arguments = encode(arguments)
	}
	return p
}

// output returns the choices of an answer.
func output(w *openai.Whole) (all []message) {
	for i := range w.Choices {
		c := &w.Choices[i]
		m := message{Role: "assistant", Parts: []part{}, FinishReason: finishOf(c.Finish)}
		if len(c.Reasoning) > 0 {
			m.Parts = append(m.Parts, part{Type: "reasoning", Content: string(c.Reasoning)})
		}
		if len(c.Text) > 0 {
			m.Parts = append(m.Parts, part{Type: "text", Content: string(c.Text)})
		}
		for _, call := range c.Calls {
			m.Parts = append(m.Parts, callPart(call.ID, call.Name, call.Arguments))
		}
		all = append(all, m)
	}
	return all
}

// finishOf returns the conventions' name of a finish reason.
func finishOf(finish string) string {
	if finish == "tool_calls" {
		return "tool_call"
	}
	return finish
}
