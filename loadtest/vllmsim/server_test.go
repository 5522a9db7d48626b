package vllmsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/golden"
)

// fast is a time scale at which nothing is waited for.
const fast = 2000

// post sends a body and returns status and answer.
func post(t *testing.T, s *Server, path, body string) (int, string) {
	t.Helper()
	return do(t, s, "POST", path, body)
}

func do(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waiting)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "fixed")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// waiting is how long a test waits for what ought to come at once.
const waiting = 20 * time.Second

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(waiting)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("still waiting until %s", what)
		case <-tick.C:
		}
	}
}

// answer is what the tests read of both answer shapes.
type answer struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content   *string `json:"content"`
			ToolCalls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
		Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason   string            `json:"finish_reason"`
		StopReason     any               `json:"stop_reason"`
		TokenIDs       []int32           `json:"token_ids"`
		PromptLogprobs []map[string]rank `json:"prompt_logprobs"`
	} `json:"choices"`
	PromptTokenIDs []int32           `json:"prompt_token_ids"`
	Usage          usage             `json:"usage"`
	PromptLogprobs []map[string]rank `json:"prompt_logprobs"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// cachedOf is the number of prompt tokens found in the cache; vLLM leaves a zero out on some routes.
func cachedOf(a answer) int {
	if a.Usage.Details == nil {
		return 0
	}
	return a.Usage.Details.Cached
}

type rank struct {
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank"`
}

func ask(t *testing.T, s *Server, path, body string) answer {
	t.Helper()
	status, text := post(t, s, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

var volatile = regexp.MustCompile(`"created":\d+|"request_id":"(?:chatcmpl|cmpl)-[0-9a-f]{32}|chatcmpl-tool-[0-9a-f]+|modelperm-[0-9a-f]+`)

// matches compares with testdata, ids and times made equal.
func matches(t *testing.T, name, got string) {
	t.Helper()
	got = volatile.ReplaceAllStringFunc(got, func(m string) string { return strings.TrimRight(m, "0123456789abcdef") + "1" })
	golden.Check(t, filepath.Join("testdata", name), got)
}

const tools = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"metric":{"type":"boolean"}}}}}]`

// streamed reads a stream's text, with its calls behind it, and finish reason.
func streamed(t *testing.T, s *Server, path, body string) (text, finish string) {
	t.Helper()
	_, raw := post(t, s, path, body)
	for line := range strings.Lines(raw) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range a.Choices {
			text += c.Text + c.Delta.Content
			for _, made := range c.Delta.ToolCalls {
				text += made.Function.Name + made.Function.Arguments
			}
			if c.FinishReason != "" {
				finish = c.FinishReason
			}
		}
	}
	return text, finish
}

func TestContinuingGivesWhatOneGoWouldHaveGiven(t *testing.T) {
	s := Start(t, Options{Seed: 11, TimeScale: fast})
	for k := range 24 {
		how := []string{`"temperature":0`, `"temperature":0.8`, `"temperature":1.2,"seed":5`}[k%3]
		user := fmt.Sprintf(`{"role":"user","content":"Question %d, please"}`, k)
		whole := ask(t, s, "/v1/chat/completions", `{"messages":[`+user+`],`+how+`,"return_token_ids":true}`)
		ids, text := whole.Choices[0].TokenIDs, *whole.Choices[0].Message.Content
		cut := len(ids) / 2
		prefix := s.tok.Decode(ids[:cut], true)
		if strings.ContainsRune(prefix, '\uFFFD') {
			continue // cut inside a character: only ids can go on from there
		}
		prompt := append(slices.Clone(whole.PromptTokenIDs), ids[:cut]...)
		byIDs := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,%s,"max_tokens":2000}`, encode(prompt), how))
		expect(t, "by ids", prefix+byIDs.Choices[0].Text, text)
		if !slices.Equal(s.tok.Encode(prefix), ids[:cut]) {
			continue // a sampled token of the tail: the text encodes differently
		}
		byText := ask(t, s, "/v1/chat/completions", `{"messages":[`+user+`,{"role":"assistant","content":`+
			string(encode(prefix))+`}],`+how+`,"add_generation_prompt":false,"continue_final_message":true}`)
		expect(t, "by text", prefix+*byText.Choices[0].Message.Content, text)
	}
}

func TestToolCallsAndJSONFitTheirSchemas(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	calls := 0
	for k := range 40 {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"weather %d"}],%s}`, k, tools)
		c := ask(t, s, "/v1/chat/completions", body).Choices[0]
		if c.FinishReason != "tool_calls" {
			continue
		}
		calls++
		var args struct {
			City   *string `json:"city"`
			Days   *int    `json:"days"`
			Metric *bool   `json:"metric"`
		}
		if err := json.Unmarshal([]byte(c.Message.ToolCalls[0].Function.Arguments), &args); err != nil || args.City == nil || args.Days == nil || args.Metric == nil {
			t.Errorf("arguments %s: %v", c.Message.ToolCalls[0].Function.Arguments, err)
		}
	}
	if calls < 5 || calls > 35 {
		t.Errorf("%d of 40 prompts call a tool", calls)
	}
	c := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"j"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"list":{"type":"array","items":{"enum":["a","b"]}},"n":{"type":"number"}}}}}}`)
	var v struct {
		List []string `json:"list"`
		N    *float64 `json:"n"`
	}
	if err := json.Unmarshal([]byte(*c.Choices[0].Message.Content), &v); err != nil || len(v.List) == 0 || v.N == nil {
		t.Errorf("%s: %v", *c.Choices[0].Message.Content, err)
	}
}

func TestAClientThatLeavesFreesItsBlocks(t *testing.T) {
	s := Start(t, Options{TimeScale: 1})
	for _, stream := range []string{"true", "false"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/completions",
			strings.NewReader(`{"prompt":"go on","max_tokens":100000,"ignore_eos":true,"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		done := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			done <- err
		}()
		eventually(t, "it runs", func() bool { return s.State().Running == 1 && s.State().KVBlocksUsed > 0 })
		cancel()
		eventually(t, "it is gone", func() bool { return s.State().Running == 0 && s.State().KVBlocksUsed == 0 })
		if err := <-done; err == nil {
			t.Error("the answer came to its end")
		}
	}
	expect(t, "aborted", s.State().Aborted, 2)
	eventually(t, "the gauge heals", func() bool {
		_, page := do(t, s, "GET", "/metrics", "")
		return strings.Contains(page, `vllm:num_requests_running{engine="0",model_name="sim"} 0`)
	})
}

func TestHeadersComeBeforeTheRequestIsQueued(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.SetFault(Fault{Slow: 1e6}) // no step ends
	client := http.Client{Timeout: waiting}
	resp, err := client.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	expect(t, "type", resp.Header.Get("Content-Type"), "text/event-stream; charset=utf-8")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(body, []byte(`"finish_reason":"abort"`)) || !bytes.HasSuffix(body, []byte("data: [DONE]\n\n")) {
		t.Errorf("after SIGTERM: %v %s", err, body)
	}
}

func TestMetricNamesAreThoseOfVLLM(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Model: "m"})
	_, _ = post(t, s, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
	_, page := do(t, s, "GET", "/metrics", "")
	var names []string
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "# TYPE "):
			names = append(names, strings.TrimSpace(line))
		case !strings.HasPrefix(line, "#"):
			names = append(names, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	matches(t, "metrics_v1.txt", strings.Join(names, "\n"))
}
