package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// form is an API of clients: how one question is asked, and what an event of its streams says.
type form struct {
	path string
	body func(text string) string
	read func(e *ending, data string)
}

// forms are the APIs that the cascade answers as chats.
var forms = []form{
	{"/v1/chat/completions", func(text string) string {
		return `{"model":"m","stream":true,"max_tokens":100,"user":"` + text + `","messages":[{"role":"user","content":"` + text + `"}]}`
	}, readChatEvent},
	{messagesPath, func(text string) string {
		return `{"model":"m","stream":true,"max_tokens":100,"metadata":{"user_id":"` + text + `"},"messages":[{"role":"user","content":"` + text + `"}]}`
	}, readMessagesEvent},
	{responsesPath, func(text string) string {
		return `{"model":"m","stream":true,"max_output_tokens":100,"user":"` + text + `","input":"` + text + `"}`
	}, readResponsesEvent},
}

// ending is how a client saw an answer end.
type ending struct {
	text   string
	finish string
	done   bool
}

func readChatEvent(e *ending, data string) {
	if data == "[DONE]" {
		e.done = true
		return
	}
	var c struct {
		Choices []struct {
			Delta  struct{ Content string }
			Finish string `json:"finish_reason"`
		}
	}
	if json.Unmarshal([]byte(data), &c) == nil {
		for _, ch := range c.Choices {
			e.text += ch.Delta.Content
			e.finish += ch.Finish
		}
	}
}

func readMessagesEvent(e *ending, data string) {
	var v struct {
		Type  string
		Delta struct {
			Type, Text string
			StopReason string `json:"stop_reason"`
		}
	}
	if json.Unmarshal([]byte(data), &v) != nil {
		return
	}
	switch v.Type {
	case "content_block_delta":
		e.text += v.Delta.Text
	case "message_delta":
		e.finish += map[string]string{"end_turn": "stop"}[v.Delta.StopReason]
	case "message_stop":
		e.done = true
	}
}

func readResponsesEvent(e *ending, data string) {
	var v struct {
		Type     string
		Delta    string
		Response struct{ Status string }
	}
	if json.Unmarshal([]byte(data), &v) != nil {
		return
	}
	switch v.Type {
	case "response.output_text.delta":
		e.text += v.Delta
	case "response.completed":
		e.done = true
		e.finish += map[string]string{"completed": "stop"}[v.Response.Status]
	}
}

// textOf is the text of a whole answer in any form.
func textOf(t *testing.T, path, body string) string {
	t.Helper()
	var v struct {
		Choices []struct{ Message struct{ Content string } }
		Content []struct{ Type, Text string }
		Output  []struct{ Content []struct{ Type, Text string } }
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %s: %v", path, body, err)
	}
	var text strings.Builder
	switch path {
	case messagesPath:
		for _, c := range v.Content {
			text.WriteString(c.Text)
		}
	case responsesPath:
		for _, item := range v.Output {
			for _, c := range item.Content {
				text.WriteString(c.Text)
			}
		}
	default:
		for _, c := range v.Choices {
			text.WriteString(c.Message.Content)
		}
	}
	return text.String()
}

// asked is a greedy question in each form.
var asked = map[string]string{
	"/v1/chat/completions": `{"model":"llama-3","temperature":0,"max_tokens":40,"messages":[{"role":"system","content":"be short"},{"role":"user","content":"tell me of %"}]}`,
	messagesPath:           `{"model":"llama-3","temperature":0,"max_tokens":40,"system":"be short","messages":[{"role":"user","content":"tell me of %"}]}`,
	responsesPath:          `{"model":"llama-3","temperature":0,"max_output_tokens":40,"instructions":"be short","input":"tell me of %"}`,
}

// shapes is the first member that only an answer in the path's form has.
var shapes = map[string]string{"/v1/chat/completions": "chat.completion", messagesPath: `"stop_sequence":`, responsesPath: `"object":"response"`}

// inForm fails the test unless an answer has the form of its path and no other.
func inForm(t *testing.T, path string, r reply) {
	t.Helper()
	for other, mark := range shapes {
		if got := strings.Contains(strings.ReplaceAll(r.body, " ", ""), mark); got != (other == path) {
			t.Errorf("%s has the mark of %s: %v, in %s", path, other, got, r.body)
		}
	}
}

