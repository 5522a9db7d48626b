package vllmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// left are the recordings that the simulator is not held to, and why.
var left = map[string]string{
	"chat-tools":      "the recorded engine had no parser of tool calls",
	"completion-echo": "the simulator has no echo",
	"metrics":         "TestMetricsOfTheRecordedEngineAreThere",
}

// testdata/wire has what vLLM answered. The same requests get answers of the same form here: the same members, nulls,
// chunks, statuses and texts of errors.
func TestAnswersHaveTheFormOfTheRecordedOnes(t *testing.T) {
	s := Start(t, Options{Model: "target", Seed: 6, TimeScale: fast, MaxModelLen: 2048})
	files, err := filepath.Glob("../../testdata/wire/vllm-*/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			if why := left[name]; why != "" {
				t.Skip(why)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asked, want, _ := strings.Cut(string(text), "\n\n")
			line, body, _ := strings.Cut(asked, "\n")
			method, path, _ := strings.Cut(line, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }() // it was read, or the test failed
			answer, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			head, recorded, _ := strings.Cut(strings.TrimPrefix(want, "\n"), "\n")
			if got := fmt.Sprintf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type")); got != head {
				t.Errorf("%s, recorded is %s", got, head)
			}
			if got, want := formsOf(t, string(answer)), formsOf(t, recorded); got != want {
				t.Errorf("the form is\n%s\nrecorded is\n%s", got, want)
			}
		})
	}
}

// formsOf are the forms of an answer, or of a stream's events, where equal ones in a row count once.
func formsOf(t *testing.T, body string) string {
	t.Helper()
	var list []string
	for _, part := range strings.Split(strings.TrimSpace(body), "\n\n") {
		if part = strings.TrimPrefix(part, "data: "); part == "[DONE]" || part == "" {
			list = append(list, part)
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(part), &v); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		if f := formOf("", v); len(list) == 0 || list[len(list)-1] != f {
			list = append(list, f)
		}
	}
	return strings.Join(list, "\n")
}

// valued are the members whose values count.
var valued = []string{"object", "finish_reason", "role", "type", "code", "param", "message", "owned_by", "detail", "max_model_len"}

// input is what the engine shows of a bad body, which the simulator leaves out.
var input = regexp.MustCompile(`, 'input': '[^']*'|, 'ctx': \{[^}]*\}`)

// formOf is the form of a value under a name: members, nulls, kinds of values, and the values of some.
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
