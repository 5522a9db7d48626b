package app_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/tiers/risk"
)

// TestAFleetCertifiesTogetherWhatNobodyKnew goes from nothing to the last threshold: by traffic
// alone, at three replicas.
func TestAFleetCertifiesTogetherWhatNobodyKnew(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	w := newRiskFleet(t, 3, "")
	w.each(t, func(r riskReply) bool {
		if !r.bypassed() || r.grant != "g0.a0.op0" {
			t.Errorf("nothing is known, and a client was told %v", r)
		}
		return true
	})
	k := w.key(t)
	l := w.load(t, 4, 6, w.replicas...)
	apptest.Within(t, 2*riskSlow, "the last threshold is certified", func() bool {
		s := w.state(t, k)
		return len(s.Grid) > 0 && s.Op == len(s.Grid)
	})
	s := w.state(t, k)
	want := fmt.Sprintf("g%d.a0.op%d", s.Version, s.Op)
	took, slowest := w.until(t, "all serve by the last threshold", func(r riskReply) bool { return r.accepted() && r.grant == want })
	promised(t, "all serve by the last threshold", took, 2*time.Second, slowest)
	l.unharmed(t)
	w.quiet(t, k)
	if len(s.Grid) < 2 {
		t.Errorf("%d thresholds are too few", len(s.Grid))
	}
	e := w.sound(t, k)
	count := func(label string) int {
		return summed(t, w.replicas, "foregate_audits_total", `label="`+label+`"`)
	}
	if got := count("learned"); got != risk.GridScores {
		t.Errorf("replicas have told %d scores for the grid, want %d", got, risk.GridScores)
	}
	if got := count("good") + count("bad"); got != e.Audits || count("lost") != 0 {
		t.Errorf("replicas have closed %d audits and lost %d, Redis counts %d", got, count("lost"), e.Audits)
	}
	if got := e.K[len(s.Grid)-1]; got > count("bad") {
		t.Errorf("%d are bad, replicas know of %d", got, count("bad"))
	}
	drafts := summed(t, w.replicas, "foregate_acceptance_total", `verdict="accepted"`, `mode="risk"`)
	t.Logf("%d thresholds, %d audits, %d drafts served", len(s.Grid), e.Audits, drafts)
	if drafts < l.drafts || drafts == 0 {
		t.Errorf("%d drafts were served, replicas count %d", l.drafts, drafts)
	}
}

var labelled = regexp.MustCompile(`(?m)^(foregate_\w+)\{([^}]*)\} (\S+)$`)

// summed adds up the series of a metric at some replicas whose labels hold all of the words.
func summed(t *testing.T, replicas []*apptest.Replica, name string, words ...string) (total int) {
	t.Helper()
	for _, p := range replicas {
		for _, m := range labelled.FindAllStringSubmatch(p.Metrics(t), -1) {
			if m[1] != name || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(m[2], word) }) {
				continue
			}
			v, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			total += int(v)
		}
	}
	return total
}
