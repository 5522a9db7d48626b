package riskview

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/evidence/evidencetest"
	"github.com/foregate/foregate/tiers/risk"
)

// TestThePaceIsThatOfAuditsThatCount has one a minute, of which every second one scores too low for
// the next threshold.
func TestThePaceIsThatOfAuditsThatCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		k := evidencetest.Key("chat", "to_1k")
		a.Learn(t, k, risk.GridScores)
		s := &Watcher{book: a.Book, config: riskConfig, now: time.Now}
		for i := range 30 {
			v := a.Book.View(k)
			if fate := a.Open(t, k, []float64{1, v.Floor}[i%2]); fate != risk.Opened {
				t.Fatalf("audit %d was %s", i, fate)
			}
			time.Sleep(time.Minute)
		}
		views, err := s.Views(t.Context())
		if err != nil || len(views) != 1 || views[0].AuditsPerMinute == nil || views[0].SecondsToCertify == nil {
			t.Fatalf("%v: %+v", err, views)
		}
		v := views[0]
		if *v.AuditsPerMinute != .5 || math.Abs(*v.SecondsToCertify-60**v.AuditsToCertify/.5) > 1e-9 || v.State != gateway.RiskUncertified || v.Pending != 15 {
			t.Errorf("%g a minute, %g s: %+v", *v.AuditsPerMinute, *v.SecondsToCertify, v)
		}
		time.Sleep(2 * time.Hour)
		if views, err = s.Views(t.Context()); err != nil || views[0].AuditsPerMinute != nil || views[0].SecondsToCertify != nil {
			t.Errorf("after two hours without one: %v, %+v", err, views[0])
		}
	})
}

func TestMetricsHaveStatesOfTenSecondsAgoAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := evidencetest.New(nil)
		s := New(Options{Evidence: a.Book, Config: riskConfig})
		if len(s.States()) != 0 {
			t.Error("something is known before it was read")
		}
		go func() { _ = s.Run(ctx) }()
		synctest.Wait()
		a.Learn(t, evidencetest.Key("chat", "to_1k"), 10)
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

func TestAPromiseFitsOneLineOfTheStatus(t *testing.T) {
	a := evidencetest.New(nil)
	a.Mixed(t)
	known, err := a.Book.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &Watcher{config: riskConfig, now: time.Now}
	s.last.Store(&known)
	var got []string
	for _, p := range s.Guarantees() {
		got = append(got, p.Route+": "+display.GuaranteeText(p))
	}
	want := []string{
		"chat: wrong rate at most 10%, with probability 95%: 1 of 3 classes certified",
		"code: wrong rate at most 10%, with probability 95%: 0 of 1 class certified, 1 infeasible",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
