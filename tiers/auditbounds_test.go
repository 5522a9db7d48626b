package tiers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

func TestADraftInTheShadowIsMadeAtTheLowestClassAndOutsideOfTheTrace(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Shadow()
		r.happens("made", "draft", "open own t1", "score", "close t1 good")
		a, ticket := r.attempts[0], r.tickets[0]
		if len(a.Header) != 0 || !strings.HasPrefix(a.ID, "id-") || a.Call.(*engine.Draft).Counted || ticket.Class != 0 || !ticket.NoWait {
			t.Errorf("%+v, %+v", a, ticket)
		}
		r.subject.Draft.Capabilities.TokenIDs = false
		r.subject.Shadow()
		if r.rests(); !r.attempts[len(r.attempts)-2].Call.(*engine.Draft).Counted {
			t.Error("chunks without ids tell no usage")
		}
		r.log, r.breaks = nil, 1
		r.subject.Shadow()
		r.happens("lost", "draft")
		r.drops("draft_lost")
	})
	play(t, func(r *auditRig) {
		r.subject.Decision.Calls, r.subject.Config.Risk.MaxConcurrentAudits = true, 1
		r.subject.Shadow()
		r.happens("in one piece", "answer", "open own t1", "score", "close t1 good")
		if ticket := r.tickets[0]; ticket.Class != 0 || !ticket.NoWait {
			t.Errorf("%+v", ticket)
		}
	})
}

func TestAnAuditThatTheBudgetPaysForDoesNotGiveWayToRequests(t *testing.T) {
	for _, spare := range []bool{true, false} {
		play(t, func(r *auditRig) {
			r.subject.Views.SpareCapacity = spare
			r.watched()
			r.happens("audited", "open own t1", "score", "close t1 good")
			if ticket := r.tickets[len(r.tickets)-1]; ticket.NoWait != spare || ticket.MidStream == spare {
				t.Errorf("with spare capacity %t: %+v", spare, ticket)
			}
		})
	}
}

func TestABodyIsKeptUntilItsAuditIsOver(t *testing.T) {
	play(t, func(r *auditRig) {
		kept, released := 0, 0
		r.subject.Retain = func() func() { kept++; return func() { released++ } }
		r.watched()
		r.happens("audited", "open own t1", "score", "close t1 good")
		if kept != 1 || released != 1 {
			t.Errorf("kept %d times, released %d times", kept, released)
		}
		w, x := r.half()
		r.auditor.Tasks.Wait()
		w.TakeStream(x)
		r.subject.Shadow()
		r.watched()
		r.drops("busy", "busy", "busy")
		if kept != 4 || released != 4 {
			t.Errorf("without a place: kept %d times, released %d times", kept, released)
		}
		if r.streams != 0 {
			t.Error("the draft's stream is open")
		}
	})
}

func TestAnAuditThatIsNotWantedAnyMoreLeavesNothingBehind(t *testing.T) {
	play(t, func(r *auditRig) {
		ctx, cancel := context.WithCancel(r.t.Context())
		r.auditor.Tasks.Wait()
		r.ctx = ctx
		r.auditor.Tasks.Begin(ctx)
		r.target = func(*engine.Attempt) error { // it hangs until the audit is cancelled
			cancel()
			time.Sleep(time.Minute)
			return &engine.Failure{Kind: engine.ClientGone}
		}
		r.watched()
		r.auditor.Tasks.Wait()
		if len(r.log) != 2 || r.log[1] != "score" {
			t.Errorf("%v", r.log)
		}
		if r.auditor.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, true) {
			t.Error("it may be audited while nothing runs")
		}
	})
}

func TestOutcomesOfWhatMayBeServedCountForTheirTenant(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Config.Risk.Rule = risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 4000, DriftRunLength: 1000}
		key, now := r.subject.Decision.Audit.Own.Key, r.subject.World.Now()
		for _, tenant := range []string{r.subject.Caller.Tenant, "another"} {
			r.auditor.Classes.AddAudit(key, tenant, now)
		}
		r.refuses = true
		for range 10 {
			r.watched()
			r.rests()
		}
		if !r.auditor.Classes.IsApart(key, r.subject.Caller.Tenant, now) {
			t.Error("ten bad drafts of ten do not set a tenant apart")
		}
	})
}

// TestATenantWhoseDraftsAreRefutedDoesNotTurnThemOffForOthers: its next requests have evidence of their own.
func TestATenantWhoseDraftsAreRefutedDoesNotTurnThemOffForOthers(t *testing.T) {
	rule, now := risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 4000, DriftRunLength: 1000}, time.Now()
	cfg := testConfig()
	cfg.Mode, cfg.Risk = plan.ModeRisk, plan.Risk{Rule: rule, Label: plan.LabelLenient, MaxConcurrentAudits: 1}
	o := testOptions(t)
	o.Capabilities = func(string) *probe.Capabilities {
		return &probe.Capabilities{Scoring: openai.ScoreCompletions, TokenIDs: true, Tokenizer: "t", Template: "t"}
	}
	o.Evidence = evidence.New(evidence.Options{Rule: func(string) risk.Rule { return rule }})
	o.Routes = []Route{{
		Model: "m", Draft: testPool(t, "drafts", "small", "http://127.0.0.1:9"), Target: testPool(t, "targets", "big", "http://127.0.0.1:9"),
		Config: func() plan.Config { return cfg },
	}}
	c := New(o)
	keyOf := func(tenant string) risk.Key {
		r := c.arrive(Arrival{Metadata: &Metadata{Caller: identity.Caller{Tenant: tenant}}, Body: scan(t, openai.Chat, chat("hi", "")), Route: routeOf(c)}, "")
		r.Receipt = NewReceipt("m", now)
		c.decide(r)
		return r.Decision.Audit.Own.Key
	}
	shared := keyOf("innocent")
	for _, tenant := range []string{"innocent", "attacker"} {
		c.audits.Classes.AddAudit(shared, tenant, now)
	}
	for range 10 {
		c.audits.Classes.Settle(shared, "attacker", true, rule, now)
	}
	if k := keyOf("attacker"); k.TrafficClass != shared.TrafficClass+".attacker" || keyOf("innocent") != shared {
		t.Errorf("the attacker goes by %s, the other by %s, before by %s", k, keyOf("innocent"), shared)
	}
}
