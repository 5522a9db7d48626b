package tiers

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// TestAWarmUpCountsAsServedWhatTheTargetDidNotVerify has whole answers, of which the target verifies the doubtful ones.
func TestAWarmUpCountsAsServedWhatTheTargetDidNotVerify(t *testing.T) {
	r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.2}, vllmsim.Options{})
	r.cfg.Risk.Warmup, r.cfg.Risk.WarmupDuration, r.cfg.HeadCheck = true, time.Hour, plan.HeadAlways
	r.cfg.Risk.Rule.MaxWrongRate, n.rule.MaxWrongRate = 0.05, 0.05 // so few audits say nothing of that
	r.cfg.MidstreamFailover, r.cfg.Accept.Band = false, 0.3
	for i := range 16 { // as scores of such drafts are
		n.grid = append(n.grid, 0.319-0.005*float64(i))
	}
	cohorts := map[accept.Cohort]int{}
	for i := range 60 {
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat(fmt.Sprint("question ", i), `,"max_tokens":40`))
		if err != nil {
			t.Fatal(err)
		}
		if rc.Tier == plan.Draft && rc.Verdict.Accept {
			cohorts[rc.Verdict.Cohort]++
		}
	}
	r.rests(t)
	n.mu.Lock()
	defer n.mu.Unlock()
	served, drafts := 0, 0
	for _, s := range n.states {
		served, drafts = served+s.Warmup.Served, drafts+s.Warmup.Drafts
	}
	if cohorts[accept.CohortWarmup] == 0 || cohorts[accept.CohortWhole] == 0 || served != cohorts[accept.CohortWarmup] || drafts == 0 {
		t.Errorf("of %d drafts %d count as served; they were accepted by %v", drafts, served, cohorts)
	}
}
