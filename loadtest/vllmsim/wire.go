package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wireRequest is the body of both generation routes, as far as the simulator reads it. Unknown fields are ignored, as
// vLLM does.
type wireRequest struct {
	Model                string             `json:"model"`
	Messages             []wireMessage      `json:"messages"`
	Prompt               json.RawMessage    `json:"prompt"`
	Stream               bool               `json:"stream"`
	StreamOptions        *streamOptions     `json:"stream_options"`
	MaxTokens            *int               `json:"max_tokens"`
	MaxCompletionTokens  *int               `json:"max_completion_tokens"`
	MinTokens            int                `json:"min_tokens"`
	IgnoreEOS            bool               `json:"ignore_eos"`
	Stop                 json.RawMessage    `json:"stop"`
	StopTokenIDs         []int32            `json:"stop_token_ids"`
	IncludeStop          bool               `json:"include_stop_str_in_output"`
	SkipSpecialTokens    *bool              `json:"skip_special_tokens"`
	Temperature          *float64           `json:"temperature"`
	TopP                 *float64           `json:"top_p"`
	TopK                 *int               `json:"top_k"`
	Presence             *float64           `json:"presence_penalty"`
	Frequency            *float64           `json:"frequency_penalty"`
	Repetition           *float64           `json:"repetition_penalty"`
	MinP                 *float64           `json:"min_p"`
	Seed                 *int64             `json:"seed"`
	LogitBias            map[string]float64 `json:"logit_bias"`
	Suffix               json.RawMessage    `json:"suffix"`
	ChatTemplate         json.RawMessage    `json:"chat_template"`
	N                    *int               `json:"n"`
	Logprobs             json.RawMessage    `json:"logprobs"`
	TopLogprobs          *int               `json:"top_logprobs"`
	PromptLogprobs       *int               `json:"prompt_logprobs"`
	ReturnTokenIDs       bool               `json:"return_token_ids"`
	AddGenerationPrompt  *bool              `json:"add_generation_prompt"`
	ContinueFinalMessage bool               `json:"continue_final_message"`
	AddSpecialTokens     *bool              `json:"add_special_tokens"`
	Tools                []wireTool         `json:"tools"`
	ToolChoice           json.RawMessage    `json:"tool_choice"`
	ResponseFormat       *responseFormat    `json:"response_format"`
	StructuredOutputs    *structured        `json:"structured_outputs"`
	CacheSalt            *string            `json:"cache_salt"`
	Priority             int64              `json:"priority"`

	prompts []promptInput // what checkSchema has made of Prompt
	native  *native       // what SGLang's /generate asks beside
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
	Continuous   bool `json:"continuous_usage_stats"`
	anywhere     bool // fits requests that do not stream, too
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type structured struct {
	JSON       json.RawMessage `json:"json"`
	Regex      *string         `json:"regex"` // the simulator does not keep to it
	Choice     []string        `json:"choice"`
	JSONObject bool            `json:"json_object"`
}

// check holds what vLLM refuses of the kinds of constraints.
func (s *structured) check() *apiError {
	kinds := 0
	for _, given := range []bool{!isNull(s.JSON), s.Regex != nil, s.Choice != nil, s.JSONObject} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return refused("You must use one kind of structured outputs constraint but none are specified: {'json': None, 'regex': None, 'choice': None, 'grammar': None, " +
			"'json_object': None, 'disable_any_whitespace': False, 'disable_additional_properties': False, 'whitespace_pattern': None, 'structural_tag': None, " +
			"'_backend': None, '_backend_was_auto': False}")
	case kinds > 1:
		return invalid("You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').", "structured_outputs", "")
	}
	return nil
}

type wireTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

type wireMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// text returns the message's text; only text parts are known.
func (m *wireMessage) text() (string, *apiError) {
	if isNull(m.Content) {
		return "", nil
	}
	var s string
	if unmarshal(m.Content, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := unmarshal(m.Content, &parts); err != nil {
		return "", malformed("string_type", "body.messages.content", "Input should be a valid string")
	}
	var b strings.Builder
	for i, p := range parts {
		if p.Type != "text" {
			return "", errTextOnly
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// stopList reads a string or a list of strings.
func stopList(raw json.RawMessage) ([]string, *apiError) {
	if isNull(raw) {
		return nil, nil
	}
	list := make([]string, 1)
	if json.Unmarshal(raw, &list[0]) != nil && json.Unmarshal(raw, &list) != nil {
		return nil, malformed("string_type", "body.stop", "Input should be a valid string").also("list_type", "body.stop", "Input should be a valid list")
	}
	if slices.Contains(list, "") {
		return nil, refused("stop cannot contain an empty string.")
	}
	return list, nil
}

// promptInput is one prompt of /v1/completions: text or ids.
type promptInput struct {
	text  string
	ids   []int32
	asIDs bool
}

// promptList reads the four shapes of the prompt field.
func promptList(raw json.RawMessage) ([]promptInput, *apiError) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []promptInput{{text: s}}, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		out := make([]promptInput, len(list))
		for i, t := range list {
			out[i].text = t
		}
		return out, nil
	}
	var ids []int32
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		return []promptInput{{ids: ids, asIDs: true}}, natural(ids, "")
	}
	var many [][]int32
	if json.Unmarshal(raw, &many) == nil && len(many) > 0 {
		out := make([]promptInput, len(many))
		for i, t := range many {
			out[i] = promptInput{ids: t, asIDs: true}
			if err := natural(t, strconv.Itoa(i)+"."); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if string(raw) == "[]" {
		return nil, refused("You must pass at least one prompt")
	}
	return nil, refused("prompt should be a non-empty string, list of strings, list of token ids or list of lists of token ids.")
}

// natural refuses negative token ids; at is where the list stands in its parent.
func natural(ids []int32, at string) *apiError {
	for i, id := range ids {
		if id < 0 {
			return malformed("greater_than_equal", fmt.Sprintf("body.prompt.%s%d", at, i), "Input should be greater than or equal to 0")
		}
	}
	return nil
}

// readWire reads a body of any of the routes.
func readWire(body []byte, a api) (*wireRequest, *apiError) {
	if a == apiNative {
		return readNative(body)
	}
	var w wireRequest
	return &w, decode(body, &w)
}
