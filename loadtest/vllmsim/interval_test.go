package vllmsim

import (
	"strings"
	"testing"
)

// TestAStreamIntervalPutsSeveralTokensIntoAChunk: the first one comes at once, then three at a time, and the end with what
// there is. What the chunks say together is what they say with one token each.
func TestAStreamIntervalPutsSeveralTokensIntoAChunk(t *testing.T) {
	one, three := Start(t, Options{TimeScale: fast}), Start(t, Options{TimeScale: fast, StreamInterval: 3})
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"x"}],"temperature":0,"max_tokens":9,"ignore_eos":true,"stream":true,"logprobs":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		"/v1/completions":      `{"prompt":"x","temperature":0,"max_tokens":9,"ignore_eos":true,"stream":true,"logprobs":1,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
	} {
		want, finish := streamed(t, one, path, body)
		got, ended := streamed(t, three, path, body)
		expect(t, path+": text", got, want)
		expect(t, path+": finish", ended, finish)
		var sizes []int
		_, raw := post(t, three, path, body)
		for _, event := range strings.Split(raw, "\n\n") {
			_, ids, ok := strings.Cut(event, `"token_ids":[`)
			if list, _, _ := strings.Cut(ids, "]"); ok {
				sizes = append(sizes, 1+strings.Count(list, ","))
			}
		}
		expect(t, path+": tokens in each chunk", sizes, []int{1, 3, 3, 2})
		for _, n := range []string{"1", "4", "7", "9"} {
			if !strings.Contains(raw, `"completion_tokens":`+n+"}") && !strings.Contains(raw, `"completion_tokens":`+n+",") {
				t.Errorf("%s: no usage of %s tokens", path, n)
			}
		}
	}
	if _, err := New(Options{StreamInterval: -1}); err == nil {
		t.Error("an interval of -1 was taken")
	}
}
