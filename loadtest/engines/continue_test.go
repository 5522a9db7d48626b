package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/process"
)

// api is how a client asks, and where the text of an answer is.
type api struct{ name, path, asks string }

// apis are those of clients. What they ask has places for model, question, tokens and stream.
var apis = []api{
	{"chat", "/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":%d,"temperature":0,"stream":%v}`},
	{"completions", "/v1/completions", `{"model":%q,"prompt":%q,"max_tokens":%d,"temperature":0,"stream":%v}`},
	{"messages", "/v1/messages", `{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":%d,"temperature":0,"stream":%v}`},
	{"responses", "/v1/responses", `{"model":%q,"input":%q,"max_output_tokens":%d,"temperature":0,"stream":%v}`},
}

// textOf is the text of an answer to any of them, whole or streamed.
func textOf(body string) (all string, err error) {
	parts := []string{body}
	if !strings.HasPrefix(strings.TrimSpace(body), "{") {
		parts, _ = events(body)
	}
	for _, part := range parts {
		var m struct {
			message
			Type    string
			Content []struct{ Text string } // of a message
			Delta   json.RawMessage         // of its events, and of a response's
			Output  []struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal([]byte(part), &m); err != nil {
			return all, fmt.Errorf("%w: %q", err, part)
		}
		if len(m.Error) > 0 && string(m.Error) != "null" || m.Type == "error" {
			return all, fmt.Errorf("after %q: %s", all, part)
		}
		if len(m.Choices) > 0 {
			all += m.Choices[0].Message.Content + m.Choices[0].Delta.Content + m.Choices[0].Text
		}
		for _, c := range m.Content {
			all += c.Text
		}
		for _, o := range m.Output {
			for _, c := range o.Content {
				all += c.Text
			}
		}
		switch m.Type {
		case "content_block_delta":
			var delta struct{ Text string }
			_ = json.Unmarshal(m.Delta, &delta) // of another shape it has no text
			all += delta.Text
		case "response.output_text.delta":
			var delta string
			_ = json.Unmarshal(m.Delta, &delta)
			all += delta
		}
	}
	return all, nil
}

// continued is the last request with which the gateway had a target continue an answer.
type continued struct {
	path   string
	asked  map[string]any
	prefix string // the answer's text before it
}

// lastContinued finds it among a target's exchanges; nil: there is none.
func lastContinued(t *testing.T, p pair, a api, question string, all []Exchange) *continued {
	t.Helper()
	for _, x := range slices.Backward(all) {
		head, body, _ := bytes.Cut(x.Request, []byte("\r\n\r\n"))
		c := continued{path: strings.Fields(string(head))[1]}
		in := json.NewDecoder(bytes.NewReader(body))
		in.UseNumber()
		if c.path != "/v1/completions" && c.path != "/v1/chat/completions" || in.Decode(&c.asked) != nil || c.asked["prompt_logprobs"] != nil {
			continue
		}
		ids, byIDs := c.asked["prompt"].([]any)
		prompt, byText := c.asked["prompt"].(string)
		switch {
		case byIDs:
			var text struct{ Content, Prompt string }
			asked := promptIDs(t, p, a, question)
			if len(ids) < len(asked) || !reflect.DeepEqual(ids[:len(asked)], asked) {
				continue // of the probe
			}
			body, _ := json.Marshal(map[string]any{"model": p.target.Model, "tokens": ids[len(asked):]})
			if err := askJSON(t.Context(), http.MethodPost, p.target.URL+"/detokenize", string(body), &text); err != nil {
				t.Fatal(err)
			}
			c.prefix = text.Content + text.Prompt
		case byText && strings.HasPrefix(prompt, question):
			c.prefix = prompt[len(question):]
		default:
			messages, _ := c.asked["messages"].([]any)
			if len(messages) == 0 || !strings.Contains(fmt.Sprint(messages[0]), question) {
				continue // of the probe
			}
			last, _ := messages[len(messages)-1].(map[string]any)
			if last["role"] != "assistant" {
				return nil
			}
			c.prefix, _ = last["content"].(string)
		}
		if c.prefix == "" {
			return nil
		}
		return &c
	}
	return nil
}

// promptIDs are the ids that the target makes of a question's prompt.
func promptIDs(t *testing.T, p pair, a api, question string) []any {
	t.Helper()
	ask := func(path string, q map[string]any, into any) {
		body, _ := json.Marshal(q)
		if err := askJSON(t.Context(), http.MethodPost, p.target.URL+path, string(body), into); err != nil {
			t.Fatal(err)
		}
	}
	q := map[string]any{"model": p.target.Model, "messages": []any{map[string]any{"role": "user", "content": question}}}
	if a.name == "completions" {
		q = map[string]any{"model": p.target.Model, "prompt": question, "content": question, "add_special": true, "parse_special": true}
	} else if p.target.Kind == LlamaCpp {
		var rendered struct{ Prompt string }
		ask("/apply-template", q, &rendered)
		q = map[string]any{"content": rendered.Prompt, "add_special": true, "parse_special": true}
	}
	var ids struct{ Tokens []json.Number }
	ask("/tokenize", q, &ids)
	all := make([]any, len(ids.Tokens))
	for i, id := range ids.Tokens {
		all[i] = id
	}
	return all
}

// rest is what the target itself says behind the prefix, asked directly.
func (c *continued) rest(t *testing.T, p pair) string {
	t.Helper()
	all, err := textOf(c.ask(t, p, nil))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tie tells whether what was said behind the prefix parts from the target's own at a token whose two best are nearly equal.
func (c *continued) tie(t *testing.T, p pair, said string) bool {
	t.Helper()
	scored := map[string]any{"logprobs": 2}
	if c.asked["messages"] != nil {
		scored = map[string]any{"logprobs": true, "top_logprobs": 2}
	}
	return partsAtTie(c.ask(t, p, scored), said)
}

// ask has the target continue the answer once more, in one piece.
func (c *continued) ask(t *testing.T, p pair, more map[string]any) string {
	t.Helper()
	q := maps.Clone(c.asked)
	maps.Copy(q, more)
	q["stream"] = false
	delete(q, "stream_options")
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return post(t, p.target.URL+c.path, string(body)).body
}

// how an answer comes to be continued: on which route, and by which fault of which pool.
var causes = []struct {
	name, route string
	draft       bool // the draft pool has the fault
	how         process.End
	whole       bool // clients that do not stream, too
}{
	{"rejected draft", "risk", false, process.GoesOn, true},
	{"draft cut off", "m", true, process.EndRST, true},
	{"target killed", "off", false, process.EndRST, false},
	{"target ends", "off", false, process.EndFIN, false},
	{"target frozen", "off", false, process.EndStall, false},
}

var subjects = []string{
	"the capital of France", "how bread is baked", "why the sea is salty", "a walk in the rain", "what a bridge is for", "the colours of a rainbow", "how to boil an egg", "a dog and a cat",
}

var wordings = []string{"Tell me about %s.", "Describe %s in one sentence.", "Write a short letter about %s.", "What do you know about %s?", "Explain %s to a child."}

// TestEveryContinuationIsTheTargetsOwn: behind the text that it was given, byte for byte.
func TestEveryContinuationIsTheTargetsOwn(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		draft, target := NewProxy(t, p.draft.URL), NewProxy(t, p.target.URL)
		r := serve(t, p, setup{draft: []string{draft.URL}, target: []string{target.URL}, settings: []string{
			"speculation.threshold_nats", "-20", "speculation.holdback_tokens", "4", "timeout.stream_idle", "5s", "breaker.max_failures", "1000",
			"speculation.mode@risk", "confidence", "speculation.threshold_nats@risk", "-0.1", "speculation.holdback_tokens@risk", "8",
		}})
		want, made, equal, explained := count(20, 200), map[string]int{}, 0, 0
		total := 0
		for i := 0; total < want && i < 5*want; i++ {
			a, cause := apis[i%len(apis)], causes[i/len(apis)%len(causes)]
			round := i / len(apis) / len(causes)
			stream, limit := !cause.whole || round%2 == 0, 24
			if !stream || cause.how == process.GoesOn {
				limit = 72 // a draft is refused behind its beginning; of a short one that is refused whole nothing is kept
			}
			question := fmt.Sprintf(wordings[i%len(wordings)], subjects[i/len(wordings)%len(subjects)]+strings.Repeat(" today", round%3))
			seen := len(target.Exchanges(""))
			if fault := (Fault{How: cause.how, Path: "/v1/", After: 4 + i%9}); cause.draft {
				draft.Arm(fault)
			} else if cause.how != process.GoesOn {
				target.Arm(fault)
			}
			answer := post(t, r.URL+a.path, fmt.Sprintf(a.asks, cause.route, question, limit, stream))
			all, err := textOf(answer.body)
			name := fmt.Sprintf("%s, %s, stream %v", cause.name, a.name, stream)
			if err != nil || answer.status != http.StatusOK {
				t.Errorf("%s: %v: %d %s", name, err, answer.status, answer.body)
				continue
			}
			c := lastContinued(t, p, a, question, target.Exchanges("")[seen:])
			if c == nil {
				continue // the draft was served, or refused from its beginning
			}
			total++
			made[name]++
			rest, ok := strings.CutPrefix(all, c.prefix)
			own := c.rest(t, p)
			switch {
			case ok && rest == own:
				equal++
			case ok && (c.rest(t, p) != own || c.rest(t, p) == rest || c.tie(t, p, rest)):
				explained++ // the engine differs from itself, or two tokens are nearly equal
			default:
				t.Errorf("%s: %q was continued after %q, by the target itself with %q", name, all, c.prefix, own)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(made)) {
			t.Logf("%3d %s", made[name], name)
		}
		t.Logf("%s: %d continuations, %d equal, %d where the engine differs from itself", p.name, total, equal, explained)
		if total < want {
			t.Errorf("%d answers were continued, want %d", total, want)
		}
	})
}

// TestClientsThatLeaveFreeTheEngine, of streams and of whole answers, and the next one is answered.
func TestClientsThatLeaveFreeTheEngine(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		if p.target.Kind == LlamaCpp { // its own, so that nobody else is seen at work there
			p.target = Start(t, Options{Kind: LlamaCpp, Model: LlamaTarget})
		}
		r := serve(t, p, setup{})
		for _, stream := range []bool{true, false} {
			leave := make([]func(), 4)
			for i := range leave {
				leave[i] = asks(t, r.URL+apis[0].path, fmt.Sprintf(
					`{"model":"off","stream":%v,"max_tokens":1500,"ignore_eos":true,"messages":[{"role":"user","content":"Tell a long story, number %d."}]}`, stream, i))
			}
			apptest.Within(t, maxAnswer, "four are under way", func() bool {
				running, waiting, err := p.target.Busy(t.Context())
				return err == nil && running+waiting >= len(leave)
			})
			for _, leaves := range leave {
				leaves()
			}
			idle(t, p.target, maxLeft)
			got, err := textOf(post(t, r.URL+apis[0].path, fmt.Sprintf(apis[0].asks, "off", "Say OK.", 24, stream)).body)
			if got == "" || err != nil {
				t.Errorf("stream %v: behind them it answers %q, %v", stream, got, err)
			}
		}
	})
}

