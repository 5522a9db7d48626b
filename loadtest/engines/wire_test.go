package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/tiers/dialect"
)

var record = flag.Bool("wire", false, "write the engines' answers to testdata/wire")

// exchanges are what [TestTheEnginesAnswersAreRecorded] asks, by the name of the file. MODEL is the engine's model. The
// texts are short, and as many tokens as the forms need.
var exchanges = map[string]string{
	"models":            "GET /v1/models",
	"version":           "GET /version",
	"health":            "GET /health",
	"metrics":           "GET /metrics",
	"props":             "GET /props",
	"tokenize":          `POST /tokenize {"model":"MODEL","prompt":"Hi there","content":"Hi there"}`,
	"tokenize-chat":     `POST /tokenize {"model":"MODEL","messages":[{"role":"user","content":"Hi"}]}`,
	"detokenize":        `POST /detokenize {"model":"MODEL","tokens":[57,253]}`,
	"apply-template":    `POST /apply-template {"messages":[{"role":"user","content":"Hi"}]}`,
	"chat":              chatOf(`"max_tokens":4`),
	"chat-n":            chatOf(`"max_tokens":2,"n":2,"temperature":1`),
	"chat-logprobs":     chatOf(`"max_tokens":2,"logprobs":true,"top_logprobs":2,"return_token_ids":true`),
	"chat-scored":       chatOf(`"max_tokens":1,"prompt_logprobs":1`),
	"chat-stop":         chatOf(`"max_tokens":16,"stop":["m"]`),
	"chat-clipped":      chatOf(`"max_tokens":2040,"min_tokens":0,"stop":["m"]`),
	"chat-tools":        chatOf(`"max_tokens":16,"tool_choice":{"type":"function","function":{"name":"f"}},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1]}},"required":["a"]}}}]`),
	"stream":            chatOf(`"max_tokens":3,"stream":true`),
	"stream-usage":      chatOf(`"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}`),
	"stream-so-far":     chatOf(`"max_tokens":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`),
	"stream-logprobs":   chatOf(`"max_tokens":2,"stream":true,"logprobs":true,"top_logprobs":2,"return_token_ids":true`),
	"stream-stop":       chatOf(`"max_tokens":16,"stream":true,"stop":["m"]`),
	"continued":         `POST /v1/chat/completions {"model":"MODEL","temperature":0,"max_tokens":3,"continue_final_message":true,"add_generation_prompt":false,"messages":[{"role":"user","content":"Say OK."},{"role":"assistant","content":"I am"}]}`,
	"completion":        completionOf(`"max_tokens":3`),
	"completion-ids":    `POST /v1/completions {"model":"MODEL","temperature":0,"prompt":[57,253],"max_tokens":2,"logprobs":1,"return_token_ids":true}`,
	"completion-stream": completionOf(`"max_tokens":2,"stream":true,"logprobs":1,"stream_options":{"include_usage":true}`),
	"completion-scored": completionOf(`"max_tokens":1,"prompt_logprobs":1`),
	"completion-echo":   completionOf(`"max_tokens":1,"echo":true,"logprobs":1`),
	"error-long":        `POST /v1/chat/completions {"model":"MODEL","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("one two ", 1100) + `"}]}`,
	"error-long-ids":    `POST /v1/completions {"model":"MODEL","max_tokens":1,"prompt":[` + strings.Repeat("57,", 2100) + `57]}`,
	"error-max-tokens":  chatOf(`"max_tokens":5000`),
	"error-model":       `POST /v1/chat/completions {"model":"nobody","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
	"error-json":        `POST /v1/chat/completions {"model":`,
	"error-field":       chatOf(`"max_tokens":1,"temperature":9`),
	"error-messages":    `POST /v1/chat/completions {"model":"MODEL","max_tokens":1}`,
	"error-path":        `POST /v1/rerank {"model":"MODEL"}`,
	"error-method":      "GET /v1/chat/completions",
}

func chatOf(members string) string {
	return `POST /v1/chat/completions {"model":"MODEL","temperature":0,"messages":[{"role":"user","content":"Say OK."}],` + members + `}`
}

func completionOf(members string) string {
	return `POST /v1/completions {"model":"MODEL","temperature":0,"prompt":"One two three",` + members + `}`
}

// changing are the parts of an answer that differ each time, and what is written in their place.
var changing = []struct {
	is *regexp.Regexp
	in string
}{
	{regexp.MustCompile(`"((?:chatcmpl|cmpl|chatcmpl-tool|modelperm|call)-|call_)[0-9A-Za-z]+"`), `"${1}1"`},
	{regexp.MustCompile(`"created":\d+`), `"created":1795219200`},
	{regexp.MustCompile(`(_ms|_per_second)":[0-9.e+-]+`), `$1":1.5`},
	{regexp.MustCompile(`"media_marker":"[^"]*"`), `"media_marker":"<__media__>"`},
	{regexp.MustCompile(`"(kind|id)":"[0-9A-Za-z]{32}"`), `"$1":"1"`},
	{regexp.MustCompile(`(date|Date): .*`), `$1: now`},
}

