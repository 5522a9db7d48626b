package answer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Recorded are requests whose answers have one form.
type Recorded struct {
	Form string   `json:"form"` // the status and the content type, and on the next lines the form of the body
	Of   []string `json:"of"`   // METHOD path body
}

// ReadRecorded reads a file of [Recorded].
func ReadRecorded(file string) (all []Recorded, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// AskForm asks a server METHOD path body, and returns the form of the answer as [Recorded] has it.
func AskForm(ctx context.Context, url, asked string) (string, error) {
	method, rest, _ := strings.Cut(asked, " ")
	path, body, _ := strings.Cut(rest, " ")
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or the error counts
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), Form(string(text))), err
}

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
