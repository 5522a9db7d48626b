package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// strippedFields never reach a backend as the client sent them.
var strippedFields = map[string]string{
	"priority":           `-9000000000000000000`,
	"request_id":         `"someone-elses"`,
	"session_id":         `"someone-elses"`,
	"cache_salt":         `"someone-elses"`,
	"kv_transfer_params": `{"do_remote_prefill":true,"remote_host":"169.254.169.254"}`,
	"ec_transfer_params": `{"remote_host":"169.254.169.254"}`,
	"vllm_xargs":         `{"a":1}`,
}

// refusedFields are answered with 400 when they ask for anything.
var refusedFields = map[string]string{
	"chat_template":        `"{{ messages }}"`,
	"chat_template_kwargs": `{"a":1}`,
	"documents":            `[{"title":"a","text":"b"}]`,
	"media_io_kwargs":      `{"video":{}}`,
	"mm_processor_kwargs":  `{"a":1}`,
	"prompt_logprobs":      `1`,
	"prompt_embeds":        `"AAAA"`,
	"echo":                 `true`,
	"return_prompt_text":   `true`,
	"return_token_ids":     `true`,
	"logprob_token_ids":    `[1]`,
	"use_beam_search":      `true`,
}

// surfaces are the ways by which a generation request reaches a backend.
var surfaces = []struct{ name, path, tier, stream string }{
	{"a judged chat", chat, "auto", `"stream":false`},
	{"a judged stream", chat, "auto", `"stream":true`},
	{"the draft", chat, "draft", `"stream":true`},
	{"the target", chat, "target", `"stream":false`},
	{"a completion", "/v1/completions", "auto", `"stream":false`},
	{"a completion of the target", "/v1/completions", "target", `"stream":true`},
}

func surfaceBody(path string, members ...string) string {
	if path == chat {
		return chatBody("llama-3", members...)
	}
	return `{"model":"llama-3","prompt":"hi"` + strings.Join(append([]string{""}, members...), ",") + `}`
}

func TestDangerousFieldsAreStrippedOrRefused(t *testing.T) {
	g := newGuarded(t)
	for _, s := range surfaces {
		for name, value := range refusedFields {
			for _, field := range []string{name, escaped(name)} {
				status, head, got := send(t, "POST", g.base+s.path, surfaceBody(s.path, s.stream, `"`+field+`":`+value), "X-Tier", s.tier)
				if status != 400 || !strings.Contains(got, `"param":"`+name+`"`) {
					t.Errorf("%s, %s: status %d: %s", s.name, field, status, got)
					continue
				}
				checkError(t, head, got, &refusal{kind: "invalid_request_error", code: "unsupported_parameter"})
			}
		}
	}
	g.untouched(t)
	for _, s := range surfaces {
		var members []string
		for name, value := range strippedFields {
			members = append(members, `"`+name+`":`+value)
		}
		members = append(members, s.stream, `"user":"kept \u00e9","top_k":7`)
		post(t, g.base+s.path, surfaceBody(s.path, members...), "X-Tier", s.tier)
		got := g.taken(t)
		for name, value := range strippedFields {
			if raw, ok := got[name]; ok && (name != "cache_salt" || string(raw) == value) { // the gateway's own salt is sent instead
				t.Errorf("%s: %s reached the backend: %v", s.name, name, got)
			}
		}
		if string(got["user"]) != `"kept \u00e9"` || string(got["top_k"]) != "7" {
			t.Errorf("%s: a harmless field was changed: %s", s.name, got)
		}
	}
}

// escaped writes a name's first letter as an escape: the same name to a parser.
func escaped(name string) string { return fmt.Sprintf(`\u%04x%s`, name[0], name[1:]) }

// taken is the one body that a backend received, by field.
func (g *guarded) taken(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	all := slices.Concat(g.draft.all(), g.target.all())
	g.draft.forget()
	g.target.forget()
	if len(all) != 1 {
		t.Fatalf("%d requests reached the backends, want 1", len(all))
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(all[0].body), &got); err != nil {
		t.Fatalf("what reached the backend is no JSON: %v: %s", err, all[0].body)
	}
	return got
}

func TestWhatTheTargetReceivesIsWhatTheClientSent(t *testing.T) {
	g := newGuarded(t)
	const sent = `{ "model" : "llama-3" ,"x_unknown":[1.50, 2e3,"\u00e9\ud83d\ude80"],
  "messages":[{"role":"user","content":"a\u0000b / \/ <é>","name":"n"}], "temperature":0.70 }`
	const want = `{"x_unknown":[1.50, 2e3,"\u00e9\ud83d\ude80"],"messages":[{"role":"user","content":"a\u0000b / \/ <é>","name":"n"}],"temperature":0.70,"model":"large"}`
	post(t, g.base+chat, sent, "X-Tier", "target")
	received := g.target.all()
	if len(received) != 1 {
		t.Fatalf("%d requests reached the target", len(received))
	}
	// Member order and the space around members are the gateway's own; every value is the client's.
	compact := strings.NewReplacer(" :", ":", " ,", ",", ",\n  ", ",", ", \"temperature", ",\"temperature").Replace(received[0].body)
	got := fieldsOf(t, compact)
	delete(got, "cache_salt") // the gateway's own
	if diff := cmp.Diff(fieldsOf(t, want), got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// fieldsOf takes a JSON object apart and keeps every value as it is written.
func fieldsOf(t *testing.T, object string) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &raw); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	out := map[string]string{}
	for name, value := range raw {
		out[name] = string(value)
	}
	return out
}

