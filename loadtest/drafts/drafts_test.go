package drafts

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
)

func TestADraftIsReadAsItWasWritten(t *testing.T) {
	want := Draft{
		Task: "sums", Model: "near", Features: accept.Features{-.25, -1.125, -.5, -.125, -2.079, -.693, -1}, Score: -.75, Gap: 2.5,
		Lenient: true, Judged: true, Alike: true,
	}
	unasked := Draft{Task: "why", Model: "worse", Same: true}
	got, err := Read(strings.NewReader(Head + "\n" + want.Line() + "\n" + unasked.Line() + "\n"))
	if err != nil || len(got) != 2 || got[0] != want || got[1] != unasked {
		t.Errorf("%+v, %v", got, err)
	}
	for _, line := range []string{"", "sums,near,1", strings.Replace(want.Line(), "2500", "x", 1), want.Line() + "1"} {
		if _, err := Read(strings.NewReader(Head + "\n" + line + "\n")); err == nil {
			t.Errorf("%q is read", line)
		}
	}
}
