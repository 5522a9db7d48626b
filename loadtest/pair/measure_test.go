package pair

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/answer"
)

// receiptOf reads a receipt.
func receiptOf(t *testing.T, text string) *receipt {
	t.Helper()
	var r receipt
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestOnlyDraftsThatTheTargetSaidSomethingOfHaveALabel(t *testing.T) {
	for check, want := range map[string][2]bool{
		`{"scorer":"ids","tokens":9,"pass":true,"reason":"target_agrees"}`:     {true, true},
		`{"scorer":"ids","tokens":4,"pass":true,"reason":"target_agrees"}`:     {true, false}, // of a part
		`{"scorer":"ids","tokens":9,"pass":false,"reason":"no_verdict"}`:       {false, false},
		`{"scorer":"ids","tokens":9,"pass":false,"reason":"target_disagrees"}`: {false, true},
		``: {false, false},
	} {
		s := sample{receipt: receiptOf(t, `{"id":"a","route":"r","verdict":{"reason":"x","score":0.25,"tokens":9},"checks":[`+check+`]}`)}
		if good, known := s.label(); good != want[0] || known != want[1] {
			t.Errorf("%s: %v, known %v; want %v", check, good, known, want)
		}
	}
	if _, known := (&sample{}).label(); known {
		t.Error("a draft without a receipt has a label")
	}
}

// audits are drafts with falling scores, of which those with a score below a bound are bad.
func audits(n int, bad float64) (all []audit) {
	for i := range n {
		score := -float64(i*7919%n) / float64(n)
		all = append(all, audit{question: i % 7, score: score, good: score >= bad})
	}
	return all
}

func TestEvidenceIsWhatTheGatewaysOwnFunctionsMakeOfAudits(t *testing.T) {
	list := questions(7)
	e := evidenceOf("x", "", audits(500, -.5), list)
	if e.Audits != 500 || e.Good != 251 || e.Areas[0].AUROC != 1 {
		t.Errorf("%+v", e)
	}
	for i, rate := range comparedRates {
		p, r := e.Points[i], e.Replays[i]
		if p.MaxDisagreement != rate || p.Certified > .5/(1-rate)+.05 || p.Expected.High < .4 || r.Certified == 0 || r.Exceeded > 2 || r.Bad > r.Served/10 || r.Requests < 2*(200+r.Audits) {
			t.Errorf("ε = %v: %+v, %+v", rate, p, r)
		}
	}
	if rate, ok := promised(audits(300, -.5)); !ok || rate != .1 {
		t.Errorf("%v, %v; want the smallest rate that the audits certify", rate, ok)
	}
	if _, ok := promised(audits(300, 1)); ok {
		t.Error("audits that are all bad certify something")
	}
	all := evidenceOf("x", "", audits(300, 1), list)
	if all.Areas != nil || !strings.Contains(all.Why, "all 300 drafts have the same label") || all.Replays[2].Certified > 0 {
		t.Errorf("%+v, want no score that tells", all)
	}
	if none := evidenceOf("x", "because", nil, list); none.Why != "because" || none.Replays != nil {
		t.Errorf("%+v", none)
	}
}

func TestProportionsHaveWilsonsIntervals(t *testing.T) {
	if p := proportion(5, 100); math.Abs(p.Low-.0215) > 1e-4 || math.Abs(p.High-.1118) > 1e-4 {
		t.Errorf("%+v", p)
	}
	if p := proportion(0, 10); p.Low != 0 || math.Abs(p.High-.2775) > 1e-4 {
		t.Errorf("%+v", p)
	}
	if p := proportion(0, 0); p.text() != "" || p.High != 1 {
		t.Errorf("%+v", p)
	}
}

func TestWorkIsPricedByWhatEachEngineComputed(t *testing.T) {
	text := `{"id":"a","route":"r","tier":"mixed","tokens":{"prompt":100,"drafted":40,"accepted":30,"scored":140,"target":50}}`
	samples := []sample{
		{tier: tierMixed, receipt: receiptOf(t, text)},
		{tier: poolDraft, usage: &answer.Usage{Prompt: 7, Completion: 3}},
		{tier: poolTarget, usage: &answer.Usage{Prompt: 8, Completion: 4}},
		{tier: poolTarget, err: io.ErrUnexpectedEOF},
	}
	r := rowOf("x", samples, nil)
	want := Work{DraftInput: 107, DraftOutput: 43, TargetInput: 138, TargetOutput: 54, Scored: 140}
	if r.Work != want || r.Answers != 3 || r.Failed != 1 || r.Failure == "" || r.Compared != 0 || r.Mixed != 1 || r.Draft != 1 || r.Target != 1 {
		t.Errorf("%+v", r)
	}
	if got, wantUSD := r.Work.usd(Price{1, 10}, Price{100, 1000}), (107+430+27800+54000)/1e6; got != wantUSD {
		t.Errorf("%v, want %v", got, wantUSD)
	}
}

func TestAnswersAreComparedWithTheTargetsOwn(t *testing.T) {
	alone := []sample{{prompt: 0, text: "a"}, {prompt: 1, text: "b"}, {prompt: 2, err: io.EOF}}
	r := rowOf("x", []sample{{prompt: 0, text: "a", tier: tierMixed}, {prompt: 1, text: "c", tier: poolDraft}, {prompt: 2, text: "d", tier: poolTarget}}, alone)
	if r.Compared != 2 || r.Exact != 1 {
		t.Errorf("%+v", r)
	}
}