func TestAPassedThroughBodyIsTheClientsByteForByteButForTheModel(t *testing.T) {
	g := newGuarded(t)
	const head, tail = "{ \"prompt\" : \"\\u00e9 <x>\",\t\"n\":1.50,\n \"model\" :  ", " , \"z\":[ ] }\n"
	post(t, g.base+"/tokenize", head+`"llama\u002d3"`+tail)
	received := g.target.all()
	if len(received) != 1 || received[0].body != head+`"large"`+tail {
		t.Errorf("got %+v", received)
	}
}

func TestNothingOfTheClientsHeadersReachesABackendButIdAndTrace(t *testing.T) {
	g := newGuarded(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, s := range surfaces {
		post(t, g.base+s.path, surfaceBody(s.path, s.stream), "X-Tier", s.tier, "X-Request-ID", "mine", "Traceparent", trace,
			"Authorization", "Bearer secret", "Cookie", "a=b", "X-Tenant-ID", "acme", "X-Priority", "high", "X-RAG-Hash", "abc",
			"X-Identity", "x", "X-Forwarded-For", "1.2.3.4", "X-Vllm-Priority", "-5", "X-Data-Parallel-Rank", "3", "Proxy-Authorization", "x")
		for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
			for name := range r.header {
				if !slices.Contains([]string{"X-Request-Id", "Traceparent", "Content-Type", "Content-Length", "User-Agent"}, name) {
					t.Errorf("%s: header %s reached the backend: %v", s.name, name, r.header[name])
				}
			}
			if id := r.header.Get("X-Request-Id"); len(id) < 32 || strings.Contains(id, "mine") || r.header.Get("Traceparent") != trace {
				t.Errorf("%s: id %q, trace %q", s.name, r.header.Get("X-Request-Id"), r.header.Get("Traceparent"))
			}
		}
		g.draft.forget()
		g.target.forget()
	}
	post(t, g.base+chat, chatBody("llama-3"), "Traceparent", "00-zz-evil")
	for _, r := range slices.Concat(g.draft.all(), g.target.all()) {
		if r.header.Get("Traceparent") != "" {
			t.Errorf("a malformed trace reached the backend: %q", r.header.Get("Traceparent"))
		}
	}
}

// mediaParts are content that would make a backend fetch an address or decode a
// file of the client's choosing; %s stands for the address.
var mediaParts = []string{
	`{"type":"image_url","image_url":{"url":"%s"}}`,
	`{"type":"image_url","image_url":"%s"}`,
	`{"image_url":{"url":"%s"}}`,
	`{"type":"video_url","video_url":{"url":"%s"}}`,
	`{"type":"audio_url","audio_url":{"url":"%s"}}`,
	`{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`,
	`{"type":"file","file":{"file_id":"%s"}}`,
	`{"type":"input_image","image_url":"%s"}`,
	`{"ty\u0070e":"im\u0061ge_url","image_url":{"url":"%s"}}`,
	`{"type":"image_pil","image_pil":"%s"}`,
	`{"type":"image_embeds","image_embeds":"%s"}`,
	`{"type":"TEXT","image_url":{"url":"%s"}}`,
	`{"type":7,"image_url":{"url":"%s"}}`,
}

func TestMediaThatABackendWouldFetchIsRefused(t *testing.T) {
	var fetched atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(canary.Close)
	g := newGuarded(t)
	for _, part := range mediaParts {
		part = strings.Replace(part, "%s", canary.URL, 1)
		for _, role := range []string{"user", "system", "assistant", "tool"} {
			body := `{"model":"llama-3","messages":[{"role":"` + role + `","content":[{"type":"text","text":"hi"},` + part + `]}]}`
			status, head, got := send(t, "POST", g.base+chat, body)
			if status != 400 {
				t.Errorf("%s: status %d: %s", part, status, got)
				continue
			}
			checkError(t, head, got, &refusal{kind: "invalid_request_error", code: "unsupported_parameter"})
		}
	}
	for path, body := range map[string]string{
		"/v1/responses": `{"model":"llama-3","input":[{"role":"user","content":[{"type":"input_image","image_url":"` + canary.URL + `"}]}]}`,
		"/v1/messages":  `{"model":"llama-3","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"` + canary.URL + `"}}]}]}`,
		"/tokenize":     `{"model":"llama-3","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + canary.URL + `"}}]}]}`,
	} {
		if status, _, got := send(t, "POST", g.base+path, body); status != 400 {
			t.Errorf("%s: status %d: %s", path, status, got)
		}
	}
	g.untouched(t)
	if fetched.Load() > 0 {
		t.Errorf("the address was fetched %d times", fetched.Load())
	}
}
