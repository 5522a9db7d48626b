package receipts

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	maxMessages = 32 << 10        // bytes of the messages of a request or an answer, as JSON
	maxAnswer   = 4 * maxMessages // bytes of an answer while it is collected; of a longer one the beginning of its plain text is kept
	minText     = 16              // bytes: a message with less of its text is left out
)

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
	Arguments json.RawMessage `json:"arguments,omitzero"`
	Response  string          `json:"response,omitempty"`
}

// bounded returns messages as JSON of at most maxMessages bytes, and notes whether something is missing. The newest messages
// are kept. One that does not fit gets half of what is left, and loses the end of its texts.
func (c *Content) bounded(all []message) string {
	room := maxMessages - len("[]")
	var kept [][]byte // the newest first
	for _, m := range slices.Backward(all) {
		text := clientapi.Encode(m)
		if len(text)+len(",") > room {
			c.Truncated = true
			if text = shortened(m, room/2-len(",")); text == nil {
				break
			}
		}
		kept = append(kept, text)
		room -= len(text) + len(",")
	}
	slices.Reverse(kept)
	return "[" + string(bytes.Join(kept, []byte(","))) + "]"
}

// shortened returns the beginning of a message as JSON of at most room bytes, nil if hardly any of it fits.
func shortened(m message, room int) []byte {
	for limit := room; limit >= minText; limit /= 2 { // escapes take up to six bytes for one
		if text := clientapi.Encode(m.cut(limit)); len(text) <= room {
			return text
		}
	}
	return nil
}

// cut returns a message with at most limit bytes of text.
func (m message) cut(limit int) message {
	whole := m.Parts
	m.Parts = []part{}
	for _, p := range whole {
		if limit <= 0 {
			break
		}
		p.Content, p.Response = cutText(p.Content, limit), cutText(p.Response, limit)
		if len(p.Arguments) > limit {
			p.Arguments = clientapi.Encode(cutText(string(p.Arguments), limit)) // the beginning of JSON is none
		}
		m.Parts = append(m.Parts, p)
		limit -= len(p.Content) + len(p.Response) + len(p.Arguments)
	}
	return m
}

// cutText returns at most n bytes of a text, whole characters.
func cutText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// chatMessage is a message of a chat completion, as far as it is collected.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`

	ToolCalls []openai.ReplyCall `json:"tool_calls"`
}

// input returns the messages of a request; none where they cannot be read.
func input(r *openai.Request) (all []message) {
	if r.Kind == openai.Completion {
		return []message{{Role: "user", Parts: []part{{Type: "text", Content: string(r.PromptText(maxMessages + 1))}}}}
	}
	var asked []chatMessage
	_ = json.Unmarshal(r.Raw("messages"), &asked)
	for i := range asked {
		all = append(all, asked[i].convert())
	}
	return all
}

// convert returns a message in the form of the conventions.
func (m *chatMessage) convert() message {
	out := message{Role: m.Role, Parts: []part{}}
	texts := contentOf(m.Content)
	if m.Role == "tool" {
		answer := part{Type: "tool_call_response", ID: m.ToolCallID}
		for _, t := range texts {
			answer.Response += t.Content
		}
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
		p.Arguments = clientapi.Encode(arguments)
	}
	return p
}

// output returns the choices of an answer.
func output(w *openai.Whole) (all []message) {
	for i := range w.Choices {
		c := &w.Choices[i]
		m := message{Role: "assistant", Parts: []part{}, FinishReason: c.Finish}
		if c.Finish == "tool_calls" {
			m.FinishReason = "tool_call" // the conventions' name
		}
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
