package riskview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/evidence/evidencetest"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// aKey is the kind of request of these tests.
var aKey = evidencetest.Key("chat", "all")

// busy are ten thousand requests a day, at the prices of case A of docs/science.md.
var busy = Economics{
	PerDay: 10_000, Prompt: 500, Output: 300, Holdback: 48,
	Prices: economy.Prices{DraftPrefill: .143e-6, DraftDecode: .2e-6, TargetPrefill: .341e-6, TargetDecode: 1.47e-6},
}

// wide makes n audits of drafts whose scores are even in 0 … 1, full-range ones: what scores below a quarter is bad, and of
// the better ones each fiftieth.
func wide(t *testing.T, a *evidencetest.Audits, n int) {
	t.Helper()
	for i := range n {
		ticket := fmt.Sprint("w", i)
		score := math.Mod(float64(i)*.618034, 1)
		bad := score < .25 || i%50 == 0
		d := a.Book.View(aKey).Decide(aKey, risk.Sampling{Rate: 1, FullRange: 1}, 0)
		if _, err := a.Book.Open(t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: score, Request: fmt.Sprint("r", i)}); err != nil {
			t.Fatal(err)
		}
		if err := a.Book.Close(t.Context(), aKey, ticket, bad); err != nil {
			t.Fatal(err)
		}
	}
}

// frontiers reads them as a replica does.
func frontiers(t *testing.T, a *evidencetest.Audits, e Economics) gateway.RiskFrontiers {
	t.Helper()
	s := &Watcher{Evidence: a.Book, Config: riskConfig, Economics: func(risk.Key) Economics { return e }}
	f, err := s.Frontiers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(f); err != nil { // not a number, or infinite
		t.Fatal(err)
	}
	return f
}

func TestAFrontierTellsWhatEachRateWouldGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		a.Learn(t, aKey, risk.GridScores)
		time.Sleep(time.Minute)
		wide(t, a, 1500)
		time.Sleep(10 * time.Minute)
		f := frontiers(t, a, busy).Frontiers
		if len(f) != 1 || !f[0].Known || f[0].Audits != 1500 || f[0].FullRange != 1500 || !f[0].Priced || *f[0].RequestsPerDay != 10_000 {
			t.Fatalf("%+v", f)
		}
		v := f[0]
		byRate := map[float64]gateway.FrontierPoint{}
		for _, p := range v.Points {
			byRate[p.MaxDisagreement] = p
			if p.InForce != (p.MaxDisagreement == v.MaxDisagreement) {
				t.Errorf("in force: %+v", p)
			}
			for _, r := range []risk.Range{p.Share, p.Disagreement, *p.USD, *p.Tokens} {
				if !(r.Low <= r.Estimate && r.Estimate <= r.High) {
					t.Errorf("ε %g: %+v is no range", p.MaxDisagreement, r)
				}
			}
		}
		// 75 % have 2 % bad ones; with the next 5 % it is 8 %; of all 26 %.
		p := byRate[.05]
		if !p.Certified || p.Share.Low > .76 || p.Share.High < .74 || p.Share.Estimate < .65 || p.Share.Estimate > .77 || p.Disagreement.Low > .02 || p.Disagreement.High < .02 {
			t.Errorf("ε .05: %+v", p)
		}
		// The target alone costs 6.1 $ a day; what a draft of three quarters saves is its formula in docs/science.md.
		want := 10_000 * (economy.EstimateCost(busy.Prices, economy.Shape{Prompt: 500}, economy.Expectation{Samples: 1, UpperBound: p.Share.Estimate, Output: 300, Holdback: 48}).SavingUSD())
		if p.USD.Estimate > want || p.USD.Estimate < want-.5 || p.Tokens.Estimate != 10_000*300*p.Share.Estimate {
			t.Errorf("saved %+v, want a little less than %g; %+v", p.USD, want, p.Tokens)
		}
		if p := byRate[.01]; p.Certified || p.Audits != nil || p.USD.Estimate > 0 {
			t.Errorf("ε .01 cannot be kept: %+v, %+v", p, p.USD)
		}
		dear := frontiers(t, a, Economics{PerDay: 10_000, Prompt: 500, Output: 300}).Frontiers[0]
		if p := dear.Points[3]; dear.Priced || p.USD != nil || p.Tokens == nil {
			t.Errorf("without prices: %+v", p)
		}
		quiet := frontiers(t, a, Economics{Prices: busy.Prices}).Frontiers[0]
		if p := quiet.Points[3]; quiet.RequestsPerDay != nil || p.USD != nil || p.Tokens != nil || !quiet.Priced {
			t.Errorf("without requests: %+v", p)
		}
	})
}