// maxLeft bounds how long an engine works on for clients that have left; their answers would take it a minute.
const maxLeft = 10 * time.Second

// asks sends a request of a client that will leave, by the returned function.
func asks(t *testing.T, url, body string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	over := make(chan struct{})
	go func() {
		defer close(over)
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until it leaves
			_ = resp.Body.Close()                 // as above
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// TestTheUsageOfADraftThatStopsIsTheEngines: its stream is left at the stop string, before the engine tells it.
func TestTheUsageOfADraftThatStopsIsTheEngines(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{settings: []string{"speculation.threshold_nats", "-20"}})
		for _, a := range apis[:2] {
			for _, stream := range []bool{false, true} {
				const question = "What is the capital of France, and what is the capital of Spain?"
				asks := strings.TrimSuffix(a.asks, "}") + `,"stop":["a"]`
				if stream {
					asks += `,"stream_options":{"include_usage":true}`
				}
				used := func(url, model string) (n struct{ message }) {
					body := post(t, url+a.path, fmt.Sprintf(asks+"}", model, question, 48, stream)).body
					if _, err := textOf(body); err != nil {
						t.Fatal(err)
					}
					if parts, _ := events(body); len(parts) > 0 {
						body = parts[len(parts)-1]
					}
					if err := json.Unmarshal([]byte(body), &n); err != nil {
						t.Fatalf("%v: %s", err, body)
					}
					return n
				}
				got, own := used(r.URL, "m").Usage, used(p.draft.URL, p.draft.Model).Usage
				if got.Prompt != own.Prompt || max(got.Completion-own.Completion, own.Completion-got.Completion) > 1 {
					t.Errorf("%s, stream %v: usage %+v, the engine itself says %+v", a.name, stream, got, own)
				}
			}
		}
	})
}
