package engines

import (
	"fmt"
	"strings"
)

// request is a kind of request that is compared.
type request struct {
	api, kind string
	members   string // JSON members, without model, stream and temperature
	chat      string // of APIs that the gateway translates: the members of the same question as a chat completion
	only      string // the one kind of engine that can; "" is all
}

// paths of the APIs.
var paths = map[string]string{"chat": "/v1/chat/completions", "completions": "/v1/completions", "messages": "/v1/messages", "responses": "/v1/responses"}

// body is the request for a model. Streams of chat completions and completions tell their usage.
func (rq *request) body(model string, stream bool) string {
	return rq.write(rq.api, rq.members, model, stream)
}

// asChat is the same question as a chat completion.
func (rq *request) asChat(model string, stream bool) string {
	return rq.write("chat", rq.chat, model, stream)
}

func (rq *request) write(api, members, model string, stream bool) string {
	if !strings.Contains(members, `"temperature"`) {
		members += `,"temperature":0`
	}
	if stream {
		members += `,"stream":true`
		if (api == "chat" || api == "completions") && !strings.Contains(members, `"stream_options"`) {
			members += `,"stream_options":{"include_usage":true}`
		}
	}
	return fmt.Sprintf(`{"model":%q,%s}`, model, members)
}

// long is a prompt above the window of 2048 tokens.
var long = strings.Repeat("the sky is blue and ", 700)

const (
	user    = `"messages":[{"role":"user","content":"%s"}],"max_tokens":%d`
	france  = `"messages":[{"role":"user","content":"What is the capital of France?"}],"max_tokens":16`
	weather = `{"type":"object","properties":{"city":{"type":"string","enum":["Paris","Rome"]}},"required":["city"],"additionalProperties":false}`
	tool    = `{"type":"function","function":{"name":"weather","description":"Tells the weather","parameters":` + weather + `}}`
	schema  = `"response_format":{"type":"json_schema","json_schema":{"name":"place","strict":true,"schema":` + weather + `}}`
)

