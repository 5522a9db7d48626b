package upstream

import (
	"bytes"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// scan reads a request of a test.
func scan(t testing.TB, kind openai.Kind, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(kind, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const bodyPrompt = `{"model":"m","prompt":"hi","max_completion_tokens":9}`

// TestACallThatWasWrittenIsAsItWas: it may be sent again, and elsewhere.
func TestACallThatWasWrittenIsAsItWas(t *testing.T) {
	p := scan(t, openai.Completion, bodyPrompt)
	call := &engine.ContinueText{Terms: engine.Terms{Model: "big"}, Request: p, Text: []byte(" you"), MaxTokens: 7}
	_, first := encoded(call)
	_, again := encoded(call)
	if !bytes.Equal(first, again) || string(p.Body) != bodyPrompt || string(call.Text) != " you" {
		t.Errorf("%s, then %s of %s", first, again, p.Body)
	}
}

// TestAContinuationByIDsSamplesAsItsRequestDoes: its body is a new one, and what is not carried over is not meant.
func TestAContinuationByIDsSamplesAsItsRequestDoes(t *testing.T) {
	for _, name := range openai.SamplingFields {
		value := "1"
		switch name {
		case "stop_token_ids":
			value = "[7]"
		case "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens":
			value = "true"
		case "user":
			value = `"u"`
		}
		r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"`+name+`":`+value+`}`)
		_, body := encoded(&engine.ContinueIDs{Request: r, PromptIDs: []int32{1}, MaxTokens: 1})
		if !bytes.Contains(body, []byte(`,"`+name+`":`+value+`,`)) {
			t.Errorf("a continuation with %s: %s", name, body)
		}
	}
}
