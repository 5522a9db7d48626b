package vllmsim

import (
	"strings"
	"testing"
)

func TestAScoreFaultTouchesScoringAlone(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Seed: 1})
	if err := s.SetFault(Fault{Score: "error"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", `{"prompt":[40,41,42],"max_tokens":2,"temperature":0}`, 200},
		{"/v1/completions", `{"prompt":"x","max_tokens":1,"logprobs":1}`, 200},
		{"/v1/completions", `{"prompt":"x","max_tokens":1,"prompt_logprobs":0}`, 500},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"logprobs":true}`, 200},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"prompt_logprobs":1}`, 500},
	} {
		status, body := post(t, s, q.path, q.body)
		if status != q.status {
			t.Errorf("%s %s: %d, want %d: %s", q.path, q.body, status, q.status, body)
		}
	}
	status, body := post(t, s, "/sim/fault", `{"score":"badly"}`)
	if status != 400 || !strings.Contains(body, "known: error") {
		t.Errorf("%d %s", status, body)
	}
}
