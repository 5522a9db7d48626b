package riskview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/risk"
)

// stateWith is a state of n good audits after its grid was placed.
func stateWith(rule risk.Rule, n int) risk.State {
	var s risk.State
	at := time.Unix(1e9, 0)
	for i := range risk.GridScores {
		s.Open(rule, risk.Decision{}, float64(i)/risk.GridScores, fmt.Sprint(i), at)
	}
	for i := range n {
		v := s.View(rule)
		s.Open(rule, v.Decide(risk.Key{}, risk.Sampling{Rate: 1}, 0), 1, fmt.Sprint("a", i), at)
		s.Close(rule, fmt.Sprint("a", i), false)
	}
	return s
}

// summarised is the summary of a state without a warm-up.
func summarised(k *risk.KeyState) risk.Summary {
	s := k.State.Summarise(k.Rule)
	s.Route, s.TrafficClass, s.Phase = k.Key.Route, k.Key.TrafficClass, k.State.Phase(k.Rule, time.Unix(1e9, 0), 0)
	return s
}

func TestTheCollectorTellsOfStates(t *testing.T) {
	rule := risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}
	certified, warned := stateWith(rule, 150), stateWith(rule, 0)
	warned.Alarm, warned.Infeasible = 2, true
	all := []risk.KeyState{
		{Key: risk.Key{Route: "chat", TrafficClass: "to_1k.0a1b2c3d"}, State: certified, Rule: rule},
		{Key: risk.Key{Route: "chat", TrafficClass: "to_4k.0a1b2c3d"}, State: warned, Rule: rule},
	}
	c := NewCollector(func() []risk.KeyState { return all }, summarised)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	sum := certified.Summarise(rule)
	if sum.Op == 0 {
		t.Fatalf("150 good audits certify nothing: %+v", sum)
	}
	got := series(t, reg)
	for name, want := range map[string]float64{
		"threshold_nats chat to_1k.0a1b2c3d":   *sum.Threshold,
		"max_disagreement chat to_4k.0a1b2c3d": .1,
		"upper_bound chat to_1k.0a1b2c3d":      sum.Bound,
		"upper_bound chat to_4k.0a1b2c3d":      1,
		"audits chat to_1k.0a1b2c3d":           float64(sum.Audits),
		"alarms_total chat to_4k.0a1b2c3d":     2,

		"phase chat to_1k.0a1b2c3d certified":  1,
		"phase chat to_4k.0a1b2c3d infeasible": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %g (%t), want %g", name, v, ok, want)
		}
	}
	if _, ok := got["threshold_nats chat to_4k.0a1b2c3d"]; ok {
		t.Error("nothing is served, and yet there is a threshold")
	}
}

// series are all values by the metric's name, route, traffic class and phase.
func series(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "foregate_risk_")
			for _, label := range []string{"route", "traffic_class", "phase"} {
				for _, l := range m.GetLabel() {
					if l.GetName() == label {
						name += " " + l.GetValue()
					}
				}
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestOfManyStatesThoseSeenLastAreToldOf(t *testing.T) {
	rule := risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}
	var all []risk.KeyState
	for i := range maxSeries + 44 {
		all = append(all, risk.KeyState{Key: risk.Key{Route: fmt.Sprintf("r%03d", i), TrafficClass: "b"}, Rule: rule, Seen: time.Unix(int64(i), 0)})
	}
	c := NewCollector(func() []risk.KeyState { return all }, summarised)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	got, n := series(t, reg), 0
	for name := range got {
		if strings.HasPrefix(name, "audits ") {
			n++
		}
	}
	_, oldest := got["audits r044 b"]
	_, older := got["audits r043 b"]
	if n != maxSeries || !oldest || older {
		t.Errorf("%d are told of", n)
	}
	if all[0].Key.Route != "r000" {
		t.Error("the states were put in another order")
	}
}
