package tiers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// warmRig is a rig in mode risk whose only kind of request is in its warm-up.
func warmRig(t *testing.T, draft vllmsim.Options, grid risk.Grid) (*rig, *notebook) {
	t.Helper()
	r, n := auditedRig(t, draft, vllmsim.Options{})
	n.grid = grid
	r.cfg.Risk.Warmup, r.cfg.Risk.WarmupDuration = true, time.Hour
	n.rule.MaxDisagreement, n.rule.ErrorProbability = 0.45, 1e-100 // so that it goes on
	r.cfg.Risk.Rule = n.rule
	if _, rc, err := r.ask(openai.Chat, plan.Auto, chat("the first", `,"max_tokens":20`)); err != nil || rc.Tier != plan.Target || rc.Decision.Audit.Warmup {
		t.Fatalf("before the warm-up is known to have begun: %s from %s, %v", rc.Acceptance(), rc.Tier, err)
	}
	r.rests(t)
	return r, n
}

// warmth is the only warm-up of a notebook, and how many audits of it were booked.
func (n *notebook) warmth() (w risk.Warmup, booked int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.states {
		w = s.Warmup
	}
	return w, len(n.warmups)
}

func TestEveryDraftThatAWarmupServesIsMarkedAndHasOneAuditOfIt(t *testing.T) {
	for what, change := range map[string]func(*plan.Config){
		"streams":               func(*plan.Config) {},
		"nothing is taken over": func(c *plan.Config) { c.MidstreamFailover = false },
	} {
		t.Run(what, func(t *testing.T) {
			r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, risk.Grid{0.31, 0.3, 0.2, 0.1, -1})
			change(&r.cfg)
			served, refused := 0, 0
			for i := range 18 {
				was, booked := n.warmth()
				out := &collector{}
				stream := i%3 > 0
				req := scan(t, openai.Chat, chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":80,"stream":%v`, stream)))
				var c confirmation
				rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "test", Confirmation: &c}, out)
				if err != nil {
					t.Fatal(err)
				}
				r.rests(t)
				now, after := n.warmth()
				body := bytes.Join(out.writes, nil)
				marked := strings.HasPrefix(rc.Acceptance(), "accepted;phase=warmup;") && isWarmup(rc)
				switch rc.Verdict.Cohort {
				case accept.CohortWarmup:
					served++
					bad := now.Bad - was.Bad
					if after != booked+1 || now.Served != was.Served+1 || !marked || !bytes.Contains(body, []byte(`"acceptance":"accepted","reason":"confident","phase":"warmup"`)) {
						t.Errorf("%s: %d audits, %d served, %s", rc.Acceptance(), after-booked, now.Served-was.Served, body)
					}
					if c.good != (bad == 0) || !c.awaited || now.Open != 0 {
						t.Errorf("%d bad, confirmed %t, awaited %t, %d open", bad, c.good, c.awaited, now.Open)
					}
				default:
					refused++
					if rc.Tier == plan.Draft || after != booked || now.Served != was.Served || marked {
						t.Errorf("%s from %s: %d audits, %d served", rc.Acceptance(), rc.Tier, after-booked, now.Served-was.Served)
					}
				}
			}
			if w, _ := n.warmth(); served < 2 || refused == 0 || w.Served != served || w.Audits != served || w.Drafts < 18 {
				t.Errorf("%d served, %d refused: %+v", served, refused, w)
			}
		})
	}
}

func TestADraftOfAWarmupWhoseClientLeftIsNotServed(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	left := 0
	for i := range 10 {
		ctx, leave := context.WithCancel(t.Context())
		req := scan(t, openai.Chat, chat(fmt.Sprint("later ", i), `,"max_tokens":4000,"ignore_eos":true,"stream":true`))
		rc, err := answerBy(ctx, r.cascade, arrival{Body: req, ID: "test"}, &collector{onText: leave})
		if err == nil {
			t.Fatalf("%s: answered", rc.Acceptance())
		}
		if leave(); rc.Verdict.Accept && rc.Decision.Audit.Warmup {
			left++
		}
	}
	r.rests(t)
	if w, booked := n.warmth(); left == 0 || w.Served != 0 || booked < left {
		t.Errorf("%d clients left drafts of the warm-up: %d audits, %+v", left, booked, w)
	}
}

func TestTheObjectOfAnAnswerSaysWarmupOnlyOfOne(t *testing.T) {
	for what, tc := range map[string]struct {
		rc   Receipt
		word bool
	}{
		"served by it":           {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Accept: true, Reason: "confident", Cohort: accept.CohortWarmup}}, true},
		"refused by it":          {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Reason: "low_score"}}, true},
		"verified by the target": {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Accept: true, Reason: "target_agrees", Cohort: accept.CohortWhole}}, false},
		"certified":              {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{}}, Verdict: accept.Verdict{Accept: true, Reason: "confident", Cohort: accept.CohortConfidence}}, false},
		"not judged":             {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Bypass: "draft_full"}, false},
	} {
		var object struct{ Phase string }
		if err := json.Unmarshal(tc.rc.AppendExtra(nil), &object); err != nil {
			t.Fatal(err)
		}
		if got := object.Phase == "warmup"; got != tc.word || isWarmup(&tc.rc) != tc.word {
			t.Errorf("%s: %s, %s", what, tc.rc.AppendExtra(nil), tc.rc.Acceptance())
		}
	}
}

// isWarmup reports whether the header of an answer says that it was judged by the threshold of a warm-up.
func isWarmup(rc *Receipt) bool { return strings.Contains(rc.Acceptance(), ";phase=warmup") }
