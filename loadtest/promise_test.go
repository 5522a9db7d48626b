package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestDraftsServedOnTheirOwnWordAreCountedBeforeAndAfterTheDrift(t *testing.T) {
	r := NewRecorder(0)
	add := func(n int, o Outcome) {
		o.End, o.Checked, o.Done = Answered, true, time.Second
		for range n {
			r.Add(o)
		}
	}
	add(8, Outcome{Tier: "draft", Acceptance: "accepted", Unverified: true, DraftTokens: 10})
	add(2, Outcome{Tier: "draft", Acceptance: "accepted", Unverified: true, Wrong: true, DraftTokens: 10})
	add(1, Outcome{Tier: "draft", Acceptance: "rejected", Unverified: true, Wrong: true, Drifted: true}) // it was committed
	add(3, Outcome{Tier: "draft", Acceptance: "accepted", Unverified: true, Drifted: true})
	add(4, Outcome{Tier: "draft", Acceptance: "accepted"}) // the target stood by all of it
	add(2, Outcome{Tier: "draft", Acceptance: "accepted", Unverified: true, Wrong: true, Cached: true})
	res := &Result{Case: "x", Recorder: r, Promise: &Promise{
		Eps: .1, Audits: 7, Lost: 1, Recovered: time.Minute, First: time.Hour, All: 2 * time.Hour,
		USD: [2]float64{1, 4}, AuditsUSD: [2]float64{.5, .2},
	}}
	got := res.Row()
	want := Row{Served: 14. / 20, UnverifiedDisagreement: 3. / 14, DisagreementBefore: .2, DisagreementAfter: .25, Audits: 7, AuditsLost: 1, Recovered: 60,
		FirstCertificate: 3600, AllCertificates: 7200, AuditsOfDraft: .5, AuditsOfTarget: .05, PricedPerMTok: 5e6 / 100}
	for name, pair := range map[string][2]float64{
		"served": {got.Served, want.Served}, "wrong": {got.UnverifiedDisagreement, want.UnverifiedDisagreement},
		"before": {got.DisagreementBefore, want.DisagreementBefore}, "after": {got.DisagreementAfter, want.DisagreementAfter},
		"audits": {float64(got.Audits), 7}, "lost": {float64(got.AuditsLost), 1}, "until": {got.Recovered, 60},
		"first": {got.FirstCertificate, 3600}, "all": {got.AllCertificates, 7200},
		"of draft": {got.AuditsOfDraft, .5}, "of target": {got.AuditsOfTarget, .05}, "priced": {got.PricedPerMTok, want.PricedPerMTok},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	table := strings.Join(strings.Fields((&Report{Results: []*Result{res}}).Table()), " ")
	for _, line := range []string{"Answers by the draft, % 70", "Audits lost 1", "Audits of target cost, % 5"} {
		if !strings.Contains(table, line) {
			t.Errorf("the table has no line %q:\n%s", line, table)
		}
	}
	if other := (&Report{Results: []*Result{{Case: "x", Recorder: r}}}).Table(); strings.Contains(other, "Audits") {
		t.Errorf("a table in which nobody promises anything has audits:\n%s", other)
	}
}
