package engines

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	reader "github.com/foregate/foregate/loadtest/answer"
)

const (
	okay    = `"messages":[{"role":"user","content":"Say OK."}]`
	prompt  = `"prompt":"One two three"`
	format  = `{"type":"json_schema","json_schema":{"name":"x","schema":` + weather + `}}`
	offered = `"tools":[` + tool + `]`
)

// overlong is beyond the window of 2048 tokens.
var overlong = strings.Repeat("a b ", 1100)

// sampled are members that chats and completions share; each is asked of both, whole and streamed.
var sampled = []string{
	`"max_tokens":1`, `"max_tokens":3`, `"max_tokens":3,"temperature":1,"seed":7,"top_p":0.5`,
	`"max_tokens":16,"stop":"m"`, `"max_tokens":16,"stop":["m","e"]`, `"max_tokens":16,"stop":["m"],"include_stop_str_in_output":true`,
	`"max_tokens":3,"stop_token_ids":[3]`, `"max_tokens":4,"min_tokens":4,"ignore_eos":true`, `"max_tokens":3,"top_k":5,"min_p":0.1`,
	`"max_tokens":3,"repetition_penalty":1.1,"presence_penalty":0.5,"frequency_penalty":0.5`, `"max_tokens":3,"logit_bias":{"57":-100}`,
	`"max_tokens":2,"return_token_ids":true`, `"max_tokens":2,"skip_special_tokens":false`, `"max_tokens":2,"user":"me","priority":0`,
	`"max_tokens":2,"request_id":"mine"`, `"max_tokens":2,"cache_salt":"salt"`, `"max_tokens":2,"unknown_member":1`,
	`"max_tokens":4,"structured_outputs":{"choice":["yes","no"]}`, `"max_tokens":8,"structured_outputs":{"regex":"[a-c]{3}"}`,
	`"max_tokens":2,"response_format":{"type":"json_object"}`, `"max_tokens":24,"response_format":` + format, `"max_tokens":2,"response_format":{"type":"text"}`,
	// what vLLM refuses
	`"max_tokens":0`, `"max_tokens":-1`, `"max_tokens":5000`, `"max_tokens":"two"`, `"max_tokens":1,"temperature":-1`, `"max_tokens":1,"temperature":"warm"`,
	`"max_tokens":1,"top_p":0`, `"max_tokens":1,"top_p":2`, `"max_tokens":1,"top_k":-5`, `"max_tokens":1,"min_p":2`, `"max_tokens":1,"presence_penalty":3`,
	`"max_tokens":1,"frequency_penalty":-3`, `"max_tokens":1,"repetition_penalty":0`, `"max_tokens":1,"n":0`, `"max_tokens":1,"n":2`, `"max_tokens":1,"n":"two"`,
	`"max_tokens":1,"seed":"x"`, `"max_tokens":1,"stop":7`, `"max_tokens":1,"stop":""`, `"max_tokens":1,"logit_bias":{"x":1}`, `"max_tokens":1,"logit_bias":{"999999":1}`,
	`"max_tokens":1,"prompt_logprobs":-2`, `"max_tokens":1,"prompt_logprobs":40`, `"max_tokens":1,"priority":7`, `"max_tokens":1,"min_tokens":5`,
	`"max_tokens":1,"response_format":{"type":"nonsense"}`, `"max_tokens":1,"response_format":{"type":"json_schema"}`,
	`"max_tokens":1,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"nonsense"}}}`,
	`"max_tokens":1,"structured_outputs":{"regex":"("}`, `"max_tokens":1,"structured_outputs":{}`, `"max_tokens":1,"structured_outputs":{"choice":["a"],"regex":"b"}`,
	`"max_tokens":1,"stream_options":{"include_usage":true}`,
}

