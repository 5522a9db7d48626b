package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/fields"
)

// strippedFields never reach a backend as the client sent them.
var strippedFields = map[string]string{
	"priority":                  `-9000000000000000000`,
	"request_id":                `"someone-elses"`,
	"rid":                       `"someone-elses"`,
	"session_id":                `"someone-elses"`,
	"conversation_id":           `"someone-elses"`,
	"routing_key":               `"someone-elses"`,
	"cache_salt":                `"someone-elses"`,
	"extra_key":                 `"someone-elses"`,
	"kv_transfer_params":        `{"do_remote_prefill":true,"remote_host":"169.254.169.254"}`,
	"ec_transfer_params":        `{"remote_host":"169.254.169.254"}`,
	"bootstrap_host":            `"169.254.169.254"`,
	"bootstrap_port":            `8998`,
	"bootstrap_room":            `[1]`,
	"bootstrap_pair_key":        `"a"`,
	"data_parallel_rank":        `1`,
	"routed_dp_rank":            `1`,
	"disagg_prefill_dp_rank":    `1`,
	"data_parallel_rank_decode": `1`,
	"vllm_xargs":                `{"a":1}`,
	"custom_labels":             `{"tenant":"someone-else"}`,
	"no_logs":                   `true`,
	"log_metrics":               `false`,
}

// refusedFields are answered with 400 when they ask for anything.
var refusedFields = map[string]string{
	"chat_template":              `"{{ messages }}"`,
	"chat_template_kwargs":       `"enable_thinking"`,
	"documents":                  `[{"title":"a","text":"b"}]`,
	"media_io_kwargs":            `{"video":{}}`,
	"mm_processor_kwargs":        `{"a":1}`,
	"prompt_logprobs":            `1`,
	"logprob_start_len":          `0`,
	"prompt_embeds":              `"AAAA"`,
	"echo":                       `true`,
	"stop_regex":                 `"(a+)+$"`,
	"return_prompt_text":         `true`,
	"enable_response_messages":   `true`,
	"return_token_ids":           `true`,
	"return_prompt_token_ids":    `true`,
	"logprob_token_ids":          `[1]`,
	"token_ids_logprob":          `[1]`,
	"use_beam_search":            `true`,
	"custom_logit_processor":     `"{\"callable\":\"80049525\"}"`,
	"custom_params":              `{"a":1}`,
	"logits_processors":          `["os.system"]`,
	"extra_args":                 `{"a":1}`,
	"lora_path":                  `"/tmp/evil"`,
	"return_hidden_states":       `true`,
	"return_routed_experts":      `true`,
	"session_params":             `{"id":"someone-elses"}`,
	"previous_response_id":       `"resp_someone-elses"`,
	"conversation":               `"conv_someone-elses"`,
	"background":                 `true`,
	"previous_input_messages":    `[{"role":"system"}]`,
	"input_embeds":               `[[0.5]]`,
	"positional_embed_overrides": `{"a":1}`,
	"features":                   `{"a":1}`,
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

// passedThrough are paths that pass through, with what a request to each holds.
var passedThrough = map[string]string{
	"/v1/embeddings": `"input":"hi"`,
	"/v1/responses":  `"input":"hi"`,
	"/v1/messages":   `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`,
	"/tokenize":      `"prompt":"hi"`,
	"/detokenize":    `"tokens":[1]`,
	"/v1/rerank":     `"query":"a","documents":["b"]`,
	"/v1/score":      `"text_1":"a","text_2":["b"]`,
}

func surfaceBody(path string, members ...string) string {
	if path == chat {
		return chatBody("llama-3", members...)
	}
	return `{"model":"llama-3","prompt":"hi"` + strings.Join(append([]string{""}, members...), ",") + `}`
}

func TestTheEndToEndTablesHaveEachFieldThatIsNotForwarded(t *testing.T) {
	for _, f := range fields.Table {
		_, isStripped := strippedFields[f.Name]
		_, isRefused := refusedFields[f.Name]
		if isStripped != (f.Verdict == fields.Stripped) || isRefused == isStripped {
			t.Errorf("%s is %s: among the stripped %v, among the refused %v", f.Name, f.Verdict, isStripped, isRefused)
		}
	}
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
	for path, input := range passedThrough {
		for name, value := range refusedFields {
			if name == "documents" && (path == "/v1/rerank" || path == "/v1/score") {
				continue // what is ranked
			}
			status, head, got := send(t, "POST", g.base+path, `{"model":"llama-3",`+input+`,"`+name+`":`+value+`}`)
			if status != 400 || !strings.Contains(got, `"param":"`+name+`"`) {
				t.Errorf("%s, %s: status %d: %s", path, name, status, got)
				continue
			}
			checkError(t, head, got, &refusal{kind: "invalid_request_error", code: "unsupported_parameter"})
		}
	}
	g.untouched(t)
	for path, input := range passedThrough {
		body := `{"model":"llama-3",` + input
		for name, value := range strippedFields {
			body += `,"` + name + `":` + value
		}
		post(t, g.base+path, body+`,"user":"kept"}`)
		got := g.taken(t)
		for name, value := range strippedFields {
			if raw, ok := got[name]; ok && (name != "cache_salt" || string(raw) == value) {
				t.Errorf("%s: %s reached the backend: %s", path, name, raw)
			}
		}
		if string(got["user"]) != `"kept"` {
			t.Errorf("%s: a harmless field was changed: %s", path, got)
		}
	}
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
