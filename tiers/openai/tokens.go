package openai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// TokenizePath and DetokenizePath convert text to an engine's ids and back; TemplatePath renders a chat (llama.cpp).
const (
	TokenizePath   = "/tokenize"
	DetokenizePath = "/detokenize"
	TemplatePath   = "/apply-template"
)

// Rendered reports whether the request has fields about rendering its prompt that TokenizePrompt cannot pass
// on.
func (r *Request) Rendered() bool {
	return slices.ContainsFunc([]string{"documents", "reasoning_effort", "truncate_prompt_tokens", "add_special_tokens", "prompt_embeds"}, r.has)
}

var errNoTokens = errors.New("the answer does not have it")

// ParseTokens reads the ids of a text, or of a prompt.
func ParseTokens(body []byte) ([]int32, error) {
	var a struct {
		Tokens *[]int32 `json:"tokens"`
	}
	err := json.Unmarshal(body, &a, lenient)
	if err == nil && a.Tokens == nil {
		err = errNoTokens
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return *a.Tokens, nil
}

// ParseText reads the text of ids, or that of a rendered chat: vLLM's /detokenize and llama.cpp's /apply-template
// call the text "prompt", llama.cpp's /detokenize "content", SGLang's "text".
func ParseText(body []byte) ([]byte, error) {
	var a struct {
		Prompt  *string `json:"prompt"`
		Content *string `json:"content"`
		Text    *string `json:"text"`
	}
	err := json.Unmarshal(body, &a, lenient)
	text := cmp.Or(a.Prompt, a.Content, a.Text)
	if err == nil && text == nil {
		err = errNoTokens
	}
	if err != nil {
		return nil, fmt.Errorf("text of tokens: %w", err)
	}
	return []byte(*text), nil
}

// Named reads the id and the creation time of an answer from one of its frames; missing values are zero.
func Named(frame []byte) (id string, created int64) {
	members, _ := Members(frame)
	if raw := members["id"]; isText(raw) {
		id = string(unquote(nil, raw))
	}
	created, _ = strconv.ParseInt(string(members["created"]), 10, 64) // 0 if it is not a number
	return id, created
}
