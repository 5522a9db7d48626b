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
		drafts     *gateway.DraftView
		want, told string
	}{
		{without(), "risk", "verify       works\n"},
		{without("verify"), "risk", "verify       not available: pool target: cannot verify\n"},
		{without("risk"), "verify", "verify       runs: each draft is held"},
		{without("risk", "verify"), "confidence", "risk         not available: pool target: cannot risk\n"},
		{without("risk", "verify", "confidence"), "off", "off          runs: no draft can be judged"},
	} {
		if got, told := choose(c.drafts); got != c.want || !strings.Contains(told, c.told) {
			t.Errorf("without %v it is %s, not %s:\n%s", c.drafts.UnavailableModes, got, c.want, told)
		}
	}
}
