package upstream

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"

	"github.com/foregate/foregate/internal/golden"
)

// namedCall is a call with the name that the golden files give it.
type namedCall struct {
	name string
	call engine.Call
}

// wireCalls are calls of each kind, with everything that an engine may not know.
func wireCalls(t testing.TB) []namedCall {
	t.Helper()
	chat := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,`+
		`"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":40,"max_completion_tokens":30,"temperature":0.7,"top_k":7,`+
		`"min_p":0.1,"ignore_eos":true,"metadata":{"a":"b"},"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"low"}}`)
	prompt := scan(t, openai.Completion, `{"model":"m","prompt":"hi","repetition_penalty":1,"guided_regex":"a+"}`)
	late := int64(7)
	terms := engine.Terms{Model: "big", Salt: "s", Priority: &late}
	question := openai.ScoreQuestion{Terms: openai.Terms{Model: "big", Salt: "s", Priority: &late}, Style: openai.ScoreSGLang, Prompt: []int32{1}, Draft: []int32{2}, Top: 5}
	return []namedCall{
		{"relay of a chat", &engine.Relay{Terms: terms, Request: chat}},
		{"relay of a completion", &engine.Relay{Terms: terms, Request: prompt}},
		{"draft", &engine.Draft{Terms: terms, Request: chat, Counted: true}},
		{"draft of a completion", &engine.Draft{Terms: terms, Request: prompt}},
		{"draft in one piece", &engine.Answer{Draft: true, Terms: terms, Request: chat}},
		{"answer in one piece", &engine.Answer{Terms: terms, Request: chat}},
		{"continuation by ids", &engine.ContinueIDs{Terms: terms, Request: chat, PromptIDs: []int32{1}, IDs: []int32{2}, MaxTokens: 5}},
		{"continuation of a chat", &engine.ContinueText{Terms: terms, Request: chat, Text: []byte("so far"), MaxTokens: 9}},
		{"continuation of a chat without a limit", &engine.ContinueText{Terms: terms, Request: chat, Text: []byte("so far")}},
		{"continuation of a completion", &engine.ContinueText{Terms: terms, Request: prompt, Text: []byte(" you"), MaxTokens: 9}},
		{"score", &engine.Score{Question: question}},
		{"judge", &engine.Judge{Question: openai.JudgeQuestion{Terms: terms, Request: chat, Answer: []byte("yes")}}},
		{"judge that thinks", &engine.Judge{Question: openai.JudgeQuestion{Terms: terms, Request: chat, Answer: []byte("yes")}, Thinks: true}},
		{"judge without logprobs that compares", &engine.Judge{Question: openai.JudgeQuestion{Terms: terms, Request: chat, Answer: []byte("yes"), Own: []byte("no"), Unscored: true}}},
		{"judge of a completion that thinks", &engine.Judge{Question: openai.JudgeQuestion{Terms: terms, Request: prompt, Answer: []byte("yes")}, Thinks: true}},
		{"ids of a text", &engine.TokenizeText{Model: "big", Text: []byte("a\"b")}},
		{"ids of a completion's prompt", &engine.TokenizePrompt{Model: "big", Request: prompt}},
		{"continuation of a chat at one that was seen to do so", &engine.ContinueText{Terms: terms, Request: chat, Text: []byte("so far"), Found: dialect.Continues, Probed: dialect.OpenAI}},
		{"continuation behind ids", &continueTokens{&engine.ContinueText{Terms: terms, Request: chat, Text: []byte("so far"), MaxTokens: 9}, []int32{1}, []int32{2, 3}}},
		{"template of a chat", rendering(membersOf(chat, "messages", "tools", "tool_choice", openai.Kwargs), nil)},
		{"ids of a rendered chat", tokenizing([]byte("<s>hi"), nil)},
		{"text of ids", &engine.Detokenize{Model: "big", IDs: []int32{1, 2}}},
		{"forwarded", &engine.Forward{Path: "/v1/embeddings", Body: []byte(`{"any":1}`)}},
	}
}

// TestTheBytesForEachKindOfEngine holds what each kind of engine is sent, to be read by people: a file for each.
func TestTheBytesForEachKindOfEngine(t *testing.T) {
	for _, kind := range dialect.Kinds {
		if kind == dialect.Auto {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			d := dialect.Of(kind)
			var b strings.Builder
			for _, c := range wireCalls(t) {
				switch c.call.(type) {
				case *post, *continueTokens:
					if d.Tokenize != dialect.TokenizeLlamaCpp {
						continue
					}
				}
				path, body, err := encode(c.call, d)
				if err != nil {
					fmt.Fprintf(&b, "%s: %v\n\n", c.name, err)
					continue
				}
				if !json.Valid(body) {
					t.Errorf("%s: no JSON: %s", c.name, body)
				}
				fmt.Fprintf(&b, "%s: POST %s\n%s\n\n", c.name, path, body)
			}
			file := filepath.Join("testdata", "wire", string(kind)+".txt")
			golden.Check(t, file, b.String())
		})
	}
}