func TestAKeptAnswerServesEveryAPIInItsOwnFormAndNoOtherTenant(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, trustTenants(t))
	calls := int64(0)
	for first := range asked {
		ask := func(path, tenant, more string) reply {
			body := strings.ReplaceAll(asked[path], "%", strings.ReplaceAll(first, "/", " "))
			return b.to(t, path, tenant, strings.TrimSuffix(body, "}")+more+"}")
		}
		want := ask(first, "acme", "")
		calls++
		inForm(t, first, want)
		soon(t, "the answer is kept", func() bool { return int64(len(k.answers())) == calls })
		for path := range asked {
			r := ask(path, "acme", "")
			if r.status != http.StatusOK || r.head.Get("X-Cache") != "HIT" || textOf(t, path, r.body) != textOf(t, first, want.body) {
				t.Errorf("%s behind %s: %d %s %s", path, first, r.status, r.head.Get("X-Cache"), r.body)
			}
			inForm(t, path, r)
			stream := ask(path, "acme", `,"stream":true`)
			if text, done := answerOf(t, path, stream); stream.head.Get("X-Cache") != "HIT" || !done || text != textOf(t, first, want.body) {
				t.Errorf("the stream of %s behind %s: %q, %s", path, first, text, stream.body)
			}
		}
		if n := up.calls.Load(); n != calls {
			t.Fatalf("%d calls of the engine, want %d", n, calls)
		}
		if r := ask(first, "other", ""); r.head.Get("X-Cache") != "MISS" {
			t.Errorf("another tenant got %s", r.head.Get("X-Cache"))
		}
		calls++
		soon(t, "the other tenant's answer is kept", func() bool { return int64(len(k.answers())) == calls })
	}
}

func TestANameThatComesTwiceIsRefusedInEveryAPI(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme"})
	for path, body := range asked {
		for _, more := range []string{`,"temperature":1}`, `,"metadata":{"user_id":"a","user_id":"b"}}`} {
			r := b.to(t, path, "acme", strings.TrimSuffix(strings.ReplaceAll(body, "%", "x"), "}")+more)
			if r.status != http.StatusBadRequest || !strings.Contains(r.body, "duplicate") {
				t.Errorf("%s %s: %d %s", path, more, r.status, r.body)
			}
		}
	}
}

func TestARefusalNamesTheFieldOfItsOwnAPI(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) {
		o.Scan.Allow = func(string) []string { return []string{"image_url"} } // a chat's type of images, and neither of the others
	}, identity.Tenant{ID: "acme"})
	items := `{"model":"llama-3","input":[` + strings.Repeat(`{"role":"user","content":"x"},`, 3)
	deep := strings.Repeat(`{"a":`, 59) + `1` + strings.Repeat(`}`, 59) // 64 levels in the schema of a tool, which a chat has one deeper
	for _, c := range []struct{ path, body, param, message string }{
		{responsesPath, `{"model":"llama-3","input":[` + strings.Repeat(`{"role":"user","content":""},`, 4096) + `{"role":"user","content":""}]}`, "input", "There are more than 4096 messages."},
		{responsesPath, `{"model":"llama-3","input":"x","max_output_tokens":0}`, "max_output_tokens", "max_output_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"}, // the engine's words
		{responsesPath, `{"model":"llama-3","input":"x","max_output_tokens":9999999}`, "max_output_tokens", "max_output_tokens must be between 0 and 1048576, but is 9999999."},
		{responsesPath, items + `{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`, "input[3].content[0]",
			`input[3].content[0] (at byte 207) is a content part of type "input_image", which this gateway does not accept.`},
		{responsesPath, `{"model":"llama-3","input":"x","text":{"verbosity":{"a":{"image_url":"x"}}}}`, "text.verbosity.a.image_url",
			"text.verbosity.a.image_url must be a data: URI (data:image/TYPE;base64,…): a URL to be fetched is not accepted by this gateway."},
		{responsesPath, `{"model":"llama-3","max_output_tokens":1,"input":"x","tools":[{"type":"function","name":"f","parameters":` + deep + `}]}`, "", ""},
		{messagesPath, `{"model":"llama-3","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":` + deep + `}]}`, "", ""},
		{messagesPath, `{"model":"llama-3","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`, "",
			`messages[0].content[1] (at byte 181) is a content part of type "image", which this gateway does not accept.`},
		{messagesPath, `{"model":"llama-3","max_tokens":5,"messages":[{"role":"user","content":"x"}],"stop_sequences":[` + strings.Repeat(`"a",`, 16) + `"a"]}`, "", "stop_sequences has more than 16 strings."},
	} {
		r := b.to(t, c.path, "acme", c.body)
		var said struct {
			Error struct{ Param, Message string }
		}
		if err := json.Unmarshal([]byte(r.body), &said); err != nil || said.Error.Param != c.param || said.Error.Message != c.message || (r.status == http.StatusOK) != (c.message == "") {
			t.Errorf("%.300s: %d %s", c.body, r.status, r.body)
		}
	}
}

