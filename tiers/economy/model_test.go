package economy

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// stands fails the test unless docs/science.md has the row of a table.
func stands(t *testing.T, format, name string, values ...float64) {
	t.Helper()
	page, err := os.ReadFile("../../docs/science.md")
	if err != nil {
		t.Fatal(err)
	}
	row := "| " + name + " |"
	for _, v := range values {
		row += strings.Replace(fmt.Sprintf(" "+format+" |", v), "-", "−", 1)
	}
	if !strings.Contains(string(page), "\n"+row+"\n") {
		t.Errorf("docs/science.md lacks the row\n%s", row)
	}
}

// The price cases of docs/science.md#price-cases, from these rates: 1,960 and 1,400 tokens/s of a draft server,
// 11,200 and 2,600 of a target server with two GPUs.
func priceCase(draftPerHour, targetPerGPUHour float64) Prices {
	return Prices{
		DraftPrefill: PerToken(draftPerHour, 1960), DraftDecode: PerToken(draftPerHour, 1400),
		TargetPrefill: PerToken(2*targetPerGPUHour, 11_200), TargetDecode: PerToken(2*targetPerGPUHour, 2600),
	}
}

var (
	caseA = priceCase(1.006, 6.88)
	caseB = priceCase(1.006, 2.50)
	caseC = priceCase(0.45, 6.88)
)

func TestTheUnitPricesAreThoseOfTheTable(t *testing.T) {
	for name, c := range map[string]struct {
		p    Prices
		want [4]float64 // USD per million tokens
	}{"A": {caseA, [4]float64{.143, .200, .341, 1.470}}, "B": {caseB, [4]float64{.143, .200, .124, .534}}, "C": {caseC, [4]float64{.064, .089, .341, 1.470}}} {
		got := [4]float64{c.p.DraftPrefill, c.p.DraftDecode, c.p.TargetPrefill, c.p.TargetDecode}
		for i, v := range got {
			if math.Round(v*1e9)/1e3 != c.want[i] {
				t.Errorf("case %s, price %d: got %.4f, want %.3f USD per million", name, i, v*1e6, c.want[i])
			}
		}
	}
}

// change is by how many whole per cent a mode's price differs from the target's alone.
func change(mode Mode, p Prices, w Workload) float64 {
	return math.Round(100 * (Model(mode, p, w)/Model(TargetOnly, p, w) - 1))
}

// strict is acceptance and salvage of answers of l tokens of which each is accepted with
// probability a: a whole answer with a^l, else the mean of what came before the first
// that was not.
func strict(a, l float64) (acceptance, salvaged float64) {
	acceptance = math.Pow(a, l)
	prefix := a * (1 - acceptance) / (1 - a) // mean over all
	return acceptance, (prefix - acceptance*l) / (1 - acceptance) / l
}

func TestTheWorkedTableIsReproduced(t *testing.T) {
	if got := Model(TargetOnly, caseA, Workload{Prompt: 500, Output: 300}); math.Round(100*got) != 204 {
		t.Errorf("target only: got %.3f USD per million, want 2.04", got)
	}
	exact, exactShare := strict(.88, 300)
	lenient, lenientShare := strict(.99, 300)
	lenienter, lenienterShare := strict(.998, 300)
	for _, c := range []struct {
		row  string
		mode Mode
		w    Workload
		want float64
	}{
		{"confidence at 48, A=.3", Confidence, Workload{Holdback: 48, Acceptance: .3}, -14},
		{"confidence at 48, A=.5", Confidence, Workload{Holdback: 48, Acceptance: .5}, -33},
		{"confidence at 48, A=.7", Confidence, Workload{Holdback: 48, Acceptance: .7}, -51},
		{"confidence, the whole answer held", Confidence, Workload{Holdback: 300, Acceptance: .5}, -29},
		{"whole, exact greedy", WholeCheck, Workload{Acceptance: exact, Salvaged: exactShare}, 36},
		{"whole, lenient a=.99", WholeCheck, Workload{Acceptance: lenient, Salvaged: lenientShare}, 16},
		{"whole, lenient a=.998", WholeCheck, Workload{Acceptance: lenienter, Salvaged: lenienterShare}, -16},
		{"whole, lenient A=.7 g=.3", WholeCheck, Workload{Acceptance: .7, Salvaged: .3}, -19},
	} {
		c.w.Prompt, c.w.Output = 500, 300
		stands(t, "%+.0f", c.row, c.want)
		if got := change(c.mode, caseA, c.w); got != c.want {
			t.Errorf("%s: got %+.0f %%, want %+.0f %%", c.row, got, c.want)
		}
	}
}

