package vllmsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAnswersThatWereGivenComeInTheirTurn(t *testing.T) {
	list, err := ParseAnswers([]byte(`[{"text":"I look.","tool":"read","arguments":{"path": "a.txt"}},{"tool":"look"},{"text":"Done."}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t, Options{TimeScale: fast, Answers: list})
	const chats = "/v1/chat/completions"
	const offers = `,"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}},{"type":"function","function":{"name":"look"}}]`
	talk := `{"messages":[{"role":"system","content":"Help."},{"role":"user","content":"Look."}`
	for turn, want := range []struct{ said, finish, then string }{
		{`I look.read{"path": "a.txt"}`, "tool_calls", `,{"role":"assistant","content":"I look.","tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}`},
		{"look{}", "tool_calls", `,{"role":"assistant","content":null,"tool_calls":[{"id":"2","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"2","content":"y"}`},
		{"Done.", "stop", `,{"role":"assistant","content":"Done."},{"role":"user","content":"And?"}`},
	} {
		c := ask(t, s, chats, talk+"]"+offers+"}").Choices[0]
		said := ""
		if c.Message.Content != nil {
			said = *c.Message.Content
		}
		for _, made := range c.Message.ToolCalls {
			said += made.Function.Name + made.Function.Arguments
		}
		stream, finish := streamed(t, s, chats, talk+"]"+offers+`,"stream":true}`)
		if said != want.said || stream != want.said || c.FinishReason != want.finish || finish != want.finish {
			t.Errorf("turn %d: %q (%s), as a stream %q (%s); want %q (%s)", turn, said, c.FinishReason, stream, finish, want.said, want.finish)
		}
		if own := ask(t, s, chats, talk+`],"max_tokens":9}`).Choices[0]; *own.Message.Content == want.said {
			t.Errorf("turn %d: it answers %q to who offers no tools", turn, want.said)
		}
		if c := ask(t, s, chats, talk+"]"+offers+`,"tool_choice":"none","max_tokens":9}`).Choices[0]; len(c.Message.ToolCalls) > 0 {
			t.Errorf("turn %d: forbidden tools are called: %+v", turn, c.Message.ToolCalls)
		}
		talk += want.then
	}
	if end, _ := streamed(t, s, chats, talk+"]"+offers+`,"stream":true,"max_tokens":30}`); end == "" {
		t.Error("it says nothing when all was said that was given")
	}
	text := Start(t, Options{TimeScale: fast, Answers: []Answer{{Text: "Hello."}}})
	for k := range 10 { // of which it would call a tool in four
		if said, _ := streamed(t, text, chats, fmt.Sprintf(`{"messages":[{"role":"user","content":"hi %d"}]%s,"stream":true}`, k, offers)); said != "Hello." {
			t.Errorf("prompt %d: it says %q", k, said)
		}
	}
}

// A draft of the same answers is scored by its target as what the target would have written.
func TestAnswersThatWereGivenScoreAsTheyAreWritten(t *testing.T) {
	list := []Answer{{Text: "I look first.", Tool: "get_weather", Arguments: json.RawMessage(`{"city": "Paris"}`)}}
	s := Start(t, Options{TimeScale: fast, Answers: list})
	prompt, ids, lps := structuredAnswer(t, s, "score", tools)
	sameScores(t, "given", scoresOf(t, s, prompt, ids, ""), lps)
	for cut := range ids {
		got := ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":200,"return_token_ids":true}`, encode(slices.Concat(prompt, ids[:cut]))))
		expect(t, "the rest", got.Choices[0].TokenIDs, ids[cut:])
	}
}

func TestAnswersThatCannotBeGivenAreRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`[{"tol":"read"}]`:                 `unknown field "tol"`,
		`[{"text":"a"}] x`:                 "something follows the list",
		`[{"text":"a"},{}]`:                "answer 1 has neither text nor tool",
		`[{"text":"a","arguments":{}}]`:    "answer 0 has arguments and no tool",
		`[{"tool":"read","arguments":[]}]`: "the arguments of answer 0 are no object",
	} {
		if _, err := ParseAnswers([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
