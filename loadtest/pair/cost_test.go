package pair

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAnswersWithoutUsageHaveNoPrice(t *testing.T) {
	r := measured(t, withoutUsage(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35})), withoutUsage(t, simulated(t, vllmsim.Options{Model: "large"})), nil)
	for _, name := range []string{wayAlone, wayAgain, wayDraft, wayOff, wayRisk, wayLenient, wayConfidence, wayVerify} {
		if w := row(t, r, name); w.USD != nil {
			t.Errorf("%+v, want no USD", w)
		}
	}
	if m := figure(t, r, "cost"); m.Value != nil || !strings.HasPrefix(m.Why, "the target sends no usage") {
		t.Errorf("%+v, want no ratio, and why", m)
	}
}

func TestAFailedAnswerLeavesItsQuestionOutOfTheCosts(t *testing.T) {
	question := questions(8)[7].text
	var drafting atomic.Bool // the target was asked all of it
	target := fronted(t, simulated(t, vllmsim.Options{Model: "large"}), func(w http.ResponseWriter, r *http.Request) bool {
		if drafting.Load() || !strings.Contains(body(t, r), question) {
			return false
		}
		dropped(t, w)
		return true
	})
	draft := fronted(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35}), func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(body(t, r), question) {
			drafting.Store(true)
		}
		return false
	})
	r := measured(t, draft, target, nil)
	if alone := row(t, r, wayAlone); alone.Failed != 1 || alone.Answers != 9 {
		t.Fatalf("%+v, want one failure", alone)
	}
	for _, mode := range []string{wayRisk, wayLenient, wayConfidence, wayVerify} {
		m := figure(t, r, "cost of mode "+mode)
		want := 9
		if mode == wayRisk {
			want = 4
		}
		if m.Value == nil || m.Of != want || m.Why != fmt.Sprintf("1 of %d questions were not answered in both ways", want+1) {
			t.Errorf("%+v, want the cost of the others", m)
		}
	}
}
