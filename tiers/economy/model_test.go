package economy

import (
	"math"
	"testing"

	"github.com/foregate/foregate/internal/golden"
)

// science has the worked tables.
const science = "../../docs/science.md"

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

// columns are those of the second table of docs/science.md#worked-examples.
var columns = [6]struct {
	name           string
	prompt, output float64
	p              Prices
}{
	{"200/800 A", 200, 800, caseA}, {"200/800 B", 200, 800, caseB}, {"500/300 B", 500, 300, caseB},
	{"500/300 C", 500, 300, caseC}, {"4000/150 A", 4000, 150, caseA}, {"4000/150 B", 4000, 150, caseB},
}

func TestTheBreakEvenRowsAreReproduced(t *testing.T) {
	plain := [6]float64{.03, .12, .46, .06, .37, 1.04}
	fast := [6]float64{.05, .22, .67, .08, .39, 1.10} // the target itself runs EAGLE-class speculation
	scores := [6]float64{.27, .27, .45, .45, .89, .89}
	golden.HasLine(t, science, golden.Row("%.2f", "A*", plain[:]...))
	golden.HasLine(t, science, golden.Row("%.2f", "A*, fast target", fast[:]...))
	golden.HasLine(t, science, golden.Row("%.2f", "whole check ÷ answer", scores[:]...))
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
		cost := (at.prompt + at.output) * at.p.TargetPrefill / target(at.p, terms{targetPrompt: at.prompt, output: at.output})
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

// differs is by how many whole per cent the price of drafting differs from the target's alone.
func differs(p Prices, s Shape, e Expectation) float64 {
	e.Samples = 100
	got := EstimateCost(p, s, e)
	return math.Round(100 * (got.DraftUSD/got.TargetUSD - 1))
}

// strict is acceptance and salvage of answers of l tokens of which each is accepted with
// probability a: a whole answer with a^l, else the mean of what came before the first
// that was not.
func strict(a, l float64) Expectation {
	acceptance := math.Pow(a, l)
	prefix := a * (1 - acceptance) / (1 - a) // mean over all
	return Expectation{UpperBound: acceptance, Salvaged: (prefix - acceptance*l) / (1 - acceptance) / l}
}

func TestTheWorkedExamplesAreReproduced(t *testing.T) {
	at48, scored := Shape{Prompt: 500, Holdback: 48}, Shape{Prompt: 500, Whole: true, Scored: true}
	for _, c := range []struct {
		row  string
		s    Shape
		e    Expectation
		want float64
	}{
		{"confidence at 48, A=.3", at48, Expectation{UpperBound: .3}, -14},
		{"confidence at 48, A=.5", at48, Expectation{UpperBound: .5}, -33},
		{"confidence at 48, A=.7", at48, Expectation{UpperBound: .7}, -51},
		{"confidence, the whole answer held", Shape{Prompt: 500, Whole: true}, Expectation{UpperBound: .5}, -29},
		{"whole, exact greedy", scored, strict(.88, 300), 36},
		{"whole, lenient a=.99", scored, strict(.99, 300), 16},
		{"whole, lenient a=.998", scored, strict(.998, 300), -16},
		{"whole, lenient A=.7 g=.3", scored, Expectation{UpperBound: .7, Salvaged: .3}, -19},
	} {
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want))
		c.e.Output = 300
		if got := differs(caseA, c.s, c.e); got != c.want {
			t.Errorf("%s: got %+.0f %%, want %+.0f %%", c.row, got, c.want)
		}
	}
}

func TestTheTableOfOtherShapesIsReproduced(t *testing.T) {
	for _, c := range []struct {
		row  string
		s    Shape
		e    Expectation
		want [6]float64
	}{
		{"confidence A=.5", Shape{Holdback: 48}, Expectation{UpperBound: .5}, [6]float64{-41, -25, -2, -42, -13, 52}},
		{"confidence A=.7", Shape{Holdback: 48}, Expectation{UpperBound: .7}, [6]float64{-58, -38, -18, -62, -33, 33}},
		{"whole A=.7 g=.3", Shape{Whole: true, Scored: true}, Expectation{UpperBound: .7, Salvaged: .3}, [6]float64{-38, -11, 19, -31, 30, 96}},
	} {
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want[:]...))
		for i, at := range columns {
			c.s.Prompt, c.e.Output = int(at.prompt), at.output
			if got := differs(at.p, c.s, c.e); got != c.want[i] {
				t.Errorf("%s, %s: got %+.0f %%, want %+.0f %%", c.row, at.name, got, c.want[i])
			}
		}
	}
}

func TestSavingsFollowAcceptanceAsInTheTable(t *testing.T) {
	for _, c := range []struct {
		row  string
		p    Prices
		s    Shape
		e    Expectation
		want [9]float64 // A = .1 … .9
	}{
		{"confidence, A", caseA, Shape{Prompt: 500, Holdback: 32}, Expectation{}, [9]float64{4, -6, -15, -24, -33, -42, -51, -60, -69}},
		{"whole g=.25, A", caseA, Shape{Prompt: 500, Whole: true, Scored: true}, Expectation{Salvaged: .25}, [9]float64{15, 9, 4, -1, -7, -12, -18, -23, -29}},
		{"confidence, B", caseB, Shape{Prompt: 500, Holdback: 32}, Expectation{}, [9]float64{27, 20, 12, 5, -3, -11, -18, -26, -33}},
		{"confidence, C", caseC, Shape{Prompt: 500, Holdback: 32}, Expectation{}, [9]float64{-4, -14, -23, -33, -42, -52, -62, -71, -81}},
	} {
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want[:]...))
		for i, want := range c.want {
			c.e.Output, c.e.UpperBound = 300, float64(i+1)/10
			if got := differs(c.p, c.s, c.e); got != want {
				t.Errorf("%s at %.1f: got %+.0f %%, want %+.0f %%", c.row, c.e.UpperBound, got, want)
			}
		}
	}
}
