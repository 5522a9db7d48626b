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
	got := able(without("risk", "confidence"), "verify")
	for _, want := range []string{
		"risk         not available: pool target: cannot risk\n", "verify       runs: each draft is held",
		"confidence   not available: pool target: cannot confidence\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if got := able(without("risk", "verify", "confidence"), "off"); !strings.Contains(got, "off          runs: no draft can be judged") {
		t.Error(got)
	}
}
