package demo

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
)

// without are drafts of a route whose engines do not allow some modes.
func without(modes ...string) *gateway.DraftView {
	d := &gateway.DraftView{}
	for _, m := range modes {
		d.UnavailableModes = append(d.UnavailableModes, gateway.UnavailableView{Name: m, Reason: "pool target: cannot " + m})
	}
	return d
}

func TestAPairRunsTheFirstModeThatItsEnginesAllow(t *testing.T) {
	for _, c := range []struct {
		drafts *gateway.DraftView
		want   string
	}{
		{without(), "risk"},
		{without("verify"), "risk"},
		{without("risk"), "verify"},
		{without("risk", "verify"), "confidence"},
		{without("risk", "verify", "confidence"), "off"},
	} {
		if got := choose(c.drafts); got != c.want {
			t.Errorf("without %v it is %s, not %s", c.drafts.UnavailableModes, got, c.want)
		}
	}
}

func TestWhatAPairCanDoIsTold(t *testing.T) {
	engines := []gateway.EngineView{
		{Pool: "draft", Missing: []gateway.UnavailableView{{Name: "logprobs", Reason: "none"}, {Name: "eos", Reason: "unseen"}}},
		{Pool: "target", Scoring: "completions", Continues: true},
	}
	got := able(engines, without("risk", "confidence"), "verify")
	for _, want := range []string{
		"draft   answers\n          it lacks logprobs, eos\n", "target  answers, tells logprobs, scores a given text, goes on from token ids\n",
		"risk         not available: pool target: cannot risk\n", "verify       runs: each draft is held",
		"confidence   not available: pool target: cannot confidence\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	got = able([]gateway.EngineView{{Pool: "draft", Age: -1, Failed: "status 500"}}, without("risk", "verify", "confidence"), "off")
	for _, want := range []string{"draft   is not known yet: status 500", "off          runs: no draft can be judged"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}
