package probe

import (
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzAnswers reads foreign bytes as each kind of answer: whatever they are, one gets what
// can be used, or an error that says that they cannot be read.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"message":{"content":"a"},"finish_reason":"stop","stop_reason":3,"token_ids":[1,2],"logprobs":{"content":[{"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.1},{"token":"b","logprob":-2}]}]}}],"prompt_token_ids":[3],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"choices":[{"text":"a","prompt_token_ids":[1],"logprobs":{"top_logprobs":[{"a":-1,"b":-1},null]}}]}`,
		`{"tokens":[1,2,3]}`, `{"output_ids":[1],"meta_info":{"finish_reason":{"type":"stop","matched":2}}}`,
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		`{"data":[{"id":"sim","max_model_len":10}]}`, `{"error":{"message":"no"}}`, `{"detail":"Not Found"}`, `{"error":"Unauthorized"}`, "\xff{", `{"detail":[{"msg":"\u0000\ud800"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := parseAnswer(body, len(body)%2 == 0)
		if err != nil && !fails(err) {
			readable(t, err)
		}
		if a.endsWith(1) && (err != nil || a.finish == "") {
			t.Errorf("%q ends: %+v", body, a)
		}
		for at := range 3 {
			if a.tied(at) && at >= len(a.tops) {
				t.Errorf("%q is tied at %d", body, at)
			}
		}
		if a.tokens < -1 {
			t.Errorf("%q counts %+v", body, a)
		}
		if same, at := goesOn(&a, &a); len(a.ids) > 0 && (!same || at != len(a.ids)) {
			t.Errorf("%q is unlike itself", body)
		}
		if ids, err := parseIDs(body); (len(ids) == 0) != (err != nil) {
			t.Errorf("%q: %v, %v", body, ids, err)
		} else {
			readable(t, err)
		}
	})
}

// FuzzWires reads foreign bytes as what single kinds of engines answer.
func FuzzWires(f *testing.F) {
	for _, s := range []string{
		`{"default_generation_settings":{"n_ctx":4096},"total_slots":4}`,
		`{"prompt":"<s>user"}`, `{"content":"text"}`, `{"data":[{"id":"/a/m.gguf","aliases":["m"]}]}`,
		`{"choices":[{"message":{"reasoning":"x"},"logprobs":{"content":[{"id":5,"token":"","logprob":0,"top_logprobs":[]},{"id":6}]}}],"model":5}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, _, err := parseProps(body)
		readable(t, err)
		if (n > 0) != (err == nil) {
			t.Errorf("%q: n_ctx %d, %v", body, n, err)
		}
		_, err = parseTemplateText(body)
		readable(t, err)
		_, _ = parseWords(body, "content")
		cards, err := parseCards(body)
		readable(t, err)
		for _, c := range cards {
			if !sameModel(cards, c.ID, c.ID) {
				t.Errorf("%q: the card %+v", body, c)
			}
		}
		a, err := parseAnswer(body, true)
		if _, k, is := a.constant(); is && (err != nil || k < fewestConstant) {
			t.Errorf("%q: %d constants", body, k)
		}
	})
}

func readable(t *testing.T, err error) {
	t.Helper()
	u, ok := errors.AsType[*unreadable](err)
	if err != nil && (!ok || !utf8.ValidString(u.why) || len(u.why) > 2*maxLine) {
		t.Errorf("error %q", err)
	}
}
