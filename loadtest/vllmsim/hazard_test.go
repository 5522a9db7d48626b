package vllmsim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
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
			Content          string `json:"content"`
			Reasoning        string `json:"reasoning"`
			ReasoningContent string `json:"reasoning_content"`
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
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	} `json:"usage"`
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
			first := name == engineLlamaCpp && i == 0 // no draft stands before it
			if (e.Logprob == 0) == first {
				t.Errorf("%s: token %d has %v, not %v", name, i, e.Logprob, truth.Logprobs.Content[i].Logprob)
			}
			for _, a := range e.Top {
				if a.Logprob != 0 && !first {
					t.Errorf("%s: an alternative of token %d has %v", name, i, a.Logprob)
				}
			}
			if name == engineLlamaCpp && i > 0 && len(e.Top) > 0 {
				t.Errorf("%s: token %d has alternatives", name, i)
			}
		}
		if len(lied.Logprobs.Content) < 10 {
			t.Errorf("%s: %d logprobs", name, len(lied.Logprobs.Content))
		}
	}
}

func TestASwappedModelAnswersUnderItsOwnName(t *testing.T) {
	for name, told := range map[string]string{engineVLLM: swappedName, engineLlamaCpp: swappedName, engineOpenAI: swappedName, engineSGLang: "sim"} {
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

func TestOllamaUnloadsASwappedModelAfterEachRequest(t *testing.T) {
	inMemory := func(s *Server) bool {
		_, body := do(t, s, "GET", "/api/ps", "")
		return strings.Contains(body, "sim:latest")
	}
	s := hazardous(t, engineOllama)
	expect(t, "before the first request", inMemory(s), false)
	first := chatWith(t, s, `,"max_tokens":4`)
	expect(t, "after it", inMemory(s), true)
	if err := s.SetFault(Fault{Hazards: HazardSwappedModel}); err != nil {
		t.Fatal(err)
	}
	second := chatWith(t, s, `,"max_tokens":4`)
	eventually(t, "it is unloaded", func() bool { return !inMemory(s) })
	expect(t, "the answer", second.Choices[0].Message.Content, first.Choices[0].Message.Content)
}

// The load takes loadTime of the profile's time: one server in which that is never over shows that a request waits for it.
func TestOllamaAnswersOnlyWithItsModelInMemory(t *testing.T) {
	s := Start(t, Options{Engine: engineOllama, TimeScale: 0.01})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/chat/completions",
		strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"hi"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("it sends headers before the model is there")
	}
	expect(t, "requests in the engine", s.State().Running+s.State().Finished, 0)
}

func TestAnAnswerGoesOnWithoutItsClient(t *testing.T) {
	for _, name := range Engines() {
		for hazard, finished := range map[string]int{"": 0, "generates_after_disconnect": 1} {
			o := Options{Engine: name, Seed: 1, TimeScale: 20}
			if hazard != "" {
				o.Hazards = []string{hazard}
			} else {
				o.TimeScale = 1 // a second and more for 40 tokens: the server sees before their end that the client has left
			}
			s := Start(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/chat/completions",
				strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"go"}],"max_tokens":40,"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel()
			_ = resp.Body.Close()
			eventually(t, name+" is done", func() bool { st := s.State(); return st.Finished+st.Aborted == 1 })
			expect(t, fmt.Sprintf("%s %q: finished", name, hazard), s.State().Finished, finished)
		}
	}
}

func TestThoughtsComeFirstUntilTheyAreTurnedOff(t *testing.T) {
	template, effort := `,"chat_template_kwargs":{"enable_thinking":false}`, `,"reasoning_effort":"none"`
	for name, off := range map[string]string{engineVLLM: template, engineSGLang: template, engineLlamaCpp: template, engineOllama: effort, engineOpenAI: ""} {
		s := hazardous(t, name, "thinks_first")
		m := chatWith(t, s, `,"max_tokens":120`).Choices[0].Message
		switch name {
		case engineLlamaCpp:
			expect(t, name, m.ReasoningContent, thought)
		case engineOllama:
			expect(t, name, m.Reasoning, thought)
		default:
			if !strings.HasPrefix(m.Content, "<think>\n"+thought+"\n</think>\n\n") {
				t.Errorf("%s: %q", name, m.Content)
			}
		}
		if off == "" {
			continue
		}
		plain := chatWith(t, hazardous(t, name), `,"max_tokens":20`).Choices[0].Message
		quiet := chatWith(t, s, `,"max_tokens":20`+off).Choices[0].Message
		expect(t, name+" turned off", quiet, plain)
	}
}

