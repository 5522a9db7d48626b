package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

// ends are the last events of streams.
var ends = map[string]string{messagesPath: "message_stop", responsesPath: "response.completed"}

// answerOf is the text of an answer in its API's form, whole or streamed, and whether it has its end.
func answerOf(t *testing.T, path string, r reply) (text string, done bool) {
	t.Helper()
	parts, whole := []string{r.body}, !strings.HasPrefix(r.head.Get("Content-Type"), plainEvents)
	if !whole {
		parts = strings.Split(r.body, "\n\n")
	}
	for _, part := range parts {
		if _, data, found := strings.Cut(part, "data: "); found && !whole {
			part = data
		}
		done = done || part == "[DONE]" && path == chatPath
		var v struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct{ Message, Delta struct{ Content string } }
			Content []struct{ Text string }
			Output  []struct{ Content []struct{ Text string } }
		}
		if json.Unmarshal([]byte(part), &v) != nil {
			continue
		}
		done = done || whole || v.Type == ends[path] && v.Type != ""
		for _, c := range v.Choices {
			text += c.Message.Content + c.Delta.Content
		}
		for _, c := range v.Content {
			text += c.Text
		}
		for _, item := range v.Output {
			for _, c := range item.Content {
				text += c.Text
			}
		}
		var delta struct{ Text string }
		switch v.Type {
		case "content_block_delta":
			_ = json.Unmarshal(v.Delta, &delta)
		case "response.output_text.delta":
			_ = json.Unmarshal(v.Delta, &delta.Text)
		}
		text += delta.Text
	}
	return text, done
}

// asked is a greedy question in each form.
var asked = map[string]string{
	chatPath:      `{"model":"llama-3","temperature":0,"max_tokens":40,"messages":[{"role":"system","content":"be short"},{"role":"user","content":"tell me of %"}]}`,
	messagesPath:  `{"model":"llama-3","temperature":0,"max_tokens":40,"system":"be short","messages":[{"role":"user","content":"tell me of %"}]}`,
	responsesPath: `{"model":"llama-3","temperature":0,"max_output_tokens":40,"instructions":"be short","input":"tell me of %"}`,
}

// shapes is the first member that only an answer in the path's form has.
var shapes = map[string]string{chatPath: "chat.completion", messagesPath: `"stop_sequence":`, responsesPath: `"object":"response"`}

// inForm fails the test unless an answer has the form of its path and no other.
func inForm(t *testing.T, path string, r reply) {
	t.Helper()
	for other, mark := range shapes {
		if got := strings.Contains(strings.ReplaceAll(r.body, " ", ""), mark); got != (other == path) {
			t.Errorf("%s has the mark of %s: %v, in %s", path, other, got, r.body)
		}
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
				var said struct {
					ID string `json:"request_id"`
				}
				if err := json.Unmarshal([]byte(r.body), &said); err != nil || model == "none" && said.ID != want {
					t.Errorf("%s: the error has not the id %q of the header: %s", path, want, r.body)
				}
			}
		}
	}
}

func TestAnImageOfEachAPIReachesTheEngineAsOne(t *testing.T) {
	const data = "data:image/png;base64,AAAA"
	allowed := map[string][]string{chatPath: {"image_url"}, messagesPath: {"image"}, responsesPath: {"input_image"}}
	bodies := map[string]string{
		chatPath:      `{"model":"llama-3","max_tokens":4,"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"` + data + `"}}]}]}`,
		messagesPath:  `{"model":"llama-3","max_tokens":4,"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`,
		responsesPath: `{"model":"llama-3","max_output_tokens":4,"input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"` + data + `"}]}]}`,
	}
	for path, body := range bodies {
		for _, allow := range [][]string{nil, allowed[path]} {
			up := speaker(nil)
			b := limited(t, up.start(t), func(o *Options) { o.Scan.Allow = func(string) []string { return allow } }, identity.Tenant{ID: "acme"})
			r := b.to(t, path, "acme", body)
			if allow == nil {
				if r.status != http.StatusBadRequest || len(up.all()) > 0 {
					t.Errorf("%s, not allowed: %d %s", path, r.status, r.body)
				}
				continue
			}
			got, _ := json.Marshal(up.all()[0].body["messages"])
			const want = `[{"content":[{"text":"look","type":"text"},{"image_url":{"url":"` + data + `"},"type":"image_url"}],"role":"user"}]`
			if r.status != http.StatusOK || string(got) != want {
				t.Errorf("%s: %d, the engine got %s", path, r.status, got)
			}
		}
	}
}
