package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/loadtest/planner"
	"github.com/foregate/foregate/tiers/risk"
)

func TestAPlanIsHeldAgainstTheHoursOfTheLedger(t *testing.T) {
	hour := time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour)
	ttft := ledger.Histogram{0, 0, 0, 0, 0, 0, 0, 0, 0, 3600} // 56 to 100 ms
	of := func(at time.Time, route string, answers int64) ledger.Hour {
		return ledger.Hour{Begin: at, Route: route, Answers: answers, Completion: 100 * answers, USD: ledger.NanosOf(1), TTFT: ttft, E2E: ttft}
	}
	admin := startAnswering(t, http.StatusOK, ledger.Hours{Hours: []ledger.Hour{of(hour, "a", 3600), of(hour, "b", 3600), of(hour.Add(time.Hour), "a", 3600), of(hour.Add(2*time.Hour), "a", 100)}}).URL
	plan := filepath.Join(t.TempDir(), "plan.json")
	text := `{"engine_requests_per_s": 1, "fleets": [{"fleet": "1 × a", "rent_usd_per_hour": 7.2, "ttft_p99_ms": {"mean": 99}, "token_usd_per_mtok": {"mean": 2.5}}]}`
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"plan", "check", plan, "--admin", admin}, &stdout, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, stderr.String())
	}
	got := strings.Join(strings.Fields(stdout.String()), " ")
	for _, want := range []string{
		"2 hours with 10800 answers; the busiest began " + hour.Format("2006-01-02 15:04"), "requests/s 1 1.5 -33 % 2 -50 %", "TTFT p99 s 0.099 0.0994 -0 %",
		"$/M, by token prices 2.5 2.78 -10 % 2.78 -10 %", "$/M, of the rent 0 13.3 – 10 –",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, stdout.String())
		}
	}
	for args, want := range map[string]string{"--route c": "no hour of the last week has 200 answers", "--fleet x": "the plan's first is 1 × a"} {
		if code := run(append([]string{"plan", "check", plan, "--admin", admin}, strings.Fields(args)...), &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %s, want %s", args, stderr.String(), want)
		}
	}
	if code := run([]string{"plan", "check", "plancheck.go"}, &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), "want a plan with a fleet") {
		t.Error(stderr.String())
	}
}

// frontier is one of audits that would serve shares of the drafts at disagreements of .05 and .2.
func frontier(perDay, share float64) risk.Frontier {
	return risk.Frontier{Known: true, Audits: 500, RequestsPerDay: &perDay, Points: []risk.FrontierPoint{
		{MaxDisagreement: 0.05, Share: risk.Range{Low: share - 0.1, Estimate: share, High: share + 0.1}}, {MaxDisagreement: 0.2, Share: risk.Range{Low: 0.9, Estimate: 0.9, High: 0.9}},
	}}
}

func TestTheAcceptanceIsWhatTheAuditsOfAGatewayShow(t *testing.T) {
	all := []risk.Frontier{frontier(100, 0.5), frontier(300, 0.3), {Known: false}}
	if got, audits := accepted(all, 0.1); fmt.Sprint(got) != "[0.25 0.35 0.45]" || audits != 1000 {
		t.Errorf("%v of %d audits", got, audits)
	}
	if got, audits := accepted(all, 0.01); len(got) != 0 || audits != 0 {
		t.Errorf("below all: %v of %d audits", got, audits)
	}
	admin := startAnswering(t, http.StatusOK, risk.Frontiers{Frontiers: all}).URL
	c := &planFindCmd{From: admin, Max: 0.1}
	var o planner.Options
	if err := c.ask(&env{ctx: t.Context()}, &o); err != nil || !slices.Equal(o.Acceptance, []float64{0.25, 0.35, 0.45}) || len(o.Assumed) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	c.Max = 0.01
	if err := c.ask(&env{ctx: t.Context()}, &o); err == nil || !strings.Contains(err.Error(), "run mode shadow") {
		t.Errorf("%v", err)
	}
}
