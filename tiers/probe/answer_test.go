package probe

import (
	"strings"
	"testing"
)

func TestConstantLogprobsAreToldFromSureOnes(t *testing.T) {
	type scored struct {
		logprob float64
		varied  bool
	}
	list := func(first scored, n int, rest scored) []scored {
		out := []scored{first}
		for range n {
			out = append(out, rest)
		}
		return out
	}
	is := func(all []scored) (int, bool) {
		a := answer{}
		for _, s := range all {
			tops := []float64{s.logprob}
			if s.varied {
				tops = append(tops, s.logprob-2)
			}
			a.logprobs, a.tops = append(a.logprobs, s.logprob), append(a.tops, tops)
		}
		_, n, is := a.constant()
		return n, is
	}
	true1, zero, sure := scored{-0.3, true}, scored{0, false}, scored{0, true}
	for _, c := range []struct {
		what string
		all  []scored
		want bool
	}{
		{"llama.cpp's own speculation", list(true1, 15, zero), true},
		{"all constants", list(zero, 15, zero), true},
		{"another constant", list(true1, 15, scored{-1.5, false}), true},
		{"half of them", append(list(true1, 8, zero), true1, true1, true1, true1, true1, true1, true1, true1), true},
		{"a third of them", append(list(true1, 4, zero), true1, true1, true1, true1, true1, true1, true1, true1), false},
		{"a sure model", list(true1, 15, sure), false},
		{"one that is sure", append(list(true1, 14, scored{-0.2, true}), zero), false},
		{"true ones", list(true1, 15, true1), false},
		{"too few", list(true1, 3, zero), false},
		{"one", list(zero, 0, zero), false},
		{"none", nil, false},
	} {
		if n, got := is(c.all); got != c.want || got && n < fewestConstant {
			t.Errorf("%s: %v, %d", c.what, got, n)
		}
	}
	different := []scored{{-1, false}, {-2, false}, {-3, false}, {-4, false}, {-5, false}, {-6, false}}
	if _, got := is(different); got {
		t.Error("logprobs that differ are one constant")
	}
}

func TestNamesOfOneModel(t *testing.T) {
	cards := []modelCard{{ID: "/models/qwen.gguf", Aliases: "small\nqwen"}, {ID: "a", Root: "/w/llama"}, {ID: "b", Root: "/w/llama"}, {ID: "other", Root: "/w/other"}, {ID: "rootless"}}
	for _, c := range []struct {
		asked, told string
		want        bool
	}{
		{"m", "m", true}, {"m", "", true}, {"m", "n", false},
		{"llama3.2", "llama3.2:latest", true}, {"llama3.2:latest", "llama3.2", true}, {"llama3.2", "llama3.2:1b", false},
		{"qwen", "/models/qwen.gguf", true}, {"small", "/models/qwen.gguf", true}, {"small", "other", false}, {"small", "rootless", false},
		{"org/model", "model", true}, {"org/model", "fork/model", false},
		{"gpt-4o", "gpt-4o-2024-08-06", true}, {"gpt-4o", "gpt-4o-mini", false}, {"gpt-4o", "gpt-4o-mini-2024-07-18", false},
		{"a", "b", true}, {"a", "other", false}, {"rootless", "a", false},
	} {
		if got := sameModel(cards, c.asked, c.told); got != c.want {
			t.Errorf("asked %q, told %q: %v", c.asked, c.told, got)
		}
	}
}

func TestThoughtsAreSeenWhereverTheyStand(t *testing.T) {
	for body, want := range map[string]bool{
		`{"choices":[{"message":{"content":"Yes."}}]}`:                                         false,
		`{"choices":[{"message":{"content":"Yes.","reasoning":"","reasoning_content":null}}]}`: false,
		`{"choices":[{"message":{"content":"Yes.","reasoning":"Hm."}}]}`:                       true,
		`{"choices":[{"message":{"content":null,"reasoning_content":"Hm."}}]}`:                 true,
		`{"choices":[{"message":{"content":"\n<think>Hm."}}]}`:                                 true,
		`{"choices":[{"message":{"content":"Hm.</think>Yes."}}]}`:                              true,
		`{"choices":[{"message":{"content":"I write <think> here","reasoning":null}}]}`:        false,
	} {
		if a, err := parseAnswer([]byte(body), false); err != nil || a.thinks != want {
			t.Errorf("%s: %v, %v", body, a.thinks, err)
		}
	}
}

func TestIDsOfLogprobsAreIDsOfTheAnswer(t *testing.T) {
	const entries = `{"id":5,"token":"a","logprob":-1,"top_logprobs":[{"token":"a","logprob":-1},{"token":"b","logprob":-1.05}]},{"id":6,"token":"b","logprob":0,"top_logprobs":[]}`
	body := `{"choices":[{"text":"a","finish_reason":"stop","logprobs":{"content":[` + entries + `]}}],"usage":{"completion_tokens":2}}`
	a, err := parseAnswer([]byte(body), true)
	if err != nil || len(a.ids) != 2 || a.ids[1] != 6 || !a.tied(0) || a.tied(1) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = parseAnswer([]byte(`{"choices":[{"token_ids":[7],"logprobs":{"content":[`+entries+`]}}]}`), false); err != nil || len(a.ids) != 1 {
		t.Errorf("ids that are told are not those: %+v, %v", a, err)
	}
}

// Streams and answers in one piece are read alike; half a stream is no answer.
func TestAStreamIsAnAnswerOnceItHasEnded(t *testing.T) {
	const stream = `data: {"choices":[{"delta":{"role":"assistant","content":""}}],"model":"m","prompt_token_ids":[1,2]}

data: {"choices":[{"delta":{"content":"I"},"token_ids":[57]}]}

data: {"choices":[{"delta":{"content":"'m"},"finish_reason":"stop","stop_reason":null,"token_ids":[5248]}]}

data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":2}}

data: [DONE]

`
	a, err := parseAnswer([]byte(stream), false)
	if err != nil || a.text != "I'm" || a.model != "m" || len(a.prompt) != 2 || a.tokens != 2 || len(a.ids) != 2 || a.finish != "stop" {
		t.Errorf("%+v, %v", a, err)
	}
	half, _, _ := strings.Cut(stream, "data: {\"choices\":[{\"delta\":{\"content\":\"'m")
	if a, err := parseAnswer([]byte(half), false); err == nil || !fails(err) {
		t.Errorf("half a stream is %+v, %v", a, err)
	}
	if _, err := parseAnswer([]byte("data: {\"error\":{\"message\":\"no memory\"}}\n\n"), false); err == nil || !fails(err) {
		t.Errorf("an error in the stream is %v", err)
	}
}
