package applications

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/drafts"
	"github.com/foregate/foregate/tiers/refit"
)

// recorded are the drafts of a real pair that are kept, and the models that wrote them.
func recorded(t *testing.T) ([]drafts.Draft, []string) {
	t.Helper()
	f, err := os.Open("testdata/pair.csv")
	if os.IsNotExist(err) {
		t.Skip("no drafts are recorded: make pair PAIR='--record loadtest/applications/testdata/pair.csv'")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := drafts.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return all, []string{"near", "worse"}
}

// recordedDrafts are the drafts of one model with one label.
type recordedDrafts struct {
	Law
	Recorded []Draft
	tasks    []string
}

// recordedLaw is the law of the drafts that a model of a real pair wrote, by a label: each task is an application. Drafts without
// that label are left out.
func recordedLaw(all []drafts.Draft, model, label string) (l recordedDrafts) {
	var tasks []string
	for i := range all {
		if !slices.Contains(tasks, all[i].Task) {
			tasks = append(tasks, all[i].Task)
		}
	}
	slices.Sort(tasks)
	of := make([]float64, len(tasks))
	l = recordedDrafts{Law: Law{Name: model + ", " + label, Agreement: make([]float64, len(tasks))}, tasks: tasks}
	for i := range all {
		d := &all[i]
		good, asked := d.Good(label)
		if d.Model != model || !asked {
			continue
		}
		app := slices.Index(tasks, d.Task)
		of[app]++
		if good {
			l.Agreement[app]++
		}
		l.Recorded = append(l.Recorded, Draft{app, d.Features, d.Score, good})
	}
	for a := range of {
		l.Agreement[a] /= max(of[a], 1)
	}
	return l
}

// isOnThePage fails the test if a row of a table is not on docs/measurements.md.
func isOnThePage(t *testing.T, row string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/measurements.md")
	if err != nil {
		t.Fatal(err)
	}
	if t.Log(row); !strings.Contains(string(page), row) {
		t.Errorf("docs/measurements.md#a-real-pair has another row than %s", row)
	}
}

// most is the largest share that a threshold on scores serves with a disagreement of eps at most, for one who knows the labels.
func most(scores []float64, good []bool) (share float64) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	bad := 0
	for n, i := range order {
		if !good[i] {
			bad++
		}
		if float64(bad) <= eps*float64(n+1) {
			share = float64(n+1) / float64(len(order))
		}
	}
	return share
}

// What the recorded drafts of a real pair are, by each label. It holds the first table of docs/measurements.md#a-real-pair.
func TestTheTableOfRecordedDraftsIsThatOfTheirFile(t *testing.T) {
	if testing.Short() {
		t.Skip("fits scores")
	}
	all, models := recorded(t)
	for _, model := range models {
		for _, label := range drafts.Labels {
			law := recordedLaw(all, model, label)
			isOnThePage(t, describe(&law, model, label))
		}
	}
}

func describe(law *recordedDrafts, model, label string) string {
	n := len(law.Recorded)
	plain, good, goods := make([]float64, n), make([]bool, n), 0.0
	var samples [2][]refit.Sample // told apart or not
	for i, d := range law.Recorded {
		plain[i], good[i] = d.Score, d.Good
		if d.Good {
			goods++
		}
		s := refit.Sample{Features: d.Features, Score: d.Score, Good: d.Good, Greedy: true, FullRange: true}
		samples[1] = append(samples[1], s)
		s.Application = tenant + "/" + law.tasks[d.Application]
		samples[0] = append(samples[0], s)
	}
	fitted := [2]string{"–", "–"}
	told := "–"
	for k := range samples {
		f, err := refit.FitScore(samples[k])
		if err != nil {
			continue
		}
		fitted[k] = fmt.Sprintf("%.3f ± %.3f", f.After.Value, f.After.Error)
		if k == 0 {
			scores := make([]float64, n)
			for i, s := range samples[0] {
				scores[i] = float64(f.Map.For(s.Application).Score(s.Features))
			}
			told = fmt.Sprintf("%.3f", most(scores, good))
		}
	}
	low, high := slices.Min(law.Agreement), slices.Max(law.Agreement)
	area := refit.AUROC(plain, good)
	return fmt.Sprintf("| %s | %s | %d | %.3f | %.2f to %.2f | %.3f ± %.3f | %s | %s | %.3f | %s |", model, label, n, goods/float64(n), low, high,
		area.Value, area.Error, fitted[1], fitted[0], most(plain, good), told)
}

// The product's controller over the recorded drafts. It holds the second table of docs/measurements.md#a-real-pair in its long form.
func TestProofARealPairsDraftsReplayed(t *testing.T) {
	all, models := recorded(t)
	labels, seeds := drafts.Labels, 3
	if !isLong() {
		models, labels, seeds = models[:1], labels[:1], 1
	}
	for _, model := range models {
		for _, label := range labels {
			law := recordedLaw(all, model, label)
			var cells []string
			for _, unknown := range []bool{false, true} {
				served, bad, certified := 0.0, 0.0, 0
				for seed := range uint64(seeds) {
					r := of(law.Law, seed+1, replayed)
					r.Unknown, r.Recorded = unknown, law.Recorded
					out := r.Do()
					w := out.Over(replayed/2, replayed)
					served, bad = served+w.Share()/float64(seeds), bad+float64(w.Bad)/float64(max(w.Requests, 1)*seeds)
					if out.First > 0 {
						certified++
					}
					if w.Served > 200 && w.Disagreement() > eps+.02 {
						t.Errorf("%s, seed %d, unknown %v: a disagreement of %.3f", law.Name, seed+1, unknown, w.Disagreement())
					}
				}
				cell := fmt.Sprintf("%d of %d | %.3f | ", certified, seeds, served)
				if served > 0 {
					cell += fmt.Sprintf("%.3f", bad/served)
				}
				cells = append(cells, cell)
			}
			row := fmt.Sprintf("| %s | %s | %s | %s |", model, label, cells[0], cells[1])
			if t.Log(row); isLong() {
				isOnThePage(t, row)
			}
		}
	}
}

// replayed is how many requests of a replay there are; what is served is counted over the second half of them.
const replayed = 12_000

func TestARunOfRecordedDraftsSeesAllOfThemBeforeOneComesAgain(t *testing.T) {
	r := of(Law{Agreement: []float64{1, 0}}, 1, 300)
	r.Recorded = []Draft{{Application: 0, Good: true}, {Application: 1}, {Application: 1}}
	out := r.Do()
	if w := out.Over(0, 300); w.Of[0] != 100 || w.Of[1] != 200 {
		t.Errorf("of three drafts the applications have %v of 300 requests", w.Of)
	}
}
