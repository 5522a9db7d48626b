package tiers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// Engines differ in what they tell of an answer while they write it. These tests are of those that tell less than vLLM.

// TestAStopStringBehindASeamLeavesTheUsageRight: the engine that carries on tells the ids of its chunks, of several tokens
// each, and no usage before the end, which a stop string keeps from coming.
func TestAStopStringBehindASeamLeavesTheUsageRight(t *testing.T) {
	for _, interval := range []int{1, 3} {
		r := probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{StreamInterval: interval, Without: []string{"running_usage"}})
		r.cfg.Accept.Threshold, r.cfg.HoldbackTokens = -15, 1
		seams, n := 0, sample(16, 40)
		for i, p := range prompts(n) {
			own := r.own(chat(p, `,"max_tokens":200`))
			at := len(own.text) * (60 + i%3*15) / 100
			for at > 0 && !isASCII(own.text[at:at+3]) {
				at--
			}
			body := chat(p, fmt.Sprintf(`,"max_tokens":200,"stop":[%q],"stream":true,"stream_options":{"include_usage":true}`, own.text[at:at+3]))
			want := r.own(strings.Replace(body, `"stream":true,"stream_options":{"include_usage":true}`, `"stream":false`, 1))
			if err := r.draft.SetFault(vllmsim.Fault{CleanEOFAfterTokens: 2 + want.usage.Completion/3, For: 1}); err != nil {
				t.Fatal(err)
			}
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if rc.Tier == plan.Mixed {
				seams++
			}
			// Where within its chunk the stop string ends is not told: all of it is counted.
			if off := got.usage.Completion - want.usage.Completion; got.text != want.text || off < 0 || off >= interval {
				t.Errorf("chunks of %d: %q told %+v, want %q, %+v; %s", interval, got.text, got.usage, want.text, want.usage, rc.Acceptance())
			}
		}
		if seams < n/2 {
			t.Errorf("%d seams: the test shows nothing", seams)
		}
	}
}
