package answer

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Form is the form of an answer in one piece, or of a stream's events, where equal ones in a row count once: members,
// nulls, kinds of values, and the values of some. Two engines whose answers to a request have the same form are alike to a
// client that reads no text.
func Form(body string) string {
	var list []string
	for _, part := range strings.Split(strings.TrimSpace(body), "\n\n") {
		f := part
		var v any
		if part = strings.TrimPrefix(part, "data: "); json.Unmarshal([]byte(part), &v) == nil {
			f = formOf("", v)
		}
		if len(list) == 0 || list[len(list)-1] != f {
			list = append(list, f)
		}
	}
	return strings.Join(list, "\n")
}

// valued are the members whose values count.
var valued = []string{"object", "finish_reason", "role", "type", "code", "param", "message", "owned_by", "detail", "max_model_len"}

// input is what vLLM shows of a bad body.
var input = regexp.MustCompile(`, 'input': (?:'[^']*'|[^,}]*)|, 'ctx': \{[^}]*\}`)

func formOf(name string, v any) string {
	switch at := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(at)) {
			shown := key
			if name == "prompt_logprobs" || name == "top_logprobs" && at["token"] == nil {
				shown = "*" // ids or tokens
			}
			if p := shown + ":" + formOf(key, at[key]); !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		var parts []string
		for _, e := range at {
			if p := formOf(name, e); !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
		slices.Sort(parts)
		return "[" + strings.Join(parts, " ") + "]"
	case nil:
		return "null"
	case string:
		if slices.Contains(valued, name) {
			return input.ReplaceAllString(at, "")
		}
		return "text"
	case float64:
		if slices.Contains(valued, name) {
			return fmt.Sprint(at)
		}
	}
	return fmt.Sprintf("%T", v)
}