// chats are further members of chats, each whole and streamed.
var chats = []string{
	okay + `,"max_tokens":2,"logprobs":true`, okay + `,"max_tokens":2,"logprobs":true,"top_logprobs":3`, okay + `,"max_tokens":2,"logprobs":true,"top_logprobs":0`,
	okay + `,"max_tokens":2,"logprobs":true,"top_logprobs":2,"return_tokens_as_token_ids":true`, okay + `,"max_tokens":1,"top_logprobs":2`,
	okay + `,"max_tokens":1,"logprobs":true,"top_logprobs":50`, okay + `,"max_tokens":1,"logprobs":true,"top_logprobs":-3`,
	okay + `,"max_completion_tokens":2`, okay + `,"max_tokens":1,"prompt_logprobs":1`, okay + `,"max_tokens":1,"prompt_logprobs":0`,
	okay + `,"max_tokens":8,` + offered, okay + `,"max_tokens":8,"tool_choice":"none",` + offered, okay + `,"max_tokens":128,"tool_choice":"required",` + offered,
	okay + `,"max_tokens":128,"tool_choice":{"type":"function","function":{"name":"weather"}},` + offered, okay + `,"max_tokens":8,"tool_choice":"auto",` + offered,
	okay + `,"max_tokens":8,"tool_choice":{"type":"function","function":{"name":"nobody"}},` + offered, okay + `,"max_tokens":8,"tool_choice":"required"`, okay + `,"max_tokens":8,"tools":[]`,
	okay + `,"max_tokens":2,"echo":true`, okay + `,"max_tokens":2,"continue_final_message":true`,
	`"messages":[{"role":"user","content":"Say OK."},{"role":"assistant","content":"I am"}],"continue_final_message":true,"add_generation_prompt":false,"max_tokens":2`,
	`"messages":[{"role":"user","content":"Say OK."},{"role":"assistant","content":"I am"}],"continue_final_message":true,"add_generation_prompt":false,"echo":true,"max_tokens":2`,
	`"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":[{"type":"text","text":"Who"},{"type":"text","text":"are you?"}]}],"max_tokens":2`,
	`"messages":[{"role":"developer","content":"Be short."},{"role":"user","name":"bob","content":"Who?"}],"max_tokens":2`,
	`"messages":[{"role":"user","content":"How?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"sunny"}],"max_tokens":2`,
	`"messages":[],"max_tokens":1`, `"messages":"hello","max_tokens":1`, `"messages":[{"role":"user"}],"max_tokens":1`, `"messages":[{"role":"nobody","content":"Hi"}],"max_tokens":1`,
	`"messages":[{"content":"Hi"}],"max_tokens":1`, `"messages":[{"role":"user","content":5}],"max_tokens":1`, `"messages":[{"role":"user","content":""}],"max_tokens":1`,
	`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}],"max_tokens":1`,
	`"max_tokens":1`, `"messages":[{"role":"user","content":"` + overlong + `"}],"max_tokens":1`, okay + `,"max_tokens":2,"chat_template_kwargs":{"x":1}`, okay + `,"max_tokens":1,"chat_template":"x"`,
	okay + `,"max_tokens":2,"reasoning_effort":"low"`, okay + `,"max_tokens":2,"parallel_tool_calls":false`, okay,
}

// texts are further members of completions, each whole and streamed.
var texts = []string{
	prompt + `,"max_tokens":2,"logprobs":0`, prompt + `,"max_tokens":2,"logprobs":2`, prompt + `,"max_tokens":1,"logprobs":50`, prompt + `,"max_tokens":1,"logprobs":-2`,
	prompt + `,"max_tokens":2,"echo":true`, prompt + `,"max_tokens":1,"echo":true,"logprobs":1`, prompt + `,"max_tokens":0,"echo":true,"logprobs":1`, prompt + `,"max_tokens":1,"prompt_logprobs":1`,
	prompt + `,"max_tokens":1,"suffix":"end"`, prompt + `,"max_tokens":2,"best_of":2`, `"prompt":[57,253],"max_tokens":2`,
	`"prompt":"","max_tokens":1`, `"prompt":[],"max_tokens":1`, `"prompt":7,"max_tokens":1`, `"prompt":[999999],"max_tokens":1`,
	`"max_tokens":1`, `"prompt":"` + overlong + `","max_tokens":1`, prompt + `,"max_tokens":2,"return_tokens_as_token_ids":true,"logprobs":1`, prompt, prompt + `,"max_tokens":2,"truncate_prompt_tokens":2`,
}

