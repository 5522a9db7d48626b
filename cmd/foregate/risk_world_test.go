package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// riskRule is the default promise.
var riskRule = risk.Rule{MaxWrongRate: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}

// audits are made by real openings and closings.
type audits struct {
	book *evidence.Book
	dice *rand.Rand
	n    int
}

func newAudits(client redis.UniversalClient) *audits {
	return &audits{
		book: evidence.New(evidence.Options{Redis: client, Rule: func(string) risk.Rule { return riskRule }}),
		dice: rand.New(rand.NewPCG(3, 4)),
	}
}

// auditsAt are kept in a Redis. Their client is one that waits: a busy machine is no matter here.
func auditsAt(t *testing.T, n *redisNode) *audits {
	t.Helper()
	ep, err := config.ParseRedis("redis://" + n.addr)
	if err != nil {
		t.Fatal(err)
	}
	client, err := patient(ep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // only connections are lost
	return newAudits(client)
}

// learn gives scores without outcomes, evenly from 0 to 1.
func (a *audits) learn(t *testing.T, k risk.Key, n int) {
	t.Helper()
	for i := range n {
		if fate := a.open(t, k, float64(i)/risk.GridScores); fate != risk.Learned {
			t.Fatalf("%s: score %d was %s", k, i, fate)
		}
	}
}

// audit makes n audits of drafts within the region, of which every so many is bad; 0 is none.
func (a *audits) audit(t *testing.T, k risk.Key, n, badEvery int) {
	t.Helper()
	for i := range n {
		floor := a.book.View(k).Floor
		if fate := a.open(t, k, floor+(1-floor)*a.dice.Float64()); fate != risk.Opened {
			t.Fatalf("%s: audit %d was %s", k, i, fate)
		}
		if err := a.book.Close(t.Context(), k, a.ticket(), badEvery > 0 && i%badEvery == badEvery-1); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *audits) ticket() string { return fmt.Sprintf("t%06d", a.n) }

// open begins an audit with the next ticket.
func (a *audits) open(t *testing.T, k risk.Key, score float64) risk.OpenResult {
	t.Helper()
	a.n++
	fate, err := a.book.Open(t.Context(), evidence.Audit{
		Decision: a.book.View(k).Decide(k, 1, 0), Ticket: a.ticket(), Score: score,
		Features: []float64{score - 1, score - 2, -a.dice.Float64(), score - 3, -4}, Tokens: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	return fate
}

// riskKey is a key of the rules that these tests have.
func riskKey(route, length, cohort string) risk.Key {
	return risk.Key{Route: route, TrafficClass: length + ".0a1b2c3d", Cohort: cohort}
}

// mixed has a key of each state: certified with an audit under way, uncertified, learning,
// infeasible, and a lot that is kept apart.
func (a *audits) mixed(t *testing.T) {
	t.Helper()
	certified := riskKey("chat", "to_1k", "conf")
	a.learn(t, certified, risk.GridScores)
	a.audit(t, certified, 400, 150)
	a.open(t, certified, .99)
	uncertified := riskKey("chat", "to_4k", "conf")
	a.learn(t, uncertified, risk.GridScores)
	a.audit(t, uncertified, 20, 0)
	a.learn(t, riskKey("chat", "above_4k", "conf"), 120)
	head := riskKey("chat", "to_1k", "head")
	a.learn(t, head, risk.GridScores)
	a.audit(t, head, 60, 0)
	infeasible := riskKey("code", "to_1k", "conf")
	a.learn(t, infeasible, risk.GridScores)
	a.audit(t, infeasible, 40, 2)
}

// trial are audits of all drafts of a route, made before it served any: the better a score, the
// more of them are good.
func trial(n int) []evidence.LogEntry {
	all := pastAudits(n)
	for i := range all {
		if all[i].Label = labelGood; i%10 == 9 {
			all[i].Score, all[i].Label = all[i].Score-5, labelBad
		}
	}
	return all
}

// pastAudits are lines of a file: so many audits of a score that tells good from bad somewhat.
func pastAudits(n int) []evidence.LogEntry {
	dice := rand.New(rand.NewPCG(1, 2))
	all := make([]evidence.LogEntry, n)
	for i := range all {
		mean, window, entropy, worst := -dice.ExpFloat64(), -dice.ExpFloat64(), -dice.Float64(), -2*dice.ExpFloat64()
		label := labelGood
		if dice.Float64() < .15-.2*mean-.1*worst-.1 {
			label = labelBad
		}
		if i%50 == 49 {
			label = labelLost
		}
		all[i] = evidence.LogEntry{
			When: time.Unix(1_700_000_000+int64(i), 0), Key: riskKey("chat", "to_1k", "conf"), Ticket: fmt.Sprintf("p%06d", i),
			Score: min(mean, window), Floor: -1e9, Threshold: 1e9, Features: []float64{mean, window, entropy, worst, -5}, Tokens: 80, Version: 7, Label: label,
		}
	}
	return all
}
