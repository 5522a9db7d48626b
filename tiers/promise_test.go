package tiers

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// fine is a grid whose thresholds lie among the scores of the simulator's drafts.
var fine = risk.Grid{0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0, -0.5, -1}

// audited counts the audits that were opened since, with a score of their own threshold or more.
func (n *notebook) audited(since int) (served int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.opened[since:] {
		if a.Score >= a.Threshold {
			served++
		}
	}
	return served
}

func (n *notebook) so() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened)
}

func TestWhatIsServedUnverifiedIsWhatAuditsAreOf(t *testing.T) {
	for what, change := range map[string]func(*plan.Config){
		"streams":               func(*plan.Config) {},
		"nothing is taken over": func(c *plan.Config) { c.MidstreamFailover = false },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{})
			n.grid, n.op = fine, 3
			change(&r.cfg)
			served := 0
			for i := range sample(30, 60) {
				before := n.so()
				_, rc, err := r.ask(openai.Chat, plan.Auto, chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":120,"stream":%v`, i%3 > 0)))
				if err != nil {
					t.Fatal(err)
				}
				r.rests(t)
				if rc.Tier == plan.Draft {
					if got := n.audited(before); got != 1 {
						t.Errorf("%s from the draft: %d audits are of it", rc.Acceptance(), got)
					}
					served++
				}
			}
			if served == 0 {
				t.Error("nothing was served: the test shows nothing")
			}
		})
	}
}
