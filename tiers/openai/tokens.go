package openai

import (
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
	members, _ := Members(body)
	var ids []int32
	err := json.Unmarshal(members["tokens"], &ids)
	if err == nil && ids == nil {
		err = errNoTokens
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return ids, nil
}

// ParseText reads the text of ids, or that of a rendered chat: vLLM's /detokenize and llama.cpp's /apply-template
// call the text "prompt", llama.cpp's /detokenize "content", SGLang's "text".
func ParseText(body []byte) ([]byte, error) {
	members, _ := Members(body)
	for _, name := range []string{"prompt", "content", "text"} {
		if raw := members[name]; isText(raw) {
			return unquote(nil, raw), nil
		}
	}
	return nil, fmt.Errorf("text of tokens: %w", errNoTokens)
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
