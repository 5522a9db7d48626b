package vllmsim

import (
	"encoding/json"
	"fmt"
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

func TestAnotherTokenizerIsSeenInItsFingerprint(t *testing.T) {
	plain, other := Start(t, Options{TimeScale: fast}), Start(t, Options{TimeScale: fast, Tokenizer: "other"})
	for _, body := range []string{`{"prompt":"Say it."}`, `{"messages":[{"role":"user","content":"Say it."}]}`} {
		_, a := post(t, plain, "/tokenize", body)
		_, b := post(t, other, "/tokenize", body)
		var one, two struct{ Tokens []int32 }
		if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &two) != nil {
			t.Fatal(a, b)
		}
		expect(t, "ids", two.Tokens, newWireIDs(tokenizerOther).outAll(one.Tokens))
	}
	const stop = `{"prompt":"x","max_tokens":50,"temperature":0,"ignore_eos":true,"return_token_ids":true%s}`
	ids := ask(t, other, "/v1/completions", fmt.Sprintf(stop, "")).Choices[0].TokenIDs
	a := ask(t, other, "/v1/completions", fmt.Sprintf(stop, fmt.Sprintf(`,"stop_token_ids":[%d]`, ids[5])))
	expect(t, "stopped by", a.Choices[0].StopReason, any(float64(ids[5])))
	if _, err := New(Options{Tokenizer: "mine"}); err == nil || !strings.Contains(err.Error(), "known: other") {
		t.Error(err)
	}
}
