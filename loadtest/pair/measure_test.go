package pair

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

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
	of := func(check string) sample {
		return sample{class: classCode, receipt: receiptOf(t, `{"id":"a","route":"r","verdict":{"reason":"x","score":0.25,"tokens":9},"checks":[`+check+`]}`)}
	}
	j := judgedBy([]sample{
		of(`{"scorer":"ids","tokens":9,"pass":true,"reason":"target_agrees"}`),
		of(`{"scorer":"ids","tokens":4,"pass":true,"reason":"target_agrees"}`), // of a part
		of(`{"scorer":"ids","tokens":9,"pass":false,"reason":"no_verdict"}`),
		of(`{"scorer":"ids","tokens":9,"pass":false,"reason":"target_disagrees"}`),
		of(``), {},
	})
	if len(j.good) != 2 || !j.good[0] || j.good[1] || j.scores[0] != .25 {
		t.Errorf("%+v", j)
	}
	all := j.measures("unused")
	if v := all[0]; v.Value == nil || *v.Value != .5 || v.Of != 2 {
		t.Errorf("%+v", v)
	}
	if chat := all[1]; chat.Value != nil || chat.Why != "unused" {
		t.Errorf("%+v, want no figure of chat", chat)
	}
	if area := all[3]; area.Value == nil || *area.Value != .5 {
		t.Errorf("%+v, want chance of equal scores", area)
	}
	one := judged{scores: []float64{1, 2}, good: []bool{true, true}, classes: []string{classChat, classChat}}
	if area := one.measures("")[3]; area.Value != nil || !strings.Contains(area.Why, "same label") {
		t.Errorf("%+v, want none of one kind alone", area)
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
	if r.Compared != 2 || r.Exact != 1 || r.MixedExact != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAStreamIsBrokenOffBetweenTwoEvents(t *testing.T) {
	const text = "data: 1\n\ndata: 2\n\ndata: 3\n\n"
	for events := 1; events <= 3; events++ {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := io.ReadAll(&cutBody{ReadCloser: io.NopCloser(from), left: events})
			if want := text[:9*events]; string(got) != want || err != io.ErrUnexpectedEOF {
				t.Errorf("%s: after %d events %q, %v; want %q", name, events, got, err, want)
			}
		}
	}
	got, err := io.ReadAll(&cutBody{ReadCloser: io.NopCloser(strings.NewReader(text)), left: 4})
	if string(got) != text || err != nil {
		t.Errorf("a short stream: %q, %v", got, err)
	}
}
