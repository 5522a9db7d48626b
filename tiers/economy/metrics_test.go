package economy

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheCollectorTellsOfTheRoutesItWasGiven(t *testing.T) {
	var book Statistics
	for range 4 {
		book.Learn(chat, Outcome{Drafted: true, Served: true, Prompt: 500, Output: 300})
		book.Learn(TrafficClass{Route: "chat", Prompt: UpTo1k, Whole: true}, Outcome{Drafted: true, Prompt: 500, Output: 300, Holdback: 32})
		book.Learn(TrafficClass{Route: "stranger"}, Outcome{Drafted: true})
	}
	typical := Shape{Prompt: 500, Holdback: 32}
	routes := []Route{
		{Name: "chat", Prices: func() Prices { return caseB }, Shape: func() Shape { return typical }},
		{Name: "dear", Prices: func() Prices { return caseB }, Shape: func() Shape { return Shape{Prompt: 4000, Holdback: 32} }},
		{Name: "free", Prices: func() Prices { return Prices{} }},
	}
	c := NewCollector(&book, func() []Route { return routes })
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	want := `# HELP foregate_expected_acceptance Share of the late drafts that were served, by the length of the prompt.
# TYPE foregate_expected_acceptance gauge
foregate_expected_acceptance{prompt="to_1k",route="chat"} 0.5
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "foregate_expected_acceptance"); err != nil {
		t.Error(err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range all {
		if family.GetName() != "foregate_break_even_acceptance" {
			continue
		}
		for _, m := range family.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	if len(got) != 2 || !near(got["chat"], BreakEven(caseB, typical, 300)) || got["dear"] <= 1 {
		t.Errorf("got %v", got)
	}
}
