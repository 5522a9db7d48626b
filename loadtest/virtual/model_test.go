package virtual

import (
	"math"
	"testing"

	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/tiers/economy"
)

// science has the worked tables.
const science = "../../docs/science.md"

// The price cases of docs/science.md#price-cases, from these rates: 1,960 and 1,400 tokens/s of a draft server,
// 11,200 and 2,600 of a target server with two GPUs.
func priceCase(draftPerHour, targetPerGPUHour float64) economy.Prices {
	return economy.Prices{
		DraftPrefill: economy.PerToken(draftPerHour, 1960), DraftDecode: economy.PerToken(draftPerHour, 1400),
		TargetPrefill: economy.PerToken(2*targetPerGPUHour, 11_200), TargetDecode: economy.PerToken(2*targetPerGPUHour, 2600),
	}
}

var (
	caseA = priceCase(1.006, 6.88)
	caseB = priceCase(1.006, 2.50)
	caseC = priceCase(0.45, 6.88)
)

// differs is by how many whole per cent a way's price differs from the target's alone.
func differs(way int, p economy.Prices, w workload) float64 {
	return math.Round(100 * (costOf(way, p, w)/costOf(straight, p, w) - 1))
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
	if got := costOf(straight, caseA, workload{Prompt: 500, Output: 300}); math.Round(100*got) != 204 {
		t.Errorf("target only: got %.3f USD per million, want 2.04", got)
	}
	exact, exactShare := strict(.88, 300)
	lenient, lenientShare := strict(.99, 300)
	lenienter, lenienterShare := strict(.998, 300)
	for _, c := range []struct {
		row  string
		way  int
		w    workload
		want float64
	}{
		{"confidence at 48, A=.3", unasked, workload{Holdback: 48, Acceptance: .3}, -14},
		{"confidence at 48, A=.5", unasked, workload{Holdback: 48, Acceptance: .5}, -33},
		{"confidence at 48, A=.7", unasked, workload{Holdback: 48, Acceptance: .7}, -51},
		{"confidence, the whole answer held", unasked, workload{Holdback: 300, Acceptance: .5}, -29},
		{"whole, exact greedy", whole, workload{Acceptance: exact, Salvaged: exactShare}, 36},
		{"whole, lenient a=.99", whole, workload{Acceptance: lenient, Salvaged: lenientShare}, 16},
		{"whole, lenient a=.998", whole, workload{Acceptance: lenienter, Salvaged: lenienterShare}, -16},
		{"whole, lenient A=.7 g=.3", whole, workload{Acceptance: .7, Salvaged: .3}, -19},
	} {
		c.w.Prompt, c.w.Output = 500, 300
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want))
		if got := differs(c.way, caseA, c.w); got != c.want {
			t.Errorf("%s: got %+.0f %%, want %+.0f %%", c.row, got, c.want)
		}
	}
}

// columns are those of the second table of docs/science.md#worked-examples.
var columns = [6]struct {
	name           string
	prompt, output float64
	p              economy.Prices
}{
	{"200/800 A", 200, 800, caseA}, {"200/800 B", 200, 800, caseB}, {"500/300 B", 500, 300, caseB},
	{"500/300 C", 500, 300, caseC}, {"4000/150 A", 4000, 150, caseA}, {"4000/150 B", 4000, 150, caseB},
}

func TestTheTableOfOtherShapesIsReproduced(t *testing.T) {
	for _, c := range []struct {
		row  string
		way  int
		w    workload
		want [6]float64
	}{
		{"confidence A=.5", unasked, workload{Holdback: 48, Acceptance: .5}, [6]float64{-41, -25, -2, -42, -13, 52}},
		{"confidence A=.7", unasked, workload{Holdback: 48, Acceptance: .7}, [6]float64{-58, -38, -18, -62, -33, 33}},
		{"whole A=.7 g=.3", whole, workload{Acceptance: .7, Salvaged: .3}, [6]float64{-38, -11, 19, -31, 30, 96}},
	} {
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want[:]...))
		for i, at := range columns {
			c.w.Prompt, c.w.Output = at.prompt, at.output
			if got := differs(c.way, at.p, c.w); got != c.want[i] {
				t.Errorf("%s, %s: got %+.0f %%, want %+.0f %%", c.row, at.name, got, c.want[i])
			}
		}
	}
}

func TestSavingsFollowAcceptanceAsInTheTable(t *testing.T) {
	for _, c := range []struct {
		row  string
		way  int
		p    economy.Prices
		w    workload
		want [9]float64 // A = .1 … .9
	}{
		{"confidence, A", unasked, caseA, workload{Holdback: 32}, [9]float64{4, -6, -15, -24, -33, -42, -51, -60, -69}},
		{"whole g=.25, A", whole, caseA, workload{Salvaged: .25}, [9]float64{15, 9, 4, -1, -7, -12, -18, -23, -29}},
		{"confidence, B", unasked, caseB, workload{Holdback: 32}, [9]float64{27, 20, 12, 5, -3, -11, -18, -26, -33}},
		{"confidence, C", unasked, caseC, workload{Holdback: 32}, [9]float64{-4, -14, -23, -33, -42, -52, -62, -71, -81}},
	} {
		c.w.Prompt, c.w.Output = 500, 300
		golden.HasLine(t, science, golden.Row("%+.0f", c.row, c.want[:]...))
		for i, want := range c.want {
			c.w.Acceptance = float64(i+1) / 10
			if got := differs(c.way, c.p, c.w); got != want {
				t.Errorf("%s at %.1f: got %+.0f %%, want %+.0f %%", c.row, c.w.Acceptance, got, want)
			}
		}
	}
}
func TestTheSumsAreThoseOfTheModel(t *testing.T) {
	const samples = 100
	for _, c := range []struct {
		name string
		way  int
		s    economy.Shape
		e    economy.Expectation
		w    workload
	}{
		{"confidence", unasked, economy.Shape{Prompt: 500, Holdback: 48}, economy.Expectation{Output: 300, UpperBound: .5}, workload{Holdback: 48, Acceptance: .5}},
		{"confidence, learned hold", unasked, economy.Shape{Prompt: 500, Holdback: 48}, economy.Expectation{Output: 300, UpperBound: .5, Holdback: 40}, workload{Holdback: 40, Acceptance: .5}},
		{"whole", unasked, economy.Shape{Prompt: 500, Holdback: 48, Whole: true}, economy.Expectation{Output: 300, UpperBound: .5}, workload{Holdback: 300, Acceptance: .5}},
		{"scored whole", whole, economy.Shape{Prompt: 500, Holdback: 48, Whole: true, Scored: true}, economy.Expectation{Output: 300, UpperBound: .7, Salvaged: .3, Holdback: 80}, workload{Acceptance: .7, Salvaged: .3}},
	} {
		c.e.Samples, c.w.Prompt, c.w.Output = samples, 500, 300
		got := economy.EstimateCost(caseA, c.s, c.e)
		if want := costOf(c.way, caseA, c.w) * 300 / 1e6; math.Abs(got.DraftUSD-want) > 1e-9*want {
			t.Errorf("%s: the draft costs %g, want %g", c.name, got.DraftUSD, want)
		}
		if want := costOf(straight, caseA, c.w) * 300 / 1e6; math.Abs(got.TargetUSD-want) > 1e-9*want {
			t.Errorf("%s: the target costs %g, want %g", c.name, got.TargetUSD, want)
		}
	}
}
