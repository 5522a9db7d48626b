package quality

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/refit"
)

// pairFigures are what drafts of one divergence are like at one temperature, 0 … 1.
type pairFigures struct {
	wrong float64 // share that the lenient label refuses
	auroc float64 // how well the default score tells them; 0 where none is wrong
	best  float64 // wrong share of the fifth with the highest scores: of the strictest threshold
}

func (f pairFigures) String() string {
	auroc := "–"
	if f.wrong > 0 {
		auroc = strings.TrimPrefix(fmt.Sprintf("%.2f", f.auroc), "0")
	}
	return fmt.Sprintf("%s | %s | %s", percent(f.wrong), auroc, percent(f.best))
}

// percent is a share in words: of small ones a digit more.
func percent(share float64) string {
	if share > 0 && share < 0.0995 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// drafts are drafts that were written to their end by a model of one divergence and judged.
type drafts struct {
	judge  *Judge
	scores []float64
	good   []bool
}

func draftsOf(divergence, blind float64) *drafts {
	return &drafts{judge: NewJudge(1, &loadtest.Case{
		Draft: &loadtest.Pool{Model: "draft", Divergence: divergence, Blind: blind}, Target: loadtest.Pool{Model: "target"},
	})}
}

// add has one draft written to its end.
func (d *drafts) add(q *loadtest.Request) {
	s := d.judge.sample(q, accept.Config{})
	d.scores, d.good = append(d.scores, s.Score), append(d.good, s.Good)
}

func (d *drafts) figures() (f pairFigures) {
	n := len(d.scores)
	order := make([]int, n)
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.scores[b], d.scores[a]) })
	for i, k := range order {
		if d.good[k] {
			continue
		}
		f.wrong += 1 / float64(n)
		if i < n/5 {
			f.best += 1 / float64(n/5)
		}
	}
	f.auroc = refit.AUROC(d.scores, d.good).Value
	return f
}

// plainDrafts are n drafts of different prompts, 50 to 200 tokens at most each.
func plainDrafts(divergence, blind, temperature float64, n int) pairFigures {
	d := draftsOf(divergence, blind)
	for k := range n {
		q := request(k, temperature, false)
		q.MaxTokens = 50 + 37*k%151
		d.add(q)
	}
	return d.figures()
}

// scenarioDrafts are those of a scenario's first n requests.
func scenarioDrafts(t *testing.T, name string, divergence float64, n int) pairFigures {
	t.Helper()
	s, err := loadtest.Load("../scenarios/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, err := loadtest.NewWorkload(s, &s.Cases[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	d := draftsOf(divergence, 0)
	for i := range n {
		d.add(w.Session(i).Request())
	}
	return d.figures()
}

// TestTheReadmeTellsHowGoodSimulatedDraftsAre fails with the rows that the table should have.
func TestTheReadmeTellsHowGoodSimulatedDraftsAre(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	if raced {
		t.Skip("one goroutine: the detector only makes it ten times slower")
	}
	var rows []string
	for _, c := range []struct{ divergence, blind float64 }{{}, {0.1, 0}, {0.2, 0}, {0.3, 0}, {0.35, 0}, {0.4, 0}, {0.3, 0.3}, {0.4, 1}} {
		rows = append(rows, fmt.Sprintf("| plain, %g, %g | %v | %v |", c.divergence, c.blind,
			plainDrafts(c.divergence, c.blind, 0, 2000), plainDrafts(c.divergence, c.blind, 1, 2000)))
	}
	for _, c := range []struct {
		name       string
		divergence float64
		row        string
	}{
		{"risk-day", 0.25, "| `risk-day`, 0.25, 0 | %v | | | |"},
		{"risk-day", 0.45, "| `risk-day`, 0.45, 0 | %v | | | |"},
		{"cascade", 0.1, "| `cascade`, 0.1, 0 | %v | | | |"},
		{"first-hour", 0.3, "| `first-hour`, 0.3, 0 | | | | %v |"},
	} {
		rows = append(rows, fmt.Sprintf(c.row, scenarioDrafts(t, c.name, c.divergence, 2000)))
	}
	documented(t, rows)
}

// TestADraftIsWrongAsOftenAsTheHelpOfVllmsimSays is the cheap one: 1,000 drafts, by which a share of
// 5 % is known to within 0.7 points.
func TestADraftIsWrongAsOftenAsTheHelpOfVllmsimSays(t *testing.T) {
	help, err := os.ReadFile("../../cmd/vllmsim/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(help), "at 0.3 a target refuses ")
	var said float64
	if _, err := fmt.Sscanf(after, "%g %%", &said); err != nil {
		t.Fatalf("the help of --divergence does not say what a target refuses: %v", err)
	}
	f := plainDrafts(0.3, 0, 1, 1000)
	said /= 100
	if off := 4 * math.Sqrt(said*(1-said)/1000); math.Abs(f.wrong-said) > off {
		t.Errorf("%.3f of the drafts are wrong, and the help says %.3f", f.wrong, said)
	}
}
