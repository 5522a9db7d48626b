package vllmsim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// hazardous starts an engine with hazards.
func hazardous(t *testing.T, engine string, hazards ...string) *Server {
	t.Helper()
	return Start(t, Options{Engine: engine, Seed: 1, TimeScale: fast, MaxModelLen: 400, Hazards: hazards})
}

// spoken is what the tests read of a chat of any engine.
type spoken struct {
	Model   string `json:"model"`
	Choices []struct {
		Finish  string `json:"finish_reason"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Logprobs struct {
			Content []struct {
				Logprob float64 `json:"logprob"`
				Top     []struct {
					Logprob float64 `json:"logprob"`
				} `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
}

func chatWith(t *testing.T, s *Server, more string) spoken {
	t.Helper()
	status, body := post(t, s, "/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi"}],"temperature":0`+more+`}`)
	var a spoken
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK || len(a.Choices) != 1 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return a
}

func TestConstantLogprobsAreZeroWithTheirAlternatives(t *testing.T) {
	const wish = `,"max_tokens":16,"logprobs":true,"top_logprobs":3`
	for _, name := range Engines() {
		truth := chatWith(t, hazardous(t, name), wish).Choices[0]
		lied := chatWith(t, hazardous(t, name, "constant_logprobs"), wish).Choices[0]
		expect(t, name+": the answer", lied.Message.Content, truth.Message.Content)
		for i, e := range lied.Logprobs.Content {
			if e.Logprob != 0 {
				t.Errorf("%s: token %d has %v, not %v", name, i, e.Logprob, truth.Logprobs.Content[i].Logprob)
			}
			for _, a := range e.Top {
				if a.Logprob != 0 {
					t.Errorf("%s: an alternative of token %d has %v", name, i, a.Logprob)
				}
			}
		}
		if len(lied.Logprobs.Content) < 10 {
			t.Errorf("%s: %d logprobs", name, len(lied.Logprobs.Content))
		}
	}
}

func TestASwappedModelAnswersUnderItsOwnName(t *testing.T) {
	for name, told := range map[string]string{engineVLLM: swappedName, engineOpenAI: swappedName, engineSGLang: "sim"} {
		truth, lied := chatWith(t, hazardous(t, name), `,"max_tokens":16`), chatWith(t, hazardous(t, name, "swapped_model"), `,"max_tokens":16`)
		expect(t, name+": the model before", truth.Model, "sim")
		expect(t, name+": the model after", lied.Model, told)
		if lied.Choices[0].Message.Content == truth.Choices[0].Message.Content {
			t.Errorf("%s: the same model answers", name)
		}
		if _, cards := do(t, hazardous(t, name, "swapped_model"), "GET", "/v1/models", ""); !strings.Contains(cards, `"id":"`+swappedName+`"`) {
			t.Errorf("%s: %s", name, cards)
		}
	}
}

func TestThoughtsComeFirstUntilTheyAreTurnedOff(t *testing.T) {
	template := `,"chat_template_kwargs":{"enable_thinking":false}`
	for name, off := range map[string]string{engineVLLM: template, engineSGLang: template, engineOpenAI: ""} {
		s := hazardous(t, name, "thinks_first")
		m := chatWith(t, s, `,"max_tokens":120`).Choices[0].Message
		if !strings.HasPrefix(m.Content, "<think>\n"+thought+"\n</think>\n\n") {
			t.Errorf("%s: %q", name, m.Content)
		}
		if off == "" {
			continue
		}
		plain := chatWith(t, hazardous(t, name), `,"max_tokens":20`).Choices[0].Message
		quiet := chatWith(t, s, `,"max_tokens":20`+off).Choices[0].Message
		expect(t, name+" turned off", quiet, plain)
	}
}