func TestAJudgeThatThinksFirstSaysNothingInOneToken(t *testing.T) {
	s := hazardous(t, engineLlamaCpp, "thinks_first")
	body := `"model":"sim","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The harbor"},{"role":"user","content":"` +
		judgeQuestion + `"}],"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":5`
	_, thinking := post(t, s, "/v1/chat/completions", `{`+body+`}`)
	_, quiet := post(t, s, "/v1/chat/completions", `{`+body+`,"chat_template_kwargs":{"enable_thinking":false}}`)
	if strings.Contains(thinking, `"token":"No"`) || !strings.Contains(quiet, `"token":"No"`) {
		t.Errorf("thinking: %s\nquiet: %s", thinking, quiet)
	}
}

func TestLlamaCppGoesOnFromNoMessageWhileItThinks(t *testing.T) {
	s := hazardous(t, engineLlamaCpp, "thinks_first")
	body := `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"The harbor"}],"max_tokens":2`
	status, text := post(t, s, "/v1/chat/completions", `{`+body+`}`)
	expect(t, "status", status, 400)
	if !strings.Contains(text, "Assistant response prefill is incompatible with enable_thinking.") {
		t.Error(text)
	}
	if status, text = post(t, s, "/v1/chat/completions", `{`+body+`,"chat_template_kwargs":{"enable_thinking":false}}`); status != 200 {
		t.Error(text)
	}
}

func TestAShortContextIsAQuarterOfWhatTheModelPromises(t *testing.T) {
	long := `"model":"sim","messages":[{"role":"user","content":"` + strings.Repeat("The harbor keeps the garden. ", 25) + `"}],"max_tokens":2`
	for _, name := range Engines() {
		if status, text := post(t, hazardous(t, name), "/v1/chat/completions", `{`+long+`}`); status != 200 {
			t.Errorf("%s without the hazard: %s", name, text)
		}
		s := hazardous(t, name, "short_context")
		status, text := post(t, s, "/v1/chat/completions", `{`+long+`}`)
		if name == engineOllama { // it cuts without a word; the usage tells
			var a spoken
			if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || a.Usage.Prompt > 100 {
				t.Errorf("%s: %d %s", name, status, text)
			}
			continue
		}
		if status != 400 || !strings.Contains(text, "100") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func TestOllamaDropsOldMessagesAndKeepsTheSystemsOne(t *testing.T) {
	s := hazardous(t, engineOllama, "short_context")
	old := strings.Repeat("The harbor keeps the garden. ", 12)
	a := `{"role":"system","content":"You are brief."},`
	b := `{"role":"user","content":"hi"}`
	_, cut := post(t, s, "/v1/chat/completions", `{"model":"sim","messages":[`+a+`{"role":"user","content":"`+old+`"},{"role":"assistant","content":"`+old+`"},`+b+`],"max_tokens":8,"temperature":0}`)
	_, short := post(t, s, "/v1/chat/completions", `{"model":"sim","messages":[`+a+b+`],"max_tokens":8,"temperature":0}`)
	expect(t, "the answer", engineVolatile.ReplaceAllString(cut, "$1"), engineVolatile.ReplaceAllString(short, "$1"))
}

func TestHazardsAreSwitchedWhileItRuns(t *testing.T) {
	s := hazardous(t, engineVLLM, "thinks_first")
	f, err := ParseFault([]byte(`{"hazards":["constant_logprobs","short_context"]}`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "read", f.Hazards, HazardConstantLogprobs|HazardShortContext)
	status, _ := post(t, s, "/sim/fault", `{"hazards":["constant_logprobs"]}`)
	expect(t, "switched", status, 200)
	eventually(t, "the hazard is another", func() bool {
		c := chatWith(t, s, `,"max_tokens":2,"logprobs":true,"top_logprobs":1`).Choices[0]
		return !strings.HasPrefix(c.Message.Content, "<think>") && c.Logprobs.Content[0].Logprob == 0
	})
	if _, err := ParseFault([]byte(`{"hazards":["fire"]}`)); err == nil || !strings.Contains(err.Error(), `unknown hazard "fire"`) {
		t.Error(err)
	}
	b, err := json.Marshal(Fault{Hazards: HazardThinksFirst | HazardSwappedModel})
	expect(t, "written", string(b), `{"hazards":["swapped_model","thinks_first"]}`)
	if err != nil || !slices.Equal(HazardNames(), hazardNames) {
		t.Error(err)
	}
}
