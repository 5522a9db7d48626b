package vllmsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAnotherTokenizerLeavesNoIDAsItIs(t *testing.T) {
	w, size := newWireIDs(tokenizerOther), int32(DefaultTokenizer().Size())
	seen := map[int32]bool{}
	for id := range size {
		out := w.out(id)
		if out == id || out < 0 || out >= size || seen[out] || w.in(out) != id {
			t.Fatalf("%d goes out as %d and comes in as %d", id, out, w.in(out))
		}
		seen[out] = true
	}
	for _, id := range []int32{-1, size, size + 5} {
		expect(t, "no token", [2]int32{w.out(id), w.in(id)}, [2]int32{id, id})
	}
}

// renumbered makes a body of one server's ids one of the other's.
func renumbered(w wireIDs, body string, ids []int32) string {
	return fmt.Sprintf(body, appendIDs(nil, w.outAll(ids)))
}

// Whatever is asked, the two servers say the same in other numbers.
func TestTwoTokenizersSpeakTheSameLanguage(t *testing.T) {
	for _, sglang := range []bool{false, true} {
		o := Options{Seed: 2, TimeScale: fast, SGLang: sglang}
		plain := Start(t, o)
		o.Tokenizer = tokenizerOther
		other, w := Start(t, o), newWireIDs(tokenizerOther)
		ids := chat(t, "Say it in other numbers.")
		for _, q := range []struct{ path, body string }{
			{"/v1/completions", `{"prompt":%s,"max_tokens":40,"temperature":0,"return_token_ids":true,"prompt_logprobs":2,"logprobs":2}`},
			{"/v1/completions", `{"prompt":%s,"max_tokens":40,"seed":5,"stream":true,"return_token_ids":true,"logprobs":2}`},
			{"/v1/completions", `{"prompt":%s,"max_tokens":2,"echo":true,"logprobs":1,"return_tokens_as_token_ids":true}`},
			{"/inference/v1/generate", `{"token_ids":%s,"sampling_params":{"max_tokens":9,"temperature":0,"logprobs":2,"prompt_logprobs":1}}`},
			{"/inference/v1/generate", `{"token_ids":%s,"stream":true,"sampling_params":{"max_tokens":9,"temperature":0,"logprobs":2}}`},
			{"/detokenize", `{"tokens":%s}`},
			{"/generate", `{"input_ids":%s,"sampling_params":{"max_new_tokens":5,"temperature":0},"return_logprob":true,"logprob_start_len":3,"top_logprobs_num":2,"return_text_in_logprobs":true}`},
		} {
			status, a := post(t, plain, q.path, fmt.Sprintf(q.body, appendIDs(nil, ids)))
			again, b := post(t, other, q.path, renumbered(w, q.body, ids))
			expect(t, q.path+" status", again, status)
			expect(t, q.path+" texts", shownTexts(a), shownTexts(b))
			if status == 200 && q.path != "/detokenize" {
				if a, b = numbers(a, w), numbers(b, 0); a != b || a == "" {
					t.Errorf("%s:\n%s\n%s", q.path, a, b)
				}
			}
		}
	}
}

// shownTexts are the strings of an answer that a reader sees.
func shownTexts(body string) string {
	var out []string
	for _, part := range strings.Split(body, `"text":`)[1:] {
		d := json.NewDecoder(strings.NewReader(part))
		var s string
		if d.Decode(&s) == nil {
			out = append(out, s)
		}
	}
	return strings.Join(out, "|")
}

// numbers are the ids of an answer, as they are after w: those of arrays of ids, of keys, and of names of tokens.
func numbers(body string, w wireIDs) string {
	var out []string
	put := func(text string) {
		if n, err := strconv.Atoi(text); err == nil {
			out = append(out, strconv.Itoa(int(w.out(int32(n)))))
		}
	}
	for _, line := range strings.Split(body, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) == nil {
			walk(v, "", put)
		}
	}
	return strings.Join(out, " ")
}

// walk visits what stands for a token, in an order that the numbers have no say in.
func walk(v any, name string, put func(string)) {
	switch v := v.(type) {
	case map[string]any:
		var keys, ids []string
		for key, e := range v {
			if strings.HasPrefix(key, "token_id:") || isRank(e) {
				ids = append(ids, key)
			} else {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(ids, func(a, b string) int { return strings.Compare(fmt.Sprint(v[a]), fmt.Sprint(v[b])) })
		for _, key := range ids {
			put(strings.TrimPrefix(key, "token_id:"))
		}
		slices.Sort(keys)
		for _, key := range keys {
			walk(v[key], key, put)
		}
	case []any:
		if len(v) == 3 && strings.HasSuffix(name, "logprobs") { // SGLang's [logprob, id, text]
			put(fmt.Sprint(v[1]))
			return
		}
		for _, e := range v {
			walk(e, name, put)
		}
	case string:
		if text, ok := strings.CutPrefix(v, "token_id:"); ok {
			put(text)
		}
	case float64:
		if strings.HasSuffix(name, "_ids") || name == "matched" {
			put(strconv.Itoa(int(v)))
		}
	}
}

func isRank(v any) bool {
	m, ok := v.(map[string]any)
	return ok && m["rank"] != nil
}

func TestAnotherTokenizerIsSeenInItsFingerprint(t *testing.T) {
	plain, other := Start(t, Options{TimeScale: fast}), Start(t, Options{TimeScale: fast, Tokenizer: "other"})
	for _, body := range []string{`{"prompt":"Say it.","return_token_strs":true}`, `{"messages":[{"role":"user","content":"Say it."}],"return_token_strs":true}`} {
		_, a := post(t, plain, "/tokenize", body)
		_, b := post(t, other, "/tokenize", body)
		var one, two struct {
			Tokens []int32
			Strs   []string `json:"token_strs"`
		}
		if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &two) != nil {
			t.Fatal(a, b)
		}
		expect(t, "texts", fmt.Sprint(two.Strs), fmt.Sprint(one.Strs))
		expect(t, "ids", fmt.Sprint(two.Tokens), fmt.Sprint(newWireIDs(tokenizerOther).outAll(one.Tokens)))
	}
	const stop = `{"prompt":"x","max_tokens":50,"temperature":0,"ignore_eos":true,"return_token_ids":true%s}`
	ids := ask(t, other, "/v1/completions", fmt.Sprintf(stop, "")).Choices[0].TokenIDs
	a := ask(t, other, "/v1/completions", fmt.Sprintf(stop, fmt.Sprintf(`,"stop_token_ids":[%d]`, ids[5])))
	expect(t, "stopped by", a.Choices[0].StopReason, any(float64(ids[5])))
	if _, err := New(Options{Tokenizer: "mine"}); err == nil || !strings.Contains(err.Error(), "known: other") {
		t.Error(err)
	}
}
