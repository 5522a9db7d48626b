package vllmsim

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	hiChat = `"model":"sim","messages":[{"role":"user","content":"hi"}],"temperature":0`
)

// questioned is what a server is asked.
type questioned struct{ name, method, path, body string }

// engineRequests are asked of every engine; what each of them answers is in testdata/engines.
var engineRequests = []questioned{
	{"what it is", "GET", "/v1/models", ""},
	{"its version", "GET", "/version", ""},
	{"its server", "GET", "/server_info", ""},
	{"its health", "GET", "/health", ""},
	{"a chat", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":3}`},
	{"the newer name of the limit", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":9,"max_completion_tokens":3}`},
	{"a chat with logprobs", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":2,"logprobs":true,"top_logprobs":2}`},
	{"logprobs without alternatives", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":2,"logprobs":true,"top_logprobs":0}`},
	{"a chat as a stream", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":1}`},
	{"token ids and a score", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":2,"return_token_ids":true,"prompt_logprobs":0}`},
	{"a chat to go on from", "POST", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The harbor"}],"temperature":0,"max_tokens":3}`},
	{"a chat to go on from, said so", "POST", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The harbor"}],"temperature":0,"max_tokens":3,"add_generation_prompt":false,"continue_final_message":true}`},
	{"a tool", "POST", "/v1/chat/completions", `{` + hiChat + `,"tool_choice":"required",` + tools + `}`},
	{"a completion", "POST", "/v1/completions", `{"model":"sim","prompt":"The harbor","temperature":0,"max_tokens":3,"logprobs":1}`},
	{"a completion as a stream", "POST", "/v1/completions", `{"model":"sim","prompt":"The harbor","temperature":0,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`},
	{"a completion of ids", "POST", "/v1/completions", `{"model":"sim","prompt":[0,40,41],"temperature":0,"max_tokens":3}`},
	{"an echo with logprobs", "POST", "/v1/completions", `{"model":"sim","prompt":[0,40,41],"temperature":0,"max_tokens":1,"echo":true,"logprobs":0}`},
	{"scores in SGLang's way", "POST", "/generate", `{"input_ids":[0,40,41],"sampling_params":{"max_new_tokens":0},"return_logprob":true,"logprob_start_len":0}`},
	{"ids of a text", "POST", "/tokenize", `{"model":"sim","prompt":"The harbor"}`},
	{"ids of a chat", "POST", "/tokenize", `{"model":"sim","messages":[{"role":"user","content":"hi"}]}`},
	{"a text of ids", "POST", "/detokenize", `{"model":"sim","tokens":[40,41]}`},
	{"another model", "POST", "/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"hi"}],"max_tokens":1,"temperature":0}`},
	{"a chat that is too long", "POST", "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"` + strings.Repeat("The harbor keeps the garden. ", 60) + `"}],"max_tokens":2,"temperature":0}`},
	{"an answer that is too long", "POST", "/v1/chat/completions", `{` + hiChat + `,"max_tokens":1000,"stop":" "}`},
	{"no chat", "POST", "/v1/chat/completions", `{"model":"sim"}`},
	{"no JSON", "POST", "/v1/chat/completions", `{`},
	{"a wrong method", "GET", "/v1/chat/completions", ""},
	{"no such route", "GET", "/v1/nothing", ""},
	{"metrics", "GET", "/metrics", ""},
}

// engineVolatile is what differs from run to run.
var engineVolatile = regexp.MustCompile(`("(?:created|prompt_ms|predicted_ms)":)[0-9.e+-]+|("expires_at":)"[^"]*"|((?:chatcmpl-tool|modelperm)-)[0-9a-f]+|("id":"(?:|chatcmpl-|cmpl-))[0-9a-f]{32}`)

// answers asks a server and writes down what it is asked and what it answers.
func answers(t *testing.T, s *Server, requests []questioned) string {
	t.Helper()
	var b strings.Builder
	for _, q := range requests {
		status, answer := do(t, s, q.method, q.path, q.body)
		if q.path == "/metrics" && s.vllm() {
			answer = "(metrics_v1.txt)" // full of times
		}
		fmt.Fprintf(&b, "# %s\n%s %s %s\n%d\n%s\n\n", q.name, q.method, q.path, q.body, status, strings.TrimSpace(answer))
	}
	return engineVolatile.ReplaceAllString(b.String(), "$1$2$3${4}1")
}

func TestEachEngineAnswersInItsOwnWire(t *testing.T) {
	for _, name := range Engines() {
		t.Run(name, func(t *testing.T) {
			s := Start(t, Options{Engine: name, Seed: 1, TimeScale: fast, MaxModelLen: 256})
			matches(t, "engines/"+name+".txt", answers(t, s, engineRequests))
		})
	}
}

// testdata/engines/vllm-script.txt has more requests: fields, streams, scores, calls, refusals and faults, in this order, each
// with the answer of a simulated vLLM. The form of such answers is held to recordings by TestAnswersHaveTheFormOfTheRecordedOnes.
func TestAVLLMAnswersTheScriptAsItIsWritten(t *testing.T) {
	const file = "engines/vllm-script.txt"
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var requests []questioned
	for _, block := range strings.Split(strings.TrimPrefix(string(text), "# "), "\n\n# ") {
		lines := strings.SplitN(block, "\n", 3)
		words := strings.SplitN(lines[1], " ", 3)
		requests = append(requests, questioned{lines[0], words[0], words[1], words[2]})
	}
	s := Start(t, Options{Seed: 6, TimeScale: fast, MaxModelLen: 256, PromptTokensDetails: true})
	matches(t, file, answers(t, s, requests))
}
