package replay

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/accept"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestEveryBadLineIsNamed(t *testing.T) {
	long := `{"id":"` + strings.Repeat("x", maxLine) + `"}`
	text := strings.Join([]string{
		`{"id":"a","route":"r"}`, "", "no JSON", `{"id":"b"}`, long, `{"level":"info","receipt":{"id":"c","route":"r"},"message":"receipt"}`,
		`{"id":"a","route":"r"}`, `{"id":"d","route":"r","score_by_token":[[8,-1],[9,0]]}`, `{"id":"e","route":"r","score_by_token":[[9,-1],[8,-1]]}`,
		`{"id":"f","route":"r","score_by_token":[[0.5,-1]]}`, `{"id":"g","route":"r","tokens":{"drafted":-1}}`, `{"id":"h","route":"r"} x`,
		`{"id":"i","route":"r","verdict":{"tokens":-1}}`, `{"id":"j","route":"r","score_by_token":[[3,-1],[9,0]]}`,
	}, "\n")
	list, bad, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"a", "c", "j"}, ids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var lines []int
	for _, b := range bad {
		lines = append(lines, b.Line)
		if b.Why == "" {
			t.Errorf("%s: no reason", b)
		}
	}
	if diff := cmp.Diff([]int{3, 4, 5, 8, 9, 10, 11, 12, 13}, lines); diff != "" {
		t.Errorf("-want +got:\n%s\n%v", diff, bad)
	}
}

// TestWhatTheGatewayWritesIsRead reads the gateway's own golden receipt.
func TestWhatTheGatewayWritesIsRead(t *testing.T) {
	text, err := os.ReadFile("../../gateway/testdata/receipt.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	list, bad, err := Read(bytes.NewReader(text))
	if err != nil || len(bad) > 0 || len(list) == 0 {
		t.Fatalf("%d receipts, %v, %v", len(list), bad, err)
	}
	r := list[0]
	switch {
	case r.Rules == nil, r.Plan == nil, r.Plan.Estimate == nil, r.Verdict == nil, !r.Prices.complete(), len(r.ScoreSeries) < 2:
		t.Errorf("a part is missing: %s", mustJSON(r))
	case r.Verdict.Tokens == 0, r.Tokens.Drafted == 0, r.Tokens.Committed == 0, r.MS.Draft == 0, r.Rules.Holdback == 0, r.Plan.TargetCheck == "", r.USD == 0:
		t.Errorf("a number is missing: %s", mustJSON(r))
	}
}

func TestTheTableOfAReplay(t *testing.T) {
	in, err := os.Open("testdata/receipts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	list, bad, err := Read(in)
	if err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	for name, sets := range map[string][]string{
		"same":          nil,
		"threshold":     {setThreshold + "=0.1"},
		"lower":         {setThreshold + "=-0.5", setThreshold + "@big=0.2"},
		"holdback":      {setHoldback + "=8"},
		"economy_guard": {setGuard + "=off"},
	} {
		file := "testdata/table_" + name + ".txt"
		got := []byte("--set " + strings.Join(sets, " --set ") + "\n\n" + Text(Compare(list, change(t, sets...))))
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func FuzzReadAndCompare(f *testing.F) {
	for _, name := range []string{"testdata/receipts.jsonl", "../../gateway/testdata/receipt.golden.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			f.Add(line, 0.1, 40)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, threshold float64, holdback int) {
		list, bad, err := Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		if len(list)+len(bad) > lines || !slices.IsSortedFunc(bad, func(a, b Bad) int { return a.Line - b.Line }) {
			t.Fatalf("%d receipts and %d bad of %d lines", len(list), len(bad), lines)
		}
		c := change(t, setHoldback+"=9", setMaxTTFT+"=100")
		v := c.values.Global()
		v.Tiers.Accept.Threshold, v.Tiers.HoldbackTokens = accept.Nats(threshold), max(min(holdback, 1024), 0)
		for _, row := range Compare(list, c) {
			for _, n := range []Count{row.Skipped, row.Accepted, row.Rejected, row.TakenOver, row.TargetChecked} {
				if n.Min > n.Max || n.Max > row.Requests || n.Was > row.Requests {
					t.Fatalf("%+v of %d", n, row.Requests)
				}
			}
			if s := row.Share; row.Requests > 0 && !(s.Would.Min <= s.Would.Max && s.Would.Min >= 0 && s.Would.Max <= 1) {
				t.Fatalf("share %+v", s)
			}
			Text([]Row{row})
		}
	})
}