// TestTheEnginesAnswersAreRecorded writes testdata/wire (make wire). Each file is a request and its answer.
func TestTheEnginesAnswersAreRecorded(t *testing.T) {
	if !*record {
		t.Skip("make wire")
	}
	for _, kind := range []string{VLLM, LlamaCpp} {
		t.Run(kind, func(t *testing.T) {
			e := engine(t, kind+"-target")
			folder := filepath.Join("..", "..", "testdata", "wire", release(t, e))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			var asked sync.WaitGroup // all at once, so that the engine can compute them together
			for name, what := range exchanges {
				asked.Go(func() {
					r, text, err := wire(t.Context(), e, what)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if r == http.StatusNotFound && !strings.HasPrefix(name, "error") {
						return // a path of the other kind
					}
					if err := os.WriteFile(filepath.Join(folder, name+".txt"), text, 0o644); err != nil {
						t.Error(err)
					}
				})
			}
			asked.Wait()
			if kind == VLLM {
				recordForms(t, calling(t), filepath.Join(folder, formsFile))
			}
		})
	}
}

func recordForms(t *testing.T, e *Engine, file string) {
	t.Helper()
	all, err := formsOf(t.Context(), e.URL, e.Model)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// release names the folder of an engine's kind and version.
func release(t *testing.T, e *Engine) string {
	t.Helper()
	if e.Kind == LlamaCpp {
		return "llamacpp-b11549" // it tells no version of its own: .ci/engines/llamacpp.txt pins it
	}
	var v struct{ Version string }
	if err := askJSON(t.Context(), http.MethodGet, e.URL+"/version", "", &v); err != nil {
		t.Fatal(err)
	}
	return e.Kind + "-" + v.Version
}

// wire asks, and returns the status and the text of a recording: the request's line, its body, an empty line, the status
// with the content type, and the answer.
func wire(ctx context.Context, e *Engine, what string) (status int, text []byte, err error) {
	method, rest, _ := strings.Cut(strings.ReplaceAll(what, "MODEL", e.Model), " ")
	path, body, _ := strings.Cut(rest, " ")
	r, err := ask(ctx, method, e.URL+path, body)
	if err != nil {
		return 0, nil, err
	}
	if path == "/metrics" {
		r.body = readFamilies(e.Kind, r.body)
	}
	for _, c := range changing {
		r.body = c.is.ReplaceAllString(r.body, c.in)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n%s\n\n%d %s\n%s", method, path, body, r.status, r.head.Get("Content-Type"), r.body)
	return r.status, b.Bytes(), nil
}

// readFamilies are the lines of the families that the gateway reads.
func readFamilies(kind, page string) string {
	m := dialect.Of(dialect.Kind(kind)).Load.Metrics
	names := []string{m.CacheInfo, m.Tokens}
	for _, list := range [][]string{m.Usage, m.Running, m.Waiting, m.PromptTokens, m.GenerationTokens, m.PrefixQueries, m.PrefixHits, m.Preemptions, m.Iterations} {
		names = append(names, list...)
	}
	kept := map[string]bool{}
	for _, n := range names {
		kept[strings.TrimSuffix(n, "_count")] = true
	}
	var b strings.Builder
	for line := range strings.Lines(page) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if end := strings.IndexAny(name, " {\n"); end > 0 {
			name = name[:end]
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if kept[name] {
			b.WriteString(line)
		}
	}
	return b.String()
}
