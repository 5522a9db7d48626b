package openai

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAJudgeIsAskedAboutTheAnswerAndNothingElse(t *testing.T) {
	low := int64(4)
	lim := DefaultLimits()
	lim.Allow = func(string) []string { return []string{"echo"} }
	body := `{"model":"auto","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"} ],"stream":true,"stream_options":{"include_usage":true},` +
		`"stop":["4"],"n":2,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","response_format":{"type":"json_object"},"presence_penalty":1,` +
		`"logit_bias":{"5":9},"min_tokens":3,"seed":7,"top_k":1,"stop_token_ids":[5],"max_completion_tokens":9,"cache_salt":"theirs","priority":-9,"echo":true,` +
		`"some_new_field":1,"chat_template_kwargs":{"enable_thinking":false}}`
	r, err := Scan(Chat, []byte(body), lim)
	if err != nil {
		t.Fatal(err)
	}
	got := string((&JudgeQuestion{Terms: Terms{Model: `m"1`, Salt: "ours", Priority: &low}, Request: r, Answer: []byte("It is \"4\".\n")}).Body([]byte("x")))
	want := `x{"model":"m\"1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"} ,{"role":"assistant","content":"It is \"4\".\n"},` +
		`{"role":"user","content":"Is the previous answer correct, complete and in the requested format? Answer yes or no."}],"chat_template_kwargs":{"enable_thinking":false},` +
		`"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":5,"stream":false,"cache_salt":"ours","priority":4}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Scan(Chat, []byte(got[1:]), lim); err != nil {
		t.Errorf("it is no request: %v", err)
	}
}

func TestAJudgeOfACompletionIsAskedInAChat(t *testing.T) {
	r, err := Scan(Completion, []byte(`{"model":"m","prompt":"Once \u00fc","max_tokens":9,"stop":"x"}`), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Messages []struct{ Role, Content string }
		Stop     any
	}
	if err := json.Unmarshal((&JudgeQuestion{Terms: Terms{Model: "m", Salt: "", Priority: nil}, Request: r, Answer: []byte("upon")}).Body(nil), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != 3 || got.Messages[0].Content != "Once ü" || got.Messages[1].Role != "assistant" || got.Messages[1].Content != "upon" || got.Stop != nil {
		t.Errorf("got %+v", got)
	}
}

// verdictOf is a judge's answer with the alternatives given as JSON.
func verdictOf(top string) string {
	return `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Yes"},"logprobs":{"content":[{"token":"Yes","logprob":-0.1,"bytes":[89],` +
		`"top_logprobs":` + top + `},{"token":"!","top_logprobs":[{"token":"no","logprob":-0.0}]}]},"finish_reason":"length"},` +
		`{"logprobs":{"content":[{"top_logprobs":[{"token":"no","logprob":-0.0}]}]}}],"usage":{"prompt_tokens":9}}`
}

func TestAVerdictIsTheLogOddsOfYesOverAllItsSpellings(t *testing.T) {
	for top, want := range map[string]float64{
		`[{"token":"Yes","logprob":-0.25},{"token":"No","logprob":-2.25}]`:                                                                                           2,
		`[{"token":" yes","logprob":-1},{"token":"YES","logprob":-1},{"token":"\"No\"","logprob":-3},{"token":"\n'no","logprob":-3},{"token":"Maybe","logprob":-9}]`: 2,
		`[{"logprob":-3,"token":"“yes”"},{"token":"no","logprob":-1,"bytes":[110,111]}]`:                                                                             -2,
		`[{"token":"Yes","logprob":-0.5},{"token":"Sure","logprob":-4},{"token":"Yesterday","logprob":-6}]`:                                                          5.5, // no: at most as likely as the last
		`[{"token":"No","logprob":-1},{"token":"Not","logprob":-2.5}]`:                                                                                               -1.5,
		`[{"token":"Yes","logprob":-0.5},{"token":"No","logprob":-9999.0},{"token":"no","logprob":-9999.0}]`:                                                         9998.5 - math.Ln2,
		`[{"token":"Yes","logprob":0.0000001}]`:                                                                                                                      0,
	} {
		if got, err := ParseJudge([]byte(verdictOf(top))); err != nil || math.Abs(got.Odds-want) > 1e-9 {
			t.Errorf("%s: %g, %v; want %g", top, got.Odds, err, want)
		}
	}
}

