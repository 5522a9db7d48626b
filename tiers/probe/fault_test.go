package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// What goes wrong with scores alone costs an engine its scoring and nothing else.
func TestFaultsOfScoringAreTold(t *testing.T) {
	for _, c := range []struct {
		score string
		why   string
		weak  bool // it may be better soon
	}{
		{"error", "completions: status 500", true},
		{"hang", "completions: no answer to /v1/completions within 2s", true},
		{"short", "completions: token 1 of 8, id ", false},
		{"misaligned", "completions: ", false},
		{"garbage", "completions: ", false},
	} {
		s := engine(t, vllmsim.Options{Seed: 3, Fault: vllmsim.Fault{Score: c.score}})
		timeout := time.Minute
		if c.score == "hang" {
			timeout = 2 * time.Second
		}
		e := &probeRun{asker: &asker{transport: transport(t), timeout: timeout, url: s.URL(), model: "sim"}}
		if err := e.run(t.Context()); err != nil {
			t.Errorf("%s: %v", c.score, err)
			continue
		}
		why := e.found.MissingReason(MissingScoring)
		if e.found.Scoring != "" || !strings.HasPrefix(why, c.why) || (e.weak != "") != c.weak || e.deadly {
			t.Errorf("%s: %q, missing %q, weak %q, deadly %v", c.score, e.found.Scoring, why, e.weak, e.deadly)
		}
		if e.found.MissingReason(MissingContinue) != "" || e.found.Tokenizer == "" || len(e.found.EOS) == 0 {
			t.Errorf("%s: %+v", c.score, e.found)
		}
	}
}
