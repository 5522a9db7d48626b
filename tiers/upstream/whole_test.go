package upstream

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// answered makes an attempt whose answer comes in one piece.
func answered(t *testing.T, c *Client, a *engine.Attempt) error {
	t.Helper()
	s, err := c.Open(t.Context(), a)
	if err != nil {
		return err
	}
	defer s.Close()
	if chunk, err := s.Next(engine.WantTops); err != io.EOF || !s.Buffered() {
		t.Errorf("%T: a chunk of an answer in one piece: %+v, %v", a.Call, chunk, err)
	}
	return nil
}

// absurdUse is an answer that claims to have cost more than can be.
const absurdUse = `{"model":"big","prompt_token_ids":[1,2],"choices":[{"index":0,"message":{"content":"hi"},"token_ids":[7,8],"finish_reason":"length",
	"logprobs":{"content":[{"logprob":-1,"top_logprobs":[]},{"logprob":-1,"top_logprobs":[]}]}}],"usage":{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}}`

func TestTheUsageOfAnAnswerInOnePieceIsCutToWhatCanBe(t *testing.T) {
	r := scan(t, openai.Chat, aPlain)
	for _, call := range []engine.Call{
		&engine.Relay{Request: r, Into: new(openai.Chunk)},
		&engine.Answer{Draft: true, Request: r, Into: new(openai.DraftAnswer)},
		&engine.Answer{Request: r, Into: new(openai.DraftAnswer)},
	} {
		a := at("http://127.0.0.1:1", call)
		a.MaxAnswer = 50
		if err := answered(t, scripted("application/json", []byte(absurdUse)), a); err != nil {
			t.Fatalf("%T: %v", call, err)
		}
		_, body := encoded(call)
		if u := a.Used; u.Completion != 50 || u.Prompt != openai.MaxPromptTokens(body) {
			t.Errorf("%T: %+v", call, u)
		}
	}
}

func TestAnAnswerInOnePieceIsReadIntoItsCall(t *testing.T) {
	r := scan(t, openai.Chat, aPlain)
	open := func(call engine.Call, body string) {
		t.Helper()
		if err := answered(t, scripted("application/json", []byte(body)), at("http://127.0.0.1:1", call)); err != nil {
			t.Fatalf("%T: %v", call, err)
		}
	}
	relayed := &engine.Relay{Request: r, Into: new(openai.Chunk)}
	open(relayed, "\ufeff"+aWhole)
	if w := relayed.Into; string(w.Raw) != aWhole || string(w.Finish) != "stop" || w.Usage != (openai.Usage{Prompt: 2, Completion: 1}) || w.Choices != 1 {
		t.Errorf("%+v", w)
	}
}

// TestAnEngineAnswersEveryCall asks a simulated engine, whose wire is vLLM's.
func TestAnEngineAnswersEveryCall(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "big", TimeScale: 200, Seed: 1})
	c := newClient(t, Options{})
	terms := engine.Terms{Model: "big", Salt: "s"}
	r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"Tell me about the sea."}],"max_tokens":40,"stream":true}`)
	one := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"Tell me about the sea."}],"max_tokens":40}`)
	text := func(call engine.Call) (all string, ids, prompt []int32) {
		t.Helper()
		s, err := c.Open(t.Context(), at(sim.URL(), call))
		if err != nil {
			t.Fatalf("%T: %v", call, err)
		}
		defer s.Close()
		for {
			k, err := s.Next(engine.WantTops)
			if err == io.EOF {
				return all, ids, prompt
			}
			if err != nil {
				t.Fatalf("%T: %v", call, err)
			}
			all, ids, prompt = all+string(k.Text), append(ids, k.IDs...), append(prompt, k.PromptIDs...)
		}
	}
	ask := func(call engine.Call) {
		t.Helper()
		if err := answered(t, c, at(sim.URL(), call)); err != nil {
			t.Fatalf("%T: %v", call, err)
		}
	}

	all, ids, prompt := text(&engine.Draft{Terms: terms, Request: r})
	if all == "" || len(ids) != 40 || len(prompt) == 0 {
		t.Fatalf("a draft of %d ids behind %d: %q", len(ids), len(prompt), all)
	}
	if got, _, _ := text(&engine.Relay{Terms: terms, Request: r}); got != all {
		t.Errorf("relayed %q, drafted %q", got, all)
	}
	rest, more, _ := text(&engine.ContinueIDs{Terms: terms, Request: r, PromptIDs: prompt, IDs: ids[:10], MaxTokens: 30})
	if !strings.HasSuffix(all, rest) || !slices.Equal(more, ids[10:]) {
		t.Errorf("carried on with %q, %d ids", rest, len(more))
	}
	var begun []byte
	ask(&engine.Detokenize{Model: "big", IDs: ids[:10], Into: &begun})
	if string(begun)+rest != all {
		t.Errorf("%q and %q are not %q", begun, rest, all)
	}
	if got, _, _ := text(&engine.ContinueText{Terms: terms, Request: r, Text: begun, MaxTokens: 5}); got == "" || !strings.HasPrefix(all, string(begun)+got) {
		t.Errorf("carried on behind the text with %q", got)
	}

	forbidden := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":2,"tool_choice":"none",`+
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]}`)
	var listed []int32
	_, _, rendered := text(&engine.Draft{Terms: terms, Request: forbidden})
	if ask(&engine.TokenizePrompt{Model: "big", Request: forbidden, Into: &listed}); !slices.Equal(listed, rendered) {
		t.Errorf("tools that must not be called: a prompt of %d ids, told %d", len(listed), len(rendered))
	}

	var tokens, asked []int32
	ask(&engine.TokenizeText{Model: "big", Text: begun, Into: &tokens})
	ask(&engine.TokenizePrompt{Model: "big", Request: r, Into: &asked})
	if len(tokens) == 0 || !slices.Equal(asked, prompt) {
		t.Errorf("%d ids of %q; of the prompt %d, told %d", len(tokens), begun, len(asked), len(prompt))
	}
	wholes := []engine.Call{
		&engine.Relay{Terms: terms, Request: one, Into: new(openai.Chunk)}, &engine.Answer{Draft: true, Terms: terms, Request: one, Into: new(openai.DraftAnswer)},
		&engine.Answer{Terms: terms, Request: one, Into: new(openai.DraftAnswer)},
	}
	for _, call := range wholes {
		a := at(sim.URL(), call)
		if err := answered(t, c, a); err != nil || a.Used != (openai.Usage{Prompt: len(prompt), Completion: 40}) {
			t.Errorf("%T: %+v, %v", call, a.Used, err)
		}
	}

	question := openai.ScoreQuestion{Terms: openai.Terms{Model: "big"}, Style: openai.ScoreCompletions, Prompt: prompt, Draft: ids[:10], Top: 20}
	var scores openai.Scores
	var odds openai.Judgement
	scored := at(sim.URL(), &engine.Score{Question: question, Into: &scores})
	if err := answered(t, c, scored); err != nil || scored.Used != (openai.Usage{Prompt: len(prompt) + 10, Cached: scores.Cached}) {
		t.Errorf("a score: %+v, %v", scored.Used, err)
	}
	ask(&engine.Judge{Question: openai.JudgeQuestion{Terms: terms, Request: r, Answer: begun}, Into: &odds})
	if len(scores.Tokens) != 10 || odds.Odds == 0 || odds.Usage.Prompt == 0 {
		t.Errorf("%d scores, odds %v", len(scores.Tokens), odds)
	}
}
