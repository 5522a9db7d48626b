package clientapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/foregate/foregate/tiers/openai"
)

// Part is what a chat completion, or one chunk of its stream, says. Neither of the other APIs has several choices.
type Part struct {
	Created   int64 // Unix seconds
	Model     string
	Text      string
	Reasoning string // separated from the text by the engine
	Refusal   string
	Calls     []CallPart
	Finish    string          // finish_reason; "" while the answer goes on
	Stop      string          // the stop string that ended it; "" for none
	Usage     *Usage          // nil until it is told
	Extra     json.RawMessage // the object "foregate"; nil for none
}

// CallPart is a part of a tool call. ID and Name come with its first part.
type CallPart struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// Usage counts the tokens of an answer. Cached are those of the prompt that cost nothing.
type Usage struct{ Prompt, Completion, Cached, Reasoning int }

// wire is a chat completion or a chunk of one, as the cascade and the engines write them.
type wire struct {
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Extra   json.RawMessage `json:"foregate"`
}

type choice struct {
	Delta   *message        `json:"delta"`
	Message *message        `json:"message"`
	Finish  string          `json:"finish_reason"`
	Stop    json.RawMessage `json:"stop_reason"`
	Matched json.RawMessage `json:"matched_stop"` // SGLang's
}

type message struct {
	Content          string `json:"content"`
	Reasoning        string `json:"reasoning"`
	ReasoningContent string `json:"reasoning_content"`
	Refusal          string `json:"refusal"`

	Calls []ToolCall `json:"tool_calls"`
}

// ToolCall is a tool call of a chat completion, or a part of one.
type ToolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	PromptMore struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// ErrChoices says that an answer has more than one choice.
var ErrChoices = errors.New("the answer has more than one choice")

// ParsePart reads a chat completion or one chunk of its stream.
func ParsePart(raw []byte) (*Part, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("a part of the answer: %w", err)
	}
	p := &Part{Created: w.Created, Model: w.Model, Extra: w.Extra}
	if u := w.Usage; u != nil {
		p.Usage = &Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: u.PromptMore.Cached, Reasoning: u.CompletionMore.Reasoning}
	}
	if len(w.Choices) > 1 {
		return nil, ErrChoices
	}
	for i := range w.Choices {
		w.Choices[i].addTo(p)
	}
	return p, nil
}

// addTo adds what the choice says.
func (c *choice) addTo(p *Part) {
	p.Finish = c.Finish
	for _, stop := range [...]json.RawMessage{c.Stop, c.Matched} {
		_ = json.Unmarshal(stop, &p.Stop) // a token id is no stop string
	}
	m := c.Delta
	if m == nil {
		m = c.Message
	}
	if m == nil {
		return
	}
	p.Text, p.Refusal, p.Reasoning = m.Content, m.Refusal, m.Reasoning
	if p.Reasoning == "" {
		p.Reasoning = m.ReasoningContent
	}
	for i := range m.Calls {
		k := &m.Calls[i]
		p.Calls = append(p.Calls, CallPart{Index: k.Index, ID: k.ID, Name: k.Function.Name, Arguments: k.Function.Arguments})
	}
}

// Recode appends the frames of a chat stream to dst, as enc writes them: whole frames, as the cascade writes them.
func Recode(dst, frames []byte, enc Encoder) ([]byte, error) {
	for frame := range bytes.SplitSeq(frames, []byte("\n\n")) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(frame), []byte("data: "))
		if !ok {
			continue // the empty rest, and comments
		}
		var err error
		if string(data) == openai.Done {
			dst, err = enc.End(dst)
		} else {
			var p *Part
			if p, err = ParsePart(data); err == nil {
				dst, err = enc.Part(dst, p)
			}
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}
