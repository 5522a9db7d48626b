package pair

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAnswersWithoutUsageHaveNoPrice(t *testing.T) {
	r := measured(t, withoutUsage(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35})), withoutUsage(t, simulated(t, vllmsim.Options{Model: "large"})), nil)
	for _, name := range []string{wayAlone, wayAgain, wayDraft, wayOff, wayRisk, wayLenient, wayConfidence, wayVerify, waySeams} {
		if w := row(t, r, name); w.USD != nil || w.Uncounted != 10 || !strings.Contains(w.WhyNoUSD, "the tokens of 10 of 10 answers are not known, because an engine sends no usage") {
			t.Errorf("%+v, want no USD, and why", w)
		}
	}
	if m := figure(t, r, "cost"); m.Value != nil || !strings.HasPrefix(m.Why, "the target sends no usage") {
		t.Errorf("%+v, want no ratio, and why", m)
	}
	if page := r.Markdown(); !strings.Contains(page, "| ≥ 0 |") || !strings.Contains(page, "no USD: the tokens") {
		t.Error("the page shows the tokens as if they were all:\n" + page)
	}
}

func TestADraftWithoutUsageHasNoPriceOfItsOwn(t *testing.T) {
	draft := simulated(t, vllmsim.Options{Model: "small", Engine: "openai", Divergence: .35})
	r := measured(t, withoutUsage(t, draft), simulated(t, vllmsim.Options{Model: "large"}), nil)
	if alone, draft := row(t, r, wayAlone), row(t, r, wayDraft); alone.USD == nil || draft.USD != nil {
		t.Errorf("%+v, %+v; want a price of the target's answers alone", alone, draft)
	}
	if off := row(t, r, wayOff); off.USD == nil || *off.USD != *row(t, r, wayAlone).USD {
		t.Errorf("%+v, want the price of the target alone", off)
	}
	for _, mode := range []string{wayLenient, wayVerify} { // the gateway estimates the prompt of these drafts
		if m := figure(t, r, "cost of mode "+mode); m.Value != nil || !strings.HasPrefix(m.Why, "the draft sends no usage") || row(t, r, mode).USD != nil {
			t.Errorf("%+v, want no ratio, and why", m)
		}
	}
}

func TestAFailedAnswerLeavesItsQuestionOutOfTheCosts(t *testing.T) {
	question := prompts(4)[3].text
	var failed atomic.Bool
	target := fronted(t, simulated(t, vllmsim.Options{Model: "large"}), func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(body(t, r), question) || failed.Swap(true) {
			return false
		}
		dropped(t, w)
		return true
	})
	r := measured(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35}), target, nil)
	if alone := row(t, r, wayAlone); alone.Failed != 1 || alone.Answers != 9 {
		t.Fatalf("%+v, want one failure", alone)
	}
	for _, mode := range []string{wayRisk, wayLenient, wayConfidence, wayVerify} {
		m := figure(t, r, "cost of mode "+mode)
		if m.Value == nil || m.Of != 9 || m.Why != "1 of 10 questions were not answered in both ways" {
			t.Errorf("%+v, want the cost of the other nine", m)
		}
	}
}

func TestTheReasonOfAMissingCostIsExact(t *testing.T) {
	prices := Options{DraftPrice: Price{1, 1}, TargetPrice: Price{2, 2}}
	usage := &answer.Usage{Prompt: 5, Completion: 5}
	own := []sample{{prompt: 0, tier: poolTarget, usage: usage}, {prompt: 1, tier: poolTarget, err: http.ErrHandlerTimeout}}
	with := receiptOf(t, `{"id":"a","route":"r","tier":"draft","tokens":{"prompt":5,"drafted":5}}`)
	without := receiptOf(t, `{"id":"a","route":"r","tier":"draft","tokens":{"drafted":5}}`)
	drafts, silentDrafts := []sample{{tier: poolDraft, usage: usage}}, []sample{{tier: poolDraft}}
	for _, c := range []struct {
		o             Options
		alone         []sample
		draft, verify []sample
		want          string
		compared      int
	}{
		{Options{}, own, drafts, nil, "no prices were given (--target-usd-per-million and --draft-usd-per-million); tokens are below", 0},
		{Options{DraftPrice: Price{1, 1}}, own, drafts, nil, "no prices of the target were given (--target-usd-per-million); tokens are below", 0},
		{prices, []sample{{tier: poolTarget}}, drafts, nil, "the target sends no usage with its answers, so the tokens of its prompts are not known; tokens are below", 0},
		{prices, own, drafts, []sample{{prompt: 1, receipt: with}}, "no question was answered both in this mode and by the target alone", 0},
		{prices, own, drafts, []sample{{prompt: 0, receipt: without}}, "the tokens of some answers are not known, because they came without usage", 0},
		{prices, own, silentDrafts, []sample{{prompt: 0, receipt: with}}, "the draft sends no usage with its answers, so the tokens of its prompts are not known", 0},
		{prices, own, drafts, nil, errOver.Error(), 0},
		{prices, own, drafts, []sample{{prompt: 0, receipt: with}}, "1 of 2 questions were not answered in both ways", 1},
		{prices, []sample{own[0], {prompt: 1, tier: poolTarget}}, drafts, []sample{{prompt: 0, receipt: with}, {prompt: 1, receipt: with}}, "to 1 of 2 questions the target alone sent no usage", 1},
	} {
		m := &run{Options: c.o, list: prompts(2), alone: c.alone, ways: map[string][]sample{wayDraft: c.draft, wayLenient: c.verify}}
		costs := m.costs()
		if last := costs[len(costs)-1]; last.Why != c.want || (last.Value != nil) != (c.compared > 0) || last.Of != c.compared {
			t.Errorf("%+v, want %q", last, c.want)
		}
	}
}