// columns are those of the second table of docs/science.md#worked-examples.
var columns = [6]struct {
	name           string
	prompt, output float64
	p              Prices
}{
	{"200/800 A", 200, 800, caseA}, {"200/800 B", 200, 800, caseB}, {"500/300 B", 500, 300, caseB},
	{"500/300 C", 500, 300, caseC}, {"4000/150 A", 4000, 150, caseA}, {"4000/150 B", 4000, 150, caseB},
}

func TestTheTableOfOtherShapesIsReproduced(t *testing.T) {
	for _, c := range []struct {
		row  string
		mode Mode
		w    Workload
		want [6]float64
	}{
		{"confidence A=.5", Confidence, Workload{Holdback: 48, Acceptance: .5}, [6]float64{-41, -25, -2, -42, -13, 52}},
		{"confidence A=.7", Confidence, Workload{Holdback: 48, Acceptance: .7}, [6]float64{-58, -38, -18, -62, -33, 33}},
		{"whole A=.7 g=.3", WholeCheck, Workload{Acceptance: .7, Salvaged: .3}, [6]float64{-38, -11, 19, -31, 30, 96}},
	} {
		stands(t, "%+.0f", c.row, c.want[:]...)
		for i, at := range columns {
			c.w.Prompt, c.w.Output = at.prompt, at.output
			if got := change(c.mode, at.p, c.w); got != c.want[i] {
				t.Errorf("%s, %s: got %+.0f %%, want %+.0f %%", c.row, at.name, got, c.want[i])
			}
		}
	}
}

func TestTheBreakEvenRowsAreReproduced(t *testing.T) {
	plain := [6]float64{.03, .12, .46, .06, .37, 1.04}
	fast := [6]float64{.05, .22, .67, .08, .39, 1.10} // the target itself runs EAGLE-class speculation
	scores := [6]float64{.27, .27, .45, .45, .89, .89}
	stands(t, "%.2f", "A*", plain[:]...)
	stands(t, "%.2f", "A*, fast target", fast[:]...)
	stands(t, "%.2f", "whole check ÷ answer", scores[:]...)
	for i, at := range columns {
		s := Shape{Prompt: int(at.prompt), Holdback: 32}
		if got := BreakEven(at.p, s, at.output); math.Round(100*got) != math.Round(100*plain[i]) {
			t.Errorf("%s: got A* %.3f, want %.2f", at.name, got, plain[i])
		}
		p := at.p
		p.TargetDecode /= 1.5
		if got := BreakEven(p, s, at.output); math.Round(100*got) != math.Round(100*fast[i]) {
			t.Errorf("%s with a fast target: got A* %.3f, want %.2f", at.name, got, fast[i])
		}
		cost := (at.prompt + at.output) * at.p.TargetPrefill / target(at.p, terms{prompt: at.prompt, output: at.output})
		if math.Round(100*cost) != math.Round(100*scores[i]) {
			t.Errorf("%s: a score costs %.3f of an answer, want %.2f", at.name, cost, scores[i])
		}
	}
	// Two more examples of docs/science.md, "Cost model".
	if got := BreakEven(caseA, Shape{Prompt: 500, Holdback: 32}, 300); math.Round(100*got) != 14 {
		t.Errorf("500/300 A: got A* %.3f, want .14", got)
	}
	if got := BreakEven(caseB, Shape{Prompt: 1500, Holdback: 32}, 300); math.Round(100*got) != 75 {
		t.Errorf("1500/300 B: got A* %.3f, want .75", got)
	}
}

func TestSavingsFollowAcceptanceAsInTheTable(t *testing.T) {
	for _, c := range []struct {
		row  string
		mode Mode
		p    Prices
		w    Workload
		want [9]float64 // A = .1 … .9
	}{
		{"confidence, A", Confidence, caseA, Workload{Holdback: 32}, [9]float64{4, -6, -15, -24, -33, -42, -51, -60, -69}},
		{"whole g=.25, A", WholeCheck, caseA, Workload{Salvaged: .25}, [9]float64{15, 9, 4, -1, -7, -12, -18, -23, -29}},
		{"confidence, B", Confidence, caseB, Workload{Holdback: 32}, [9]float64{27, 20, 12, 5, -3, -11, -18, -26, -33}},
		{"confidence, C", Confidence, caseC, Workload{Holdback: 32}, [9]float64{-4, -14, -23, -33, -42, -52, -62, -71, -81}},
	} {
		c.w.Prompt, c.w.Output = 500, 300
		stands(t, "%+.0f", c.row, c.want[:]...)
		for i, want := range c.want {
			c.w.Acceptance = float64(i+1) / 10
			if got := change(c.mode, c.p, c.w); got != want {
				t.Errorf("%s at %.1f: got %+.0f %%, want %+.0f %%", c.row, c.w.Acceptance, got, want)
			}
		}
	}
}
