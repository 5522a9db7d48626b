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
	} {
		s := simulated(t, vllmsim.Options{Seed: 3, Fault: vllmsim.Fault{Score: c.score}})
		e := allAsked(t, &asker{upstream: up(t), timeout: time.Minute, url: s.URL(), model: "sim"})
		found := e.card(nil)
		why := found.MissingReason(MissingScoring)
		if found.Scoring != "" || !strings.HasPrefix(why, c.why) || (e.again != "") != c.weak || e.deadly {
			t.Errorf("%s: %q, missing %q, again %q, deadly %v", c.score, found.Scoring, why, e.again, e.deadly)
		}
		if found.MissingReason(MissingContinue) != "" || found.Tokenizer == "" || len(found.EOS) == 0 {
			t.Errorf("%s: %+v", c.score, found)
		}
	}
}
