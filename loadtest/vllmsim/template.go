package vllmsim

import (
	"encoding/json"
	"strings"
)

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Chat returns the ids that a server makes of messages for an answer to follow. It is AppendStart, AppendMessage for
// each, and AppendGenerationPrompt; who renders the same long message often keeps its part.
func (t *Tokenizer) Chat(list []Message) []int32 {
	out := t.AppendStart(nil)
	for _, m := range list {
		out = t.AppendMessage(out, m)
	}
	return t.AppendGenerationPrompt(out)
}

// AppendStart appends what a conversation begins with.
func (t *Tokenizer) AppendStart(dst []int32) []int32 { return append(dst, tokBOS) }

// AppendMessage appends a message that is complete.
func (t *Tokenizer) AppendMessage(dst []int32, m Message) []int32 {
	dst = t.header(dst, m.Role)
	return append(t.AppendEncode(dst, strings.TrimSpace(m.Content)), tokEOT)
}

// AppendGenerationPrompt appends the header of an answer.
func (t *Tokenizer) AppendGenerationPrompt(dst []int32) []int32 { return t.header(dst, "assistant") }

// toolsIntro is what the template says before it lists the tools.
const toolsIntro = "You can call these functions:"

// templateInput is what the chat template renders.
type templateInput struct {
	messages   []wireMessage
	tools      []wireTool
	generation bool // add_generation_prompt
	open       bool // continue_final_message
}

// render writes a conversation as ids, in the manner of Llama 3: every message is a header, a blank line, its text and
// an end-of-turn token. Text is encoded piece by piece, so it can never become a special token.
func (t *Tokenizer) render(in templateInput) ([]int32, *apiError) {
	out := t.AppendStart(nil)
	if len(in.tools) > 0 {
		list, err := json.Marshal(in.tools)
		if err != nil {
			return nil, refused("tools cannot be rendered")
		}
		out = t.header(out, "system")
		out = t.AppendEncode(out, toolsIntro+"\n"+string(list))
		out = append(out, tokEOT)
	}
	for i := range in.messages {
		m := &in.messages[i]
		text, err := m.text()
		if err != nil {
			return nil, err
		}
		last := i == len(in.messages)-1
		if !last || !in.open {
			text = strings.TrimSpace(text)
		}
		out = t.header(out, m.Role)
		out = t.AppendEncode(out, text)
		if !isNull(m.ToolCalls) {
			out = append(out, tokPythonTag)
			out = t.AppendEncode(out, string(m.ToolCalls))
		}
		if !last || !in.open {
			out = append(out, tokEOT)
		}
	}
	if in.generation {
		out = t.AppendGenerationPrompt(out)
	}
	return out, nil
}

// header opens a message. What a tool says comes from "ipython", as Llama calls it.
func (t *Tokenizer) header(out []int32, role string) []int32 {
	if role == "tool" {
		role = "ipython"
	}
	out = append(out, tokStartHeader)
	out = t.AppendEncode(out, role)
	out = append(out, tokEndHeader)
	return t.AppendEncode(out, "\n\n")
}