// requests are the kinds that are compared. Each is asked whole and streamed.
var requests = []request{
	{api: "chat", kind: "plain", members: fmt.Sprintf(user, "Why is the sky blue?", 24)},
	{api: "chat", kind: "plain", members: fmt.Sprintf(user, "Write one sentence about snow.", 32)},
	{api: "chat", kind: "plain", members: `"messages":[{"role":"user","content":"Say hello in Japanese: 日本語 😀"}],"max_completion_tokens":16`},
	{api: "chat", kind: "one token", members: fmt.Sprintf(user, "What is 2+2?", 1)},
	{api: "chat", kind: "turns", members: `"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":"Who are you?"},{"role":"assistant","content":"A pirate."},{"role":"user","content":[{"type":"text","text":"And where is your ship?"}]}],"max_tokens":16`},
	{api: "chat", kind: "stop", members: fmt.Sprintf(user, "Count from one to ten in words.", 40) + `,"stop":[",","."]`},
	{api: "chat", kind: "stop", members: france + `,"stop":" la"`},
	{api: "chat", kind: "logprobs", members: france + `,"logprobs":true,"top_logprobs":3`},
	{api: "chat", kind: "n", members: france + `,"n":2`, only: VLLM}, // llama.cpp counts the tokens of one choice only, and is not asked for several,
	{api: "chat", kind: "sampling", members: france + `,"top_p":0.9,"presence_penalty":0.5,"frequency_penalty":0.2,"seed":7`},
	{api: "chat", kind: "sampling", members: france + `,"top_k":5,"min_p":0.05,"repetition_penalty":1.1`, only: VLLM},
	{api: "chat", kind: "sampling", members: france + `,"logit_bias":{"57":-100}`},
	{api: "chat", kind: "structured output", members: fmt.Sprintf(user, "Name a city as JSON.", 32) + `,` + schema},
	{api: "chat", kind: "structured output", members: fmt.Sprintf(user, "Answer yes or no: is snow cold?", 8) + `,"structured_outputs":{"choice":["yes","no"]}`, only: VLLM},
	{api: "chat", kind: "tools", members: fmt.Sprintf(user, "How is the weather in Rome?", 32) + `,"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"weather"}}`, only: VLLM},
	{api: "chat", kind: "tools", members: fmt.Sprintf(user, "How is the weather in Rome?", 32) + `,"tools":[` + tool + `],"tool_choice":"required"`},
	{api: "chat", kind: "tools", members: `"messages":[{"role":"user","content":"How is the weather in Rome?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"sunny"}],"max_tokens":16,"tools":[` + tool + `],"tool_choice":"none"`},
	{api: "chat", kind: "usage in each chunk", members: france + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, only: VLLM},
	{api: "chat", kind: "too long", members: fmt.Sprintf(user, long, 8)},
	{api: "chat", kind: "error", members: fmt.Sprintf(user, "Why?", 5000), only: VLLM},
	{api: "chat", kind: "error", members: france + `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"nonsense"}}}`},
	{api: "completions", kind: "plain", members: `"prompt":"The sky is blue because","max_tokens":24`},
	{api: "completions", kind: "plain", members: `"prompt":[504,6376,314],"max_tokens":16`},
	{api: "completions", kind: "list", members: `"prompt":["The sky is","The sea is"],"max_tokens":12`, only: VLLM},
	{api: "completions", kind: "stop", members: `"prompt":"One, two, three,","max_tokens":24,"stop":[" six"]`},
	{api: "completions", kind: "logprobs", members: `"prompt":"The sky is","max_tokens":8,"logprobs":2`},
	{api: "completions", kind: "n", members: `"prompt":"The sky is","max_tokens":8,"n":2`, only: VLLM},
	{api: "completions", kind: "echo", members: `"prompt":"The sky is","max_tokens":8,"echo":true`, only: VLLM},
	{api: "completions", kind: "too long", members: `"prompt":"` + long + `","max_tokens":8`},
	{api: "messages", kind: "plain", members: fmt.Sprintf(user, "Write one sentence about rain.", 32), chat: fmt.Sprintf(user, "Write one sentence about rain.", 32)},
	{api: "messages", kind: "stop", members: fmt.Sprintf(user, "Count from one to ten in words.", 40) + `,"stop_sequences":["."]`, chat: fmt.Sprintf(user, "Count from one to ten in words.", 40) + `,"stop":["."]`},
	{
		api: "messages", kind: "tools", members: fmt.Sprintf(user, "How is the weather in Rome?", 32) + `,"tools":[{"name":"weather","description":"Tells the weather","input_schema":` + weather + `}],"tool_choice":{"type":"any"}`,
		chat: fmt.Sprintf(user, "How is the weather in Rome?", 32) + `,"tools":[` + tool + `],"tool_choice":"required"`,
	},
	{
		api: "messages", kind: "turns", members: `"system":"You are a pirate.",` + fmt.Sprintf(user, "Who are you?", 16),
		chat: `"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":"Who are you?"}],"max_tokens":16`,
	},
	{api: "responses", kind: "plain", members: `"input":"Write one sentence about gold.","max_output_tokens":32`, chat: fmt.Sprintf(user, "Write one sentence about gold.", 32)},
	{
		api: "responses", kind: "turns", members: `"instructions":"You are a pirate.","input":[{"role":"user","content":[{"type":"input_text","text":"Who are you?"}]}],"max_output_tokens":16`,
		chat: `"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":"Who are you?"}],"max_tokens":16`,
	},
	{
		api: "responses", kind: "structured output", members: `"input":"Name a city as JSON.","max_output_tokens":32,"text":{"format":{"type":"json_schema","name":"place","strict":true,"schema":` + weather + `}}`,
		chat: fmt.Sprintf(user, "Name a city as JSON.", 32) + `,` + schema,
	},
	{
		api: "responses", kind: "tools", members: `"input":"How is the weather in Rome?","max_output_tokens":32,"tools":[{"type":"function","name":"weather","description":"Tells the weather","parameters":` + weather + `}],"tool_choice":"required"`,
		chat: fmt.Sprintf(user, "How is the weather in Rome?", 32) + `,"tools":[` + tool + `],"tool_choice":"required"`,
	},
}
