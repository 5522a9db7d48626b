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
