package soak

import (
	"testing"

	"github.com/foregate/foregate/loadtest/chaos"
)

func TestTheLoadHasAllKindsOfRequestsWhoseAnswersAreKnown(t *testing.T) {
	known := map[chaos.Question]bool{}
	for _, q := range questions() {
		known[q] = true
	}
	const n = 10_000
	seen := map[string]int{}
	for i := range n {
		r := request(1, i)
		if !known[chaos.Question{Prompt: r.Prompt, MaxTokens: r.Tokens}] {
			t.Fatalf("nobody knows what the engines say to %d tokens of %q", r.Tokens, r.Prompt)
		}
		for name, is := range map[string]bool{
			"stream": r.Stream, "target": r.Header.Get("X-Tier") == "target", "cacheable": r.Header.Get("Cache-Control") == "", "left": r.Leave > 0,
			"limited": r.Tenant == limitedTenant, string("api " + r.API): true, "priority " + r.Priority: true, "tenant " + r.Tenant: true,
			"long": len(r.Prompt) > 200, "usage": r.Fields != nil,
		} {
			if is {
				seen[name]++
			}
		}
	}
	for name, share := range map[string]float64{
		"stream": shareStreamed, "target": shareTarget, "cacheable": shareCacheable, "left": shareLeft, "limited": shareLimited,
		"api responses": shareResponses, "api messages": shareMessages, "api ": 1 - shareResponses - shareMessages,
		"priority high": shareHigh, "priority low": shareLow, "priority normal": 1 - shareHigh - shareLow, "long": 1.0 / longPrompt,
		"tenant acme": (1 - shareLimited) / 2, "tenant globex": (1 - shareLimited) / 2,
	} {
		if got := float64(seen[name]) / n; got < share-0.03 || got > share+0.03 {
			t.Errorf("%s: a share of %.3f, want %.3f", name, got, share)
		}
	}
	if seen["usage"] == 0 {
		t.Error("no stream of a chat asks for its usage")
	}
}
