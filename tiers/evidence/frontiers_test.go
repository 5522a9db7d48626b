package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/risk"
)

// busy are ten thousand requests a day, of which a served draft saves a dollar in a thousand, and 300 tokens.
var busy = risk.Economics{Label: "lenient", PerDay: 10_000, Priced: true, Saved: func(share float64, serves bool) (usd, tokens float64) {
	if !serves {
		return -1, 0
	}
	return 10 * share, 3_000_000 * share
}}

// wide makes n audits of drafts whose scores are even in 0 … 1, full-range ones: what scores below a quarter is bad, and of
// the better ones each fiftieth.
func (r *replica) wide(n int) {
	r.t.Helper()
	for i := range n {
		ticket, score := fmt.Sprint("w", i), math.Mod(float64(i)*.618034, 1)
		d := r.View(chat).Decide(chat, risk.Sampling{Rate: 1, FullRange: 1}, 0)
		if _, err := r.Open(r.t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: score}); err != nil {
			r.t.Fatal(err)
		}
		r.close(ticket, score < .25 || i%50 == 0)
	}
}

// frontier reads the only one.
func (r *replica) frontier(e risk.Economics) risk.Frontier {
	r.t.Helper()
	r.Economics = func(risk.Key) risk.Economics { return e }
	f, err := r.Frontiers(r.t.Context())
	if err != nil || len(f.Frontiers) != 1 {
		r.t.Fatalf("%v, %+v", err, f)
	}
	if _, err := json.Marshal(f); err != nil { // not a number, or infinite
		r.t.Fatal(err)
	}
	return f.Frontiers[0]
}

func TestAFrontierTellsWhatEachRateWouldGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := join(t, "")
		r.by(risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500})
		r.teach()
		time.Sleep(time.Minute)
		r.wide(1500)
		time.Sleep(10 * time.Minute)
		v := r.frontier(busy)
		if !v.Known || v.Audits != 1500 || v.FullRange != 1500 || !v.Priced || *v.RequestsPerDay != 10_000 || v.Key != chat || v.Label != "lenient" {
			t.Fatalf("%+v", v)
		}
		byRate := map[float64]risk.FrontierPoint{}
		for _, p := range v.Points {
			byRate[p.MaxDisagreement] = p
			if p.InForce != (p.MaxDisagreement == v.MaxDisagreement) || p.MoreAudits != nil && p.Seconds == nil {
				t.Errorf("in force, seconds: %+v", p)
			}
			for _, r := range []risk.Range{p.Share, p.Risk, *p.USD, *p.Tokens} {
				if !(r.Low <= r.Estimate && r.Estimate <= r.High) {
					t.Errorf("ε %g: %+v is no range", p.MaxDisagreement, r)
				}
			}
		}
		// 75 % have 2 % bad ones; with the next 5 % it is 8 %; of all 26 %.
		p := byRate[.05]
		if !p.Certified || p.Share.Low > .76 || p.Share.High < .74 || p.Share.Estimate < .65 || p.Share.Estimate > .77 || p.Risk.Low > .02 || p.Risk.High < .02 {
			t.Errorf("ε .05: %+v", p)
		}
		if p.USD.Estimate != 10*p.Share.Estimate || p.Tokens.Estimate != 3_000_000*p.Share.Estimate {
			t.Errorf("saved %+v, %+v", p.USD, p.Tokens)
		}
		if p := byRate[.01]; p.Certified || p.MoreAudits != nil || p.USD.Estimate != -1 {
			t.Errorf("ε .01 cannot be kept: %+v, %+v", p, p.USD)
		}
		dear := busy
		dear.Priced = false
		if p := r.frontier(dear).Points[3]; p.USD != nil || p.Tokens == nil {
			t.Errorf("without prices: %+v", p)
		}
		if v := r.frontier(risk.Economics{Priced: true}); v.RequestsPerDay != nil || v.Points[3].USD != nil || v.Points[3].Tokens != nil {
			t.Errorf("without requests: %+v", v)
		}
	})
}

// Audits of another grid, and from before an alarm, are no samples.
func TestAFrontierMixesNoAuditsOfOtherGridsOrTimes(t *testing.T) {
	r := join(t, "")
	r.teach()
	r.audit(100, 0, 1)
	for what, change := range map[string]func(s *risk.State){
		"before the alarm": func(s *risk.State) { s.Alarm++ }, "another grid": func(s *risk.State) { s.Version++ },
	} {
		change(r.fold().Kinds[chat.TrafficClass])
		if v := r.frontier(busy); v.Audits != 0 {
			t.Errorf("%s: %d audits", what, v.Audits)
		}
	}
}

func TestFrontiersFailWithRedis(t *testing.T) {
	r := join(t, "127.0.0.1:1")
	r.patience = 20 * time.Millisecond
	if _, err := r.Frontiers(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("with Redis away: %v", err)
	}
}

// shownBy are the series of a store's registry, by the metric's name, route, traffic class and phase.
func shownBy(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
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

func TestSeriesTellOfTheStatesSeenLast(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := join(t, "")
	r.Store = New(Options{Rule: r.Rule, Now: r.Now, Registerer: reg})
	r.certify()
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	known := r.states()
	sum, key := r.summary(&known[0]), " "+chat.Route+" "+chat.TrafficClass
	got := shownBy(t, reg)
	for name, want := range map[string]float64{
		"threshold_nats" + key: *sum.Threshold, "max_disagreement" + key: plain.MaxDisagreement, "upper_bound" + key: sum.Bound,
		"audits" + key: float64(sum.Audits), "alarms_total" + key: 0, "phase" + key + " certified": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %g (%t), want %g", name, v, ok, want)
		}
	}
	f := r.fold()
	for i := range maxSeries {
		f.Kinds[fmt.Sprintf("b%03d", i)] = &risk.State{Alarm: 2, Used: time.Now().Add(time.Duration(i+1) * time.Second)}
	}
	got = shownBy(t, reg)
	if _, ok := got["audits"+key]; ok || got["alarms_total "+chat.Route+" b000"] != 2 {
		t.Errorf("of more than %d states the oldest is shown, or another is not", maxSeries)
	}
	if _, ok := got["threshold_nats "+chat.Route+" b000"]; ok {
		t.Error("nothing is served, and yet there is a threshold")
	}
}