func TestAJudgeThatSaysNeitherYesNorNoIsNoJudge(t *testing.T) {
	whole := verdictOf(`[{"token":"Yes","logprob":-0.25}]`)
	for _, body := range []string{
		"", "null", "[]", "{}", `{"choices":[]}`, `{"choices":[{"logprobs":null}]}`, `{"choices":[{"logprobs":{"content":null}}]}`, `{"choices":[{"logprobs":{"content":[]}}]}`,
		verdictOf("null"), verdictOf("[]"), verdictOf(`[{"token":"<think>","logprob":-0.01},{"token":"","logprob":-5}]`),
		verdictOf(`[{"token":"Yes","logprob":null}]`), verdictOf(`[{"token":"Yes"}]`), verdictOf(`[{"token":"Yes","logprob":2}]`), verdictOf(`[{"token":"Yes","logprob":NaN}]`),
		whole[:len(whole)-1], whole + "x",
	} {
		if got, err := ParseJudge([]byte(body)); !errors.Is(err, ErrScores) {
			t.Errorf("%q: %+v, %v", body, got, err)
		}
	}
}

func TestAJudgeWithoutLogprobsIsTakenAtItsWord(t *testing.T) {
	said := func(content string) string {
		return `{"choices":[{"message":{"role":"assistant","content":` + content + `},"logprobs":null}],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`
	}
	for content, want := range map[string]float64{`"Yes"`: 1, `" yes."`: 1, `"**No**"`: -1, `"no,"`: -1} {
		got, err := ParseJudge([]byte(said(content)))
		if err != nil || got.Odds != want || got.Usage != (Usage{Prompt: 9, Completion: 1, Cached: 4}) {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
	for _, content := range []string{`"Maybe"`, `""`, `null`, `[{"type":"text","text":"Yes"}]`, `"Yes and no"`} {
		if got, err := ParseJudge([]byte(said(content))); !errors.Is(err, ErrScores) {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
	r := scanChat(t, `{"model":"m","messages":[{"role":"user","content":"2+2?"}]}`)
	body := string((&JudgeQuestion{Terms: Terms{Model: "m"}, Request: r, Answer: []byte("4"), Own: []byte("It is \"4\"."), Unscored: true}).Body(nil))
	if strings.Contains(body, "logprobs") || !strings.Contains(body, `Another answer to the same request is:\n\nIt is \"4\".\n\nDo both answers say the same? Answer yes or no."}]`) {
		t.Error(body)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte(verdictOf(`[{"token":" yes","logprob":-1},{"token":"\"No\"","logprob":-3}]`)))
	f.Add([]byte(verdictOf(`[{"token":"Yes","logprob":-0.5}]`)))
	f.Add([]byte(strings.Repeat(`{"choices":[`, 9)))
	f.Fuzz(func(t *testing.T, body []byte) {
		odds, err := ParseJudge(body)
		if err != nil && !errors.Is(err, ErrScores) {
			t.Fatalf("an error of no kind: %v", err)
		}
		if math.IsNaN(odds.Odds) || math.Abs(odds.Odds) > 9999+math.Log(float64(len(body)+1)) {
			t.Fatalf("log-odds of %g", odds.Odds)
		}
	})
}

func TestAJudgeIsToldNotToThinkWhateverTheClientWants(t *testing.T) {
	for kwargs, want := range map[string]string{
		``:                             `{"enable_thinking":false}`,
		`,"chat_template_kwargs":{}`:   `{"enable_thinking":false}`,
		`,"chat_template_kwargs":null`: `{"enable_thinking":false}`,
		`,"chat_template_kwargs":{"enable_thinking":true}`:                                      `{"enable_thinking":false}`,
		`,"chat_template_kwargs":{"thinking":true, "reasoning_effort" : "a\"b","x":[1,{}]}`:     `{"reasoning_effort":"a\"b","x":[1,{}],"enable_thinking":false}`,
		`,"chat_template_kwargs":{"x":{"enable_thinking":true},"enable_thinking":true,"y":1.5}`: `{"x":{"enable_thinking":true},"y":1.5,"enable_thinking":false}`,
	} {
		lim := DefaultLimits()
		lim.Allow = func(string) []string { return []string{Kwargs + ".x", Kwargs + ".y"} }
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}]` + kwargs + `}`
		r, err := Scan(Chat, []byte(body), lim)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := string(r.KwargsWithoutThinking()); got != want {
			t.Errorf("%s: %s, want %s", kwargs, got, want)
		}
	}
}
