package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// auditRule is the default promise.
var auditRule = risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}

// testAudits are made by real openings and closings.
type testAudits struct {
	Book *evidence.Store
	dice *rand.Rand
	n    int
}

// newAudits returns audits with a fixed random source.
func newAudits(client redis.UniversalClient) *testAudits {
	return &testAudits{
		Book: evidence.New(evidence.Options{Redis: client, Rule: func(string) risk.Rule { return auditRule }, Warmup: func(string) time.Duration { return time.Hour }, Economics: economicsOf}),
		dice: rand.New(rand.NewPCG(3, 4)),
	}
}

// Learn adds scores without outcomes, evenly from 0 to 1.
func (a *testAudits) Learn(t testing.TB, k risk.Key, n int) {
	t.Helper()
	for i := range n {
		if fate := a.Open(t, k, float64(i)/risk.GridScores); fate != risk.Learned {
			t.Fatalf("%s: score %d was %s", k, i, fate)
		}
	}
}

// Audit makes n audits of drafts within the region; every badEvery-th is bad, 0 is none.
func (a *testAudits) Audit(t testing.TB, k risk.Key, n, badEvery int) {
	t.Helper()
	for i := range n {
		floor := a.Book.View(k).Floor
		if fate := a.Open(t, k, floor+(1-floor)*a.dice.Float64()); fate != risk.Opened {
			t.Fatalf("%s: audit %d was %s", k, i, fate)
		}
		if err := a.Book.Close(t.Context(), k, a.Ticket(), badEvery > 0 && i%badEvery == badEvery-1); err != nil {
			t.Fatal(err)
		}
	}
}

// Ticket is the id of the last audit.
func (a *testAudits) Ticket() string { return fmt.Sprintf("t%06d", a.n) }

// Open begins an audit with the next ticket.
func (a *testAudits) Open(t testing.TB, k risk.Key, score float64) risk.OpenResult {
	t.Helper()
	a.n++
	fate, err := a.Book.Open(t.Context(), risk.Audit{
		Decision: a.Book.View(k).Decide(k, risk.Sampling{Rate: 1}, 0), Ticket: a.Ticket(), Score: score,
		Features: []float64{score - 1, score - 2, -a.dice.Float64(), score - 3, -4}, Tokens: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	return fate
}

// auditKey returns a key with the rules of these tests.
func auditKey(route, length string) risk.Key {
	return risk.Key{Route: route, TrafficClass: length + ".0a1b2c3d"}
}

// Mixed makes a key of each state: certified with an audit in progress, uncertified, learning, and infeasible.
func (a *testAudits) Mixed(t testing.TB) {
	t.Helper()
	certified := auditKey("chat", "to_1k")
	a.Learn(t, certified, risk.GridScores)
	a.Audit(t, certified, 400, 150)
	a.Open(t, certified, .99)
	uncertified := auditKey("chat", "to_4k")
	a.Learn(t, uncertified, risk.GridScores)
	a.Audit(t, uncertified, 20, 0)
	a.Learn(t, auditKey("chat", "above_4k"), 120)
	infeasible := auditKey("code", "to_1k")
	a.Learn(t, infeasible, risk.GridScores)
	a.Audit(t, infeasible, 40, 2)
}