// others are asked once each: also those whose chunks come in turns that differ each time. MODEL is the engine's model.
var others = []string{
	`POST /v1/completions {"model":"MODEL","prompt":[[57,253],[57]],"max_tokens":2}`, `POST /v1/completions {"model":"MODEL","prompt":["One","Two"],"max_tokens":2}`,
	`POST /v1/completions {"model":"MODEL",` + prompt + `,"max_tokens":2,"n":2}`, `POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":2,"n":2}`,
	`POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":1,"add_generation_prompt":false,"temperature":0}`,
	"GET /v1/models", "GET /version", "GET /health", "GET /v1/chat/completions", "POST /v1/nowhere {}", "POST /v1/rerank {}",
	`POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
	`POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
	`POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":2,"stream":true,"stream_options":{}}`,
	`POST /v1/chat/completions {"model":"MODEL",` + okay + `,"max_tokens":2,"stream":true,"logprobs":true,"top_logprobs":2,"return_token_ids":true,"stream_options":{"include_usage":true}}`,
	`POST /v1/completions {"model":"MODEL",` + prompt + `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
	`POST /v1/completions {"model":"MODEL",` + prompt + `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
	`POST /v1/completions {"model":"MODEL",` + prompt + `,"max_tokens":2,"stream":true,"logprobs":1,"return_token_ids":true,"stream_options":{"include_usage":true}}`,
	`POST /tokenize {"model":"MODEL",` + okay + `}`, `POST /tokenize {"model":"MODEL",` + prompt + `}`, `POST /tokenize {"model":"nobody",` + prompt + `}`, `POST /tokenize {}`,
	`POST /detokenize {"model":"MODEL","tokens":[57]}`, `POST /detokenize {}`, `POST /v1/chat/completions {"model":"nobody",` + okay + `}`,
	`POST /v1/completions {"model":"nobody",` + prompt + `}`, `POST /v1/chat/completions {`, `POST /v1/chat/completions []`, `POST /v1/chat/completions `, `POST /v1/completions "x"`,
	`POST /v1/chat/completions {` + okay + `,"max_tokens":1,"temperature":0}`,
}

// forms are the requests of which the form of the answer is recorded: METHOD path body.
func forms(model string) (all []string) {
	post := func(path, members string) {
		for _, more := range []string{"", `,"stream":true`} {
			temperature := `,"temperature":0`
			if strings.Contains(members, `"temperature"`) {
				temperature = ""
			}
			all = append(all, fmt.Sprintf(`POST %s {"model":%q,%s%s%s}`, path, model, members, temperature, more))
		}
	}
	for _, members := range sampled {
		post(paths["chat"], okay+","+members)
		post(paths["completions"], prompt+","+members)
	}
	for _, members := range chats {
		post(paths["chat"], members)
	}
	for _, members := range texts {
		post(paths["completions"], members)
	}
	for _, other := range others {
		all = append(all, strings.ReplaceAll(other, "MODEL", model))
	}
	return all
}

// formsOf asks an engine for all forms, and returns them as they are recorded.
func formsOf(ctx context.Context, url, model string) ([]reader.Recorded, error) {
	of := map[string][]string{}
	for _, q := range forms(model) {
		form, err := reader.AskForm(ctx, url, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		of[form] = append(of[form], q)
	}
	var all []reader.Recorded
	for _, form := range slices.Sorted(maps.Keys(of)) {
		all = append(all, reader.Recorded{Form: form, Of: of[form]})
	}
	return all, nil
}

// formsFile is where they are, in the folder of a release.
const formsFile = "forms.json"

// calling starts a vLLM that reads tool calls.
func calling(t *testing.T) *Engine {
	t.Helper()
	return Start(t, Options{Kind: VLLM, Model: VLLMTarget, Flags: []string{"--enable-auto-tool-choice", "--tool-call-parser", "hermes"}})
}

// TestTheRecordedFormsAreVLLMs holds the recording, which the simulator is held to, to the engine.
func TestTheRecordedFormsAreVLLMs(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an engine of its own, and asks for a minute and a half")
	}
	e := calling(t)
	all, err := reader.ReadRecorded(filepath.Join("..", "..", "testdata", "wire", release(t, e), formsFile))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, want := range all {
		for _, q := range want.Of {
			asked++
			got, err := reader.AskForm(t.Context(), e.URL, q)
			if err != nil || got != want.Form {
				t.Errorf("%.300s: %v\nhas the form %.2000s\nrecorded is  %.2000s", q, err, got, want.Form)
			}
		}
	}
	t.Logf("%d requests", asked)
}