func TestAFrontierOfFewAuditsSaysSo(t *testing.T) {
	a := evidencetest.New(nil)
	a.Learn(t, aKey, 57)
	v := frontiers(t, a, busy).Frontiers[0]
	if v.Known || v.Audits != 0 {
		t.Errorf("%+v", v)
	}
	a = evidencetest.New(nil)
	a.Learn(t, aKey, risk.GridScores)
	a.Audit(t, aKey, 3, 0)
	v = frontiers(t, a, busy).Frontiers[0]
	if v.Known || v.Audits != 3 || v.Needed < 50 {
		t.Errorf("%+v", v)
	}
	for _, p := range v.Points {
		if everything := (risk.Range{High: 1}); v.Known || p.Share != everything || p.Disagreement != everything || p.USD != nil || p.Tokens != nil || p.Audits != nil {
			t.Errorf("of three audits: %+v", p)
		}
	}
	a = evidencetest.New(nil)
	a.Learn(t, aKey, risk.GridScores)
	for range 40 {
		a.Open(t, aKey, .99) // and nobody hears of it
	}
	v = frontiers(t, a, busy).Frontiers[0]
	if v.Known || v.Lost != 40 {
		t.Errorf("%+v", v)
	}
}

// Audits of another grid, and from before an alarm, are no samples.
func TestAFrontierMixesNoAuditsOfOtherGridsOrTimes(t *testing.T) {
	a := evidencetest.New(nil)
	a.Learn(t, aKey, risk.GridScores)
	wide(t, a, 100)
	known, err := a.Book.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known[0].State.Alarm++
	if audits, err := auditsOf(t.Context(), a.Book, known); err != nil || len(audits[aKey]) != 0 {
		t.Errorf("%v, %d audits from before the alarm", err, len(audits[aKey]))
	}
	known[0].State.Alarm--
	known[0].State.Version++
	if audits, err := auditsOf(t.Context(), a.Book, known); err != nil || len(audits[aKey]) != 0 {
		t.Errorf("%v, %d audits of another grid", err, len(audits[aKey]))
	}
}

func TestFrontiersAreReadAtMostOnceInFiveSecondsAndFailWithRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		a.Learn(t, aKey, 10)
		s := &Watcher{Evidence: a.Book, Config: riskConfig, Economics: func(risk.Key) Economics { return busy }}
		for i, want := range []int{1, 1, 2} {
			f, err := s.Frontiers(t.Context())
			if err != nil || len(f.Frontiers) != want {
				t.Errorf("reading %d: %v, %+v", i, err, f)
			}
			if i == 0 {
				a.Learn(t, evidencetest.Key("other", "all"), 10)
			} else {
				time.Sleep(frontierInterval)
			}
		}
	})
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s := &Watcher{Evidence: evidencetest.New(client).Book, Config: riskConfig}
	if _, err := s.Frontiers(t.Context()); !errors.Is(err, evidence.ErrAway) {
		t.Errorf("with Redis away: %v", err)
	}
}

func riskConfig(string) *plan.Config {
	return &plan.Config{Mode: plan.ModeRisk, Risk: plan.Risk{Rule: evidencetest.Rule, WarmupDuration: time.Hour}}
}

func TestMetricsHaveStatesOfTenSecondsAgoAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := evidencetest.New(nil)
		s := &Watcher{Evidence: a.Book, Config: riskConfig}
		go func() { _ = s.Run(ctx) }()
		synctest.Wait()
		a.Learn(t, aKey, 10)
		if len(s.States()) != 0 {
			t.Error("a scrape asked for what is new")
		}
		time.Sleep(readInterval)
		synctest.Wait()
		if known := s.States(); len(known) != 1 || len(known[0].State.Scores) != 10 {
			t.Errorf("got %+v", known)
		}
		cancel()
		synctest.Wait()
	})
}
