package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// mediaParts are content that would make a backend fetch an address or decode a
// file of the client's choosing; %s stands for the address.
var mediaParts = []string{
	`{"type":"image_url","image_url":{"url":"%s"}}`,
	`{"type":"image_url","image_url":"%s"}`,
	`{"image_url":{"url":"%s"}}`,
	`{"image_url":"%s"}`,
	`{"type":"text","uuid":"1","image_url":"%s"}`,
	`{"type":"text","text":"hi","uuid":"1","audio_url":"%s"}`,
	`{"type":"refusal","video_url":{"url":"%s"}}`,
	`{"type":null,"image_url":"%s"}`,
	`{"type":"video_url","video_url":{"url":"%s"}}`,
	`{"type":"audio_url","audio_url":{"url":"%s"}}`,
	`{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`,
	`{"type":"file","file":{"file_id":"%s"}}`,
	`{"type":"input_image","image_url":"%s"}`,
	`{"type":"image","source":{"type":"url","url":"%s"}}`,
	`{"type":"image","image":"%s"}`,
	`{"ty\u0070e":"im\u0061ge_url","image_url":{"url":"%s"}}`,
	`{"type":"image_pil","image_pil":"%s"}`,
	`{"type":"image_embeds","image_embeds":"%s"}`,
	`{"type":"TEXT","image_url":{"url":"%s"}}`,
	`{"type":7,"image_url":{"url":"%s"}}`,
}

// mediaHolders are requests by path that a part may stand in; %s stands for the part.
var mediaHolders = map[string][]string{
	"/v1/chat/completions": {
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi"},%s]}]`, `"messages":[{"role":"system","content":[%s]}]`,
		`"messages":[{"role":"assistant","content":[%s]}]`, `"messages":[{"role":"tool","content":[%s]}]`,
		`"messages":[{"role":"user","content":"hi"}],"input":[%s]`,
	},
	"/v1/completions": {`"prompt":"hi","input":[%s]`},
	"/v1/embeddings":  {`"input":[%s]`, `"messages":[{"role":"user","content":[%s]}]`},
	"/v1/responses":   {`"input":[{"role":"user","content":[%s]}]`, `"input":[{"type":"function_call_output","call_id":"c","output":[%s]}]`},
	"/v1/messages":    {`"messages":[{"role":"user","content":[%s]}]`, `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[%s]}]}]`},
	"/tokenize":       {`"messages":[{"role":"user","content":[%s]}]`},
	"/detokenize":     {`"tokens":[1],"messages":[{"role":"user","content":[%s]}]`},
	"/v1/rerank":      {`"query":"a","documents":[%s]`, `"query":{"content":[%s]},"documents":["b"]`},
	"/v1/score":       {`"text_1":%s,"text_2":["b"]`, `"data_1":"a","data_2":{"content":[%s]}`, `"queries":[%s],"items":["b"]`},
}

func TestMediaThatABackendWouldFetchIsRefused(t *testing.T) {
	var fetched atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(canary.Close)
	g := newGuarded(t)
	for path, holders := range mediaHolders {
		for i, holder := range holders {
			for j, part := range mediaParts {
				address := []string{canary.URL, "file:/etc/passwd", " " + canary.URL, "/etc/passwd.png"}[(i+j)%4]
				body := `{"model":"llama-3",` + fmt.Sprintf(holder, strings.Replace(part, "%s", address, 1)) + `}`
				status, head, got := send(t, "POST", g.base+path, body)
				if status != 400 || strings.Contains(got, `"param":null`) {
					t.Errorf("%s: status %d: %s: %s", path, status, got, body)
					continue
				}
				checkError(t, head, got, &refusal{kind: "invalid_request_error", code: "unsupported_parameter"})
			}
		}
	}
	g.untouched(t)
	if fetched.Load() > 0 {
		t.Errorf("the address was fetched %d times", fetched.Load())
	}
}

func TestARoutesAllowFieldsReachesTheScanOfEveryPath(t *testing.T) {
	backend := newRecorder(t)
	p := serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools:
  large: {model: large, backends: [%q]}
routes:
  - {model: open, target: large, allow_fields: [image_url, prompt_logprobs, chat_template_kwargs.style]}
  - {model: shut, target: large}
drain: {delay: 0s, grace: 2s}
`, backend.url))
	p.ready(t)
	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	for path, input := range map[string]string{
		chat:             `"messages":[{"role":"user","content":[` + image + `]}]`,
		"/v1/responses":  `"input":[{"role":"user","content":[` + image + `]}]`,
		"/v1/embeddings": `"messages":[{"role":"user","content":[` + image + `]}]`,
		"/v1/score":      `"data_1":"a","data_2":{"content":[` + image + `]}`,
	} {
		for _, more := range []string{``, `,"prompt_logprobs":1`, `,"chat_template_kwargs":{"style":"dry","enable_thinking":false}`} {
			post(t, p.base+path, `{"model":"open",`+input+more+`}`)
			took := backend.all()
			backend.forget()
			if len(took) != 1 || !strings.Contains(took[0].body, strings.TrimPrefix(more, ",")) || !strings.Contains(took[0].body, image) {
				t.Errorf("%s with %s: the backend got %+v", path, more, took)
			}
			if status, _, got := send(t, "POST", p.base+path, `{"model":"shut",`+input+more+`}`); status != 400 {
				t.Errorf("%s with %s of a route that lists nothing: %d: %s", path, more, status, got)
			}
		}
	}
	if took := backend.all(); len(took) > 0 {
		t.Errorf("the backend got %+v", took)
	}
}

func TestThinkingIsSwitchedByEveryClient(t *testing.T) {
	g := newGuarded(t)
	for _, kwargs := range []string{`{"enable_thinking":false}`, `{"enable_thinking":true}`, `{"thinking":false,"reasoning_effort":"low"}`} {
		post(t, g.base+chat, chatBody("llama-3", `"chat_template_kwargs":`+kwargs))
		if got := g.taken(t); string(got["chat_template_kwargs"]) != kwargs {
			t.Errorf("%s: the backend got %s", kwargs, got["chat_template_kwargs"])
		}
	}
	for kwargs, param := range map[string]string{
		`{"enable_thinking":"no"}`:                      "chat_template_kwargs.enable_thinking",
		`{"enable_thinking":false,"tokenize":true}`:     "chat_template_kwargs.tokenize",
		`{"chat_template":"{{ 1 }}"}`:                   "chat_template_kwargs.chat_template",
		`{"style":"dry"}`:                               "chat_template_kwargs.style",
		`{"\u0065nable_thinking":true,"documents":[1]}`: "chat_template_kwargs.documents",
	} {
		status, _, got := send(t, "POST", g.base+chat, chatBody("llama-3", `"chat_template_kwargs":`+kwargs))
		var said struct{ Error struct{ Param string } }
		if err := json.Unmarshal([]byte(got), &said); status != 400 || err != nil || said.Error.Param != param {
			t.Errorf("%s: %d: %s", kwargs, status, got)
		}
	}
	g.untouched(t)
}
