package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestTotalsAreOfAllAnswersAndOfAllOfTheRent(t *testing.T) {
	r := NewRecorder(0)
	add := func(n int, o Outcome) {
		o.Done = time.Second
		for range n {
			r.Add(o)
		}
	}
	add(6, Outcome{End: Answered, Checked: true, TargetTokens: 50, Priority: "high"})
	add(2, Outcome{End: Answered, Checked: true, Acceptance: "accepted", Tier: "draft", Wrong: true, WrongAnswer: true, DraftTokens: 50})
	add(1, Outcome{End: Answered, Checked: true, Acceptance: "rejected", Tier: "mixed", WrongAnswer: true, TargetTokens: 50})
	add(1, Outcome{End: Answered, Checked: true, Cached: true, Acceptance: "accepted", Tier: "draft", Wrong: true, WrongAnswer: true, DraftTokens: 50})
	add(3, Outcome{End: Shed, Priority: "low"})
	add(1, Outcome{End: Failed, Priority: "normal"})
	res := &Result{Case: "x", Window: 30 * time.Minute, Recorder: r, Totals: true, Pools: []Usage{
		{Tier: "draft", Backends: 10, GPUs: 1, USDPerHour: 1, Busy: 90 * time.Minute},
		{Tier: "target", Backends: 2, GPUs: 2, USDPerHour: 5, Busy: 45 * time.Minute},
	}}
	got := res.Row()
	for name, pair := range map[string][2]float64{
		"wrong": {got.DisagreementOfAll, .4}, "normal": {float64(got.NormalLost), 1}, "low": {float64(got.LowLost), 3},
		"rent": {got.Rent, 20}, "per million": {got.RentPerMTok, 10e6 / 500},
		"busy": {got.Utilisation, 3. / 7}, "draft": {got.DraftUtilisation, .3}, "target": {got.TargetUtilisation, .75},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	table := strings.Join(strings.Fields((&Report{Results: []*Result{res}}).Table()), " ")
	for _, line := range []string{"Disagreement of all, % 40.0", "Rent per hour, $ 20.0", "Target GPUs busy, % 75.0"} {
		if !strings.Contains(table, line) {
			t.Errorf("the table has no line %q:\n%s", line, table)
		}
	}
	res.Totals = false
	if row := res.Row(); row.Rent != 0 || row.DisagreementOfAll != 0 || strings.Contains((&Report{Results: []*Result{res}}).Table(), "Rent") {
		t.Errorf("a scenario without totals has them: %+v", row)
	}
}
