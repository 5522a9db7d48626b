package pair

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAnswersWithoutUsageHaveNoPrice(t *testing.T) {
	r := measured(t, withoutUsage(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35})), withoutUsage(t, simulated(t, vllmsim.Options{Model: "large"})), nil)
	for _, name := range []string{wayAlone, wayAgain, wayDraft, wayOff, wayRisk, wayLenient, wayConfidence, wayVerify, waySeams} {
		if w := row(t, r, name); w.USD != nil {
			t.Errorf("%+v, want no USD", w)
		}
	}
	if m := figure(t, r, "cost"); m.Value != nil || !strings.HasPrefix(m.Why, "the target sends no usage") {
		t.Errorf("%+v, want no ratio, and why", m)
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
