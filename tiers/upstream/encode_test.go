package upstream

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// scan reads a request of a test.
func scan(t testing.TB, kind openai.Kind, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(kind, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	bodyChat   = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stop":["x"],"max_tokens":40,"temperature":0.7,"top_k":7,"seed":3}`
	bodyPrompt = `{"model":"m","prompt":"hi","max_completion_tokens":9}`
)

// TestEachCallIsWrittenAsEnginesReadIt holds the bytes of every kind of call.
func TestEachCallIsWrittenAsEnginesReadIt(t *testing.T) {
	c, p := scan(t, openai.Chat, bodyChat), scan(t, openai.Completion, bodyPrompt)
	first := int64(-10)
	all := engine.Terms{Model: "big", Salt: "s", Priority: &first}
	plain := engine.Terms{Model: "big"}
	question := openai.ScoreQuestion{Style: openai.ScoreCompletions, Model: "big", Prompt: []int32{1}, Draft: []int32{2, 3}, Top: 20, Salt: "s", Priority: &first}
	const (
		chat      = "/v1/chat/completions"
		completed = "/v1/completions"
		messages  = `{"messages":[{"role":"user","content":"hi"}],`
		sampling  = `"temperature":0.7,"top_k":7,"seed":3`
		terms     = `"cache_salt":"s","priority":-10`
		named     = `,"model":"big",` + terms // members that are edited stand behind those that are not
		usage     = `"stream_options":{"include_usage":true}`
		counted   = `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
		scored    = `{"model":"big","prompt":[1,2,3],"max_tokens":1,"temperature":0,"prompt_logprobs":20,"stream":false,` + terms + `}`
	)
	for name, tc := range map[string]struct {
		call       engine.Call
		path, body string
	}{
		"relay, streamed": {&engine.Relay{Terms: all, Request: c}, chat,
			messages + `"stream":true,"stop":["x"],"max_tokens":40,` + sampling + named + `,` + usage + `}`},
		"relay": {&engine.Relay{Terms: plain, Request: p}, completed, `{"prompt":"hi","max_completion_tokens":9,"model":"big"}`},
		"draft": {&engine.Draft{Terms: all, Request: c}, chat,
			messages + `"max_tokens":40,` + sampling + named + `,"stream":true,` + usage + `,"return_token_ids":true,"logprobs":true,"top_logprobs":5}`},
		"draft, counted": {&engine.Draft{Terms: plain, Request: p, Counted: true}, completed,
			`{"prompt":"hi","max_completion_tokens":9,"model":"big","stream":true,` + counted + `,"return_token_ids":true,"logprobs":5}`},
		"draft in one piece": {&engine.DraftWhole{Terms: all, Request: c}, chat,
			messages + `"stop":["x"],"max_tokens":40,` + sampling + named + `,"stream":false,"return_token_ids":true,"logprobs":true,"top_logprobs":5}`},
		"answer in one piece": {&engine.Answer{Terms: all, Request: c}, chat,
			messages + `"stop":["x"],"max_tokens":40,` + sampling + named + `,"stream":false}`},
		"continuation by ids": {&engine.ContinueIDs{Terms: all, Request: c, PromptIDs: []int32{1, 2}, IDs: []int32{3}, MaxTokens: 17}, completed,
			`{"model":"big","prompt":[1,2,3],"max_tokens":17,` + terms + `,` + sampling + `,"stream":true,"return_token_ids":true,` + counted + `}`},
		"continuation of a chat": {&engine.ContinueText{Terms: all, Request: c, Text: []byte(`so "far`), MaxTokens: 9}, chat,
			`{` + sampling + named + `,"stream":true,` + counted + `,"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so \"far"}],` +
				`"add_generation_prompt":false,"continue_final_message":true}`},
		"continuation of a completion": {&engine.ContinueText{Terms: plain, Request: p, Text: []byte(" you"), MaxTokens: 7}, completed,
			`{"model":"big","stream":true,` + counted + `,"max_tokens":7,"prompt":"hi you"}`},
		"continuation behind nothing": {&engine.ContinueText{Terms: plain, Request: p}, completed,
			`{"prompt":"hi","max_completion_tokens":9,"model":"big","stream":true,` + counted + `}`},
		"score": {&engine.Score{Question: question}, completed, scored},
		"judge": {&engine.Judge{Terms: all, Request: c, Answer: []byte("yes")}, chat,
			`{"model":"big","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"Is the previous answer correct, complete and in the requested format? Answer yes or no."}],` +
				`"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":5,"stream":false,` + terms + `}`},
		"tokenize a text":   {&engine.TokenizeText{Model: "big", Text: []byte("a b")}, "/tokenize", `{"model":"big","prompt":"a b","add_special_tokens":false}`},
		"tokenize a prompt": {&engine.TokenizePrompt{Model: "big", Request: c}, "/tokenize", `{"model":"big",` + messages[1:] + `"add_generation_prompt":true}`},
		"detokenize":        {&engine.Detokenize{Model: "big", IDs: []int32{1, 2}}, "/detokenize", `{"model":"big","tokens":[1,2]}`},
		"pass":              {&engine.Forward{Path: "/v1/embeddings", Body: []byte(`{"any":1}`)}, "/v1/embeddings", `{"any":1}`},
	} {
		path, body := encoded(tc.call)
		if path != tc.path || string(body) != tc.body {
			t.Errorf("%s: %s\n%s, want %s\n%s", name, path, body, tc.path, tc.body)
		}
		if !json.Valid(body) {
			t.Errorf("%s: no JSON", name)
		}
	}
}

// TestACallThatWasWrittenIsAsItWas: it may be sent again, and elsewhere.
func TestACallThatWasWrittenIsAsItWas(t *testing.T) {
	p := scan(t, openai.Completion, bodyPrompt)
	call := &engine.ContinueText{Terms: engine.Terms{Model: "big"}, Request: p, Text: []byte(" you"), MaxTokens: 7}
	_, first := encoded(call)
	_, again := encoded(call)
	if !bytes.Equal(first, again) || string(p.Body) != bodyPrompt || string(call.Text) != " you" {
		t.Errorf("%s, then %s of %s", first, again, p.Body)
	}
}

// TestAContinuationByIDsSamplesAsItsRequestDoes: its body is a new one, and what is not carried over is not meant.
func TestAContinuationByIDsSamplesAsItsRequestDoes(t *testing.T) {
	for _, name := range openai.SamplingFields {
		value := "1"
		switch name {
		case "stop_token_ids":
			value = "[7]"
		case "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens":
			value = "true"
		case "user":
			value = `"u"`
		}
		r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"`+name+`":`+value+`}`)
		_, body := encoded(&engine.ContinueIDs{Request: r, PromptIDs: []int32{1}, MaxTokens: 1})
		if !bytes.Contains(body, []byte(`,"`+name+`":`+value+`,`)) {
			t.Errorf("a continuation with %s: %s", name, body)
		}
	}
}
