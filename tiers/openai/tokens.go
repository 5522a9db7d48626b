package openai

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/foregate/foregate/tiers/fields"
)

// TokenizePath and DetokenizePath convert text to an engine's ids and back; TemplatePath renders a chat (llama.cpp).
const (
	TokenizePath   = "/tokenize"
	DetokenizePath = "/detokenize"
	TemplatePath   = "/apply-template"
)

// TokenizeText is the body that requests the ids of a text, without the tokens that begin a prompt.
func TokenizeText(model string, text []byte) []byte {
	b := quote(append(make([]byte, 0, len(text)+96), `{"model":`...), model)
	b = quote(append(b, `,"prompt":`...), text)
	return append(b, `,"add_special_tokens":false}`...)
}

// TokenizePrompt is the body that requests the ids of the request's prompt as an engine renders it. forbidden says that
// the engine's chat lists tools in the prompt also where tool_choice is "none".
func (r *Request) TokenizePrompt(model string, forbidden bool) []byte {
	b := quote(append(make([]byte, 0, len(r.Body)+96), `{"model":`...), model)
	if r.Kind == Completion {
		b = append(append(b, `,"prompt":`...), r.Raw("prompt")...)
		return append(b, '}')
	}
	b = append(append(b, `,"messages":`...), r.Raw("messages")...)
	for _, name := range [...]string{"tools", "chat_template_kwargs", "chat_template"} {
		if raw := r.Raw(name); raw != nil && (name != "tools" || r.Tools || forbidden) {
			b = append(append(append(b, `,"`+name+`":`...), raw...), ' ')
		}
	}
	return append(b, `,"add_generation_prompt":true}`...)
}

// TokenizeContent is the body that requests the ids of a text from llama.cpp. Of a prompt, the tokens that begin it are
// added, and names of special tokens in it become these tokens; an answer has neither.
func TokenizeContent(text []byte, prompt bool) []byte {
	b := quote(append(make([]byte, 0, len(text)+96), `{"content":`...), text)
	b = strconv.AppendBool(append(b, `,"add_special":`...), prompt)
	return append(strconv.AppendBool(append(b, `,"parse_special":`...), prompt), '}')
}

// ApplyTemplate is the body that requests the text of a chat's prompt from llama.cpp, with these arguments of the template
// in place of the request's if they are not nil.
func (r *Request) ApplyTemplate(kwargs []byte) []byte {
	b := append(append(make([]byte, 0, len(r.Body)+32), `{"messages":`...), r.Raw("messages")...)
	for _, name := range [...]string{"tools", "tool_choice", fields.Kwargs} {
		raw := r.Raw(name)
		if name == fields.Kwargs && kwargs != nil {
			raw = kwargs
		}
		if raw != nil {
			b = append(append(b, `,"`+name+`":`...), raw...)
		}
	}
	return append(b, '}')
}

// Rendered reports whether the request has fields about rendering its prompt that TokenizePrompt cannot pass
// on.
func (r *Request) Rendered() bool {
	for _, name := range [...]string{"documents", "reasoning_effort", "truncate_prompt_tokens", "add_special_tokens", "prompt_embeds"} {
		if r.has(name) {
			return true
		}
	}
	return false
}

// maxIDs bounds the ids in one answer.
const maxIDs = 4 << 20

// ParseTokens reads the answer to a TokenizeText or TokenizePrompt.
func ParseTokens(body []byte) (ids []int32, err error) {
	var in cursor
	in.resetLenient(body)
	found := false
	for name := range in.object() {
		if string(name) != "tokens" || in.kind() != '[' {
			in.skip()
			continue
		}
		found = true
		for range in.array() {
			raw, _ := in.value()
			id, perr := strconv.ParseInt(string(raw), 10, 32)
			if perr != nil || len(ids) == maxIDs {
				return nil, fmt.Errorf("tokens: %s is no token id", clip(string(raw), longestNumber))
			}
			ids = append(ids, int32(id))
		}
	}
	switch in.end(); {
	case in.err != nil:
		return nil, fmt.Errorf("tokens: %w", in.err)
	case !found:
		return nil, fmt.Errorf("tokens: %w", errNoTokens)
	}
	return ids, nil
}

var errNoTokens = errors.New("the answer does not have it")

// Detokenize is the body that requests the text of ids.
func Detokenize(model string, ids []int32) []byte {
	b := quote(append(make([]byte, 0, 8*len(ids)+64), `{"model":`...), model)
	b = append(b, `,"tokens":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, "]}"...)
}

// DetokenizeAll is [Detokenize] with the text of special tokens, which SGLang leaves out by default.
func DetokenizeAll(model string, ids []int32) []byte {
	b := Detokenize(model, ids)
	return append(b[:len(b)-1], `,"skip_special_tokens":false}`...)
}

// ParseText reads the answer to a Detokenize, or to an ApplyTemplate: vLLM's /detokenize and llama.cpp's /apply-template
// call the text "prompt", llama.cpp's /detokenize "content", SGLang's "text".
func ParseText(body []byte) (text []byte, err error) {
	var in cursor
	in.resetLenient(body)
	found := false
	for name := range in.object() {
		is := (string(name) == "prompt" || string(name) == "content" || string(name) == "text") && in.kind() == '"'
		raw, _ := in.value()
		if is && in.err == nil {
			text, found = unquote(nil, raw), true
		}
	}
	switch in.end(); {
	case in.err != nil:
		return nil, fmt.Errorf("text of tokens: %w", in.err)
	case !found:
		return nil, fmt.Errorf("text of tokens: %w", errNoTokens)
	}
	return text, nil
}

// Named reads the id and the creation time of an answer from one of its frames; missing values are zero.
func Named(frame []byte) (id string, created int64) {
	var in cursor
	in.resetLenient(frame)
	for name := range in.object() {
		key := string(name)
		raw, _ := in.value()
		switch {
		case key == "id" && len(raw) > 0 && raw[0] == '"':
			id = string(unquote(nil, raw))
		case key == "created":
			created, _ = strconv.ParseInt(string(raw), 10, 64) // 0 if it is not a number
		}
	}
	return id, created
}