func TestARequestsIDIsWhereTheClientsOfItsAPILook(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme"})
	for path, body := range asked {
		for _, model := range []string{"llama-3", "none"} {
			for _, own := range []string{"", "mine"} {
				r := b.to(t, path, "acme", strings.ReplaceAll(body, "llama-3", model), "X-Request-Id", own)
				want := r.head.Get("X-Request-Id")
				if path != messagesPath {
					want = ""
				}
				if got := r.head.Get("Request-Id"); got != want || own != "" && r.head.Get("X-Request-Id") != own {
					t.Errorf("%s, %d: Request-Id %q, want %q", path, r.status, got, want)
				}
				if model == "none" && requestIDIn(t, r.body) != want {
					t.Errorf("%s: the error has not the id %q of the header: %s", path, want, r.body)
				}
			}
		}
	}
}

// requestIDIn returns the request's id that an error tells, "" for none.
func requestIDIn(t *testing.T, body string) string {
	t.Helper()
	var said struct {
		ID string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return said.ID
}

// answerOf is the text of an answer, whole or streamed, and whether it has its API's end.
func answerOf(t *testing.T, path string, r reply) (text string, done bool) {
	t.Helper()
	if !strings.HasPrefix(r.head.Get("Content-Type"), "text/event-stream") {
		return textOf(t, path, r.body), true
	}
	var e ending
	for _, f := range forms {
		for event := range strings.SplitSeq(r.body, "\n\n") {
			if _, data, ok := strings.Cut(event, "data: "); ok && f.path == path {
				f.read(&e, data)
			}
		}
	}
	return e.text, e.done
}

func TestAnImageOfEachAPIReachesTheEngineAsOne(t *testing.T) {
	const data = "data:image/png;base64,AAAA"
	allowed := map[string][]string{"/v1/chat/completions": {"image_url"}, messagesPath: {"image"}, responsesPath: {"input_image"}}
	bodies := map[string]string{
		"/v1/chat/completions": `{"model":"llama-3","max_tokens":4,"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"` + data + `"}}]}]}`,
		messagesPath:           `{"model":"llama-3","max_tokens":4,"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`,
		responsesPath:          `{"model":"llama-3","max_output_tokens":4,"input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"` + data + `"}]}]}`,
	}
	for path, body := range bodies {
		for missing := range 1 + len(allowed[path]) {
			allow := slices.Clone(allowed[path])
			if missing > 0 {
				allow = slices.Delete(allow, missing-1, missing)
			}
			up := newSpeaker(t)
			b := limited(t, up.URL, func(o *Options) { o.Scan.Allow = func(string) []string { return allow } }, identity.Tenant{ID: "acme"})
			r := b.to(t, path, "acme", body)
			if missing > 0 {
				if r.status != http.StatusBadRequest || up.calls.Load() > 0 {
					t.Errorf("%s, allowed %v: %d %s", path, allow, r.status, r.body)
				}
				continue
			}
			got, _ := json.Marshal(up.asked("messages"))
			const want = `[[{"content":[{"text":"look","type":"text"},{"image_url":{"url":"` + data + `"},"type":"image_url"}],"role":"user"}]]`
			if r.status != http.StatusOK || string(got) != want {
				t.Errorf("%s: %d, the engine got %s", path, r.status, got)
			}
		}
	}
}
