package upstream

import (
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// TestFaultsOfASimulatedEngineAreToldApart: its faults are those that vLLM was seen to have.
func TestFaultsOfASimulatedEngineAreToldApart(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "big", TimeScale: 200, Seed: 1})
	c := newClient(t, Options{})
	r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"Tell me about the sea."}],"max_tokens":60,"stream":true}`)
	draft := &engine.Draft{Terms: engine.Terms{Model: "big"}, Request: r}
	score := &engine.Score{Question: openai.ScoreQuestion{Style: openai.ScoreCompletions, Model: "big", Prompt: []int32{5, 6}, Draft: []int32{7, 8}, Top: 1}, Into: new(openai.Scores)}
	for _, tc := range []struct {
		name   string
		fault  vllmsim.Fault
		call   engine.Call
		want   string
		chunks bool // some of the answer came before
	}{
		{"nothing", vllmsim.Fault{}, draft, "", true},
		{"a status", vllmsim.Fault{Status: 503, RetryAfter: "3"}, draft, "upstream_busy 503 503", false},
		{"no headers", vllmsim.Fault{Hang: "headers"}, draft, "upstream_timeout 0 0", false},
		{"a stream that stops", vllmsim.Fault{Hang: "stream", AfterTokens: 3}, draft, "upstream_stalled 0 200", true},
		{"a stream that ends early", vllmsim.Fault{CleanEOFAfterTokens: 3}, draft, "upstream_cut 0 200", true},
		{"an abort", vllmsim.Fault{AbortAfterTokens: 3}, draft, "upstream_aborted 0 200", true},
		{"an error event", vllmsim.Fault{ErrorEventAfterTokens: 3}, draft, "upstream_error 500 200", true},
		{"a score that fails", vllmsim.Fault{Score: "error"}, score, "upstream_error 500 500", false},
		{"a score that is none", vllmsim.Fault{Score: "garbage"}, score, "bad_upstream_response 0 200", false},
	} {
		if err := sim.SetFault(tc.fault); err != nil {
			t.Fatal(err)
		}
		a := at(sim.URL(), tc.call)
		if tc.fault.Hang != "" {
			a.FirstByteTimeout, a.IdleTimeout = 5*time.Second, 200*time.Millisecond
		}
		if tc.fault.Hang == "headers" {
			a.FirstByteTimeout = 50 * time.Millisecond
		}
		var texts []string
		s, err := c.Open(t.Context(), a)
		if err == nil {
			texts, err = drain(s)
			s.Close()
		}
		got := ""
		if err != nil {
			got = formatFailure(failureOf(t, err))
		}
		if got != tc.want || tc.chunks != (len(texts) > 0) {
			t.Errorf("%s: %q behind %d chunks, want %q", tc.name, got, len(texts), tc.want)
		}
	}
}
