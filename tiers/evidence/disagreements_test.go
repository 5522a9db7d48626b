package evidence

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// labelled is an audit of the log at a minute, whose labels say what the text says.
func labelled(t *testing.T, minute int, request, labels string) LogEntry {
	t.Helper()
	said, err := risk.ParseLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	return LogEntry{When: time.Unix(int64(60*minute), 0), Key: chat, Request: request, Score: float64(minute), Tokens: 10 * minute, Labels: said}
}

func TestDisagreementsShowTheNewestDraftsThatLabelsCallDifferently(t *testing.T) {
	var entries []LogEntry
	for i := range 8 {
		entries = append(entries, labelled(t, i, fmt.Sprint("r", i), "exact=bad loose=good prefix_share=0.5"))
	}
	entries = append(entries,
		labelled(t, 20, "all-good", "exact=good loose=good judge=bad prefix_share=1"),
		labelled(t, 21, "", "exact=bad loose=good prefix_share=0.1"), // nobody knows of which request
		labelled(t, 22, "unlabelled", ""),
	)
	got := Disagreements(entries, 5)
	if len(got) != 3 || got[0].Bad != risk.LabelExact || got[0].Good != risk.LabelLoose || got[0].Both != 10 || got[0].Disagree != 9 {
		t.Fatalf("%+v", got)
	}
	if ex := got[0].Examples; len(ex) != 5 || ex[0].Request != "r7" || ex[4].Request != "r3" || ex[0].Score != 7 || ex[0].Tokens != 70 || ex[0].PrefixShare != 0.5 {
		t.Errorf("%+v", ex)
	}
	for _, d := range got[1:] {
		if d.Bad != risk.LabelJudge || d.Both != 1 || d.Disagree != 1 || d.Examples[0].Request != "all-good" {
			t.Errorf("%+v", d)
		}
	}
	if got := Disagreements(nil, 5); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}
