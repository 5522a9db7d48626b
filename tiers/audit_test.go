package tiers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// notebook is evidence in memory, which tests can look into.
type notebook struct {
	mu     sync.Mutex
	rule   risk.Rule
	grid   risk.Grid // that states begin with; nil: they learn theirs
	op     int       // index that they begin with as certified
	states map[risk.Key]*risk.State
	opened []risk.Audit
	fates  map[risk.OpenResult]int
	bad    map[string]bool // outcomes by ticket

	warmups []string // tickets of audits of drafts that the warm-up served
}

func newNotebook(rule risk.Rule) *notebook {
	return &notebook{rule: rule, states: map[risk.Key]*risk.State{}, fates: map[risk.OpenResult]int{}, bad: map[string]bool{}}
}

// state is a key's. The caller holds mu.
func (n *notebook) state(k risk.Key) *risk.State {
	if n.states[k] == nil {
		op := n.op
		n.states[k] = &risk.State{Grid: n.grid}
		if n.grid != nil {
			s := n.states[k]
			s.Version, s.MaxDisagreement, s.ErrorProbability, s.Op = 1, n.rule.MaxDisagreement, n.rule.ErrorProbability, op
			s.Epochs = []risk.Epoch{{ID: 1, Turn: 1, Cert: op}}
		}
	}
	return n.states[k]
}

func (n *notebook) View(k risk.Key) risk.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.state(k).View(n.rule)
	v.Seen = time.Now()
	return v
}

func (n *notebook) Mixed(k risk.Key) *risk.Mixed {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state(k).Mixed(n.rule)
}

func (n *notebook) Open(_ context.Context, a risk.Audit) (risk.OpenResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.state(a.Key).Open(n.rule, &risk.Audit{Decision: a.Decision, Score: a.Score, Ticket: a.Ticket}, time.Unix(1e9, 0))
	n.fates[f]++
	if f == risk.Opened {
		n.opened = append(n.opened, a)
	}
	return f, nil
}

func (n *notebook) OpenWarmup(_ context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fate := n.state(k).OpenWarmup(n.rule, ticket, time.Now())
	if fate == risk.Opened {
		n.warmups = append(n.warmups, ticket)
	}
	return fate, nil
}

func (n *notebook) Drafted(k risk.Key, made, served int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state(k).Drafted(n.rule, made, served, time.Now())
}

func (n *notebook) Close(_ context.Context, k risk.Key, ticket string, bad bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state(k).Close(n.rule, ticket, bad)
	n.bad[ticket] = bad
	return nil
}

// count is how many audits met a fate.
func (n *notebook) count(f risk.OpenResult) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fates[f]
}

// closed are the outcomes so far: how many there are, and how many were bad.
func (n *notebook) closed() (all, bad int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.bad {
		if b {
			bad++
		}
	}
	return len(n.bad), bad
}

// auditedRig is a rig in mode risk that audits every draft, and whose evidence is a notebook.
func auditedRig(t *testing.T, draft, target vllmsim.Options) (*rig, *notebook) {
	t.Helper()
	r, n := auditedRigAtRest(t, draft, target)
	r.run(t)
	return r, n
}

// auditedRigAtRest is auditedRig, whose loop does not run yet.
func auditedRigAtRest(t *testing.T, draft, target vllmsim.Options) (*rig, *notebook) {
	t.Helper()
	r := probedRig(t, draft, target)
	r.cfg.Mode = plan.ModeRisk
	r.cfg.Risk = plan.Risk{
		Rule:  risk.Rule{MaxDisagreement: 0.3, ErrorProbability: 0.1, LeaseAudits: 3000, DriftRunLength: 1e6},
		Rates: risk.Rates{Audit: 1, ColdStart: 1, ColdStartPerMinute: 1e9, Boost: 1, Explore: 1},
		Label: plan.LabelLenient, MaxConcurrentAudits: 4, MaxStaleness: time.Minute,
	}
	n := newNotebook(r.cfg.Risk.Rule)
	r.cascade.evidence, r.cascade.audits.Evidence = n, n
	return r, n
}

// run runs the cascade's loop until the test ends.
func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.cascade.Run(ctx)
	}()
	r.running = ctx
	eventually(t, "the cascade's loop", func() bool { return r.cascade.audits.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1}, true) })
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// rests waits until nothing is audited any more.
func (r *rig) rests(t *testing.T) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.cascade.audits.Tasks.Wait()
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("not all audits ended in 10 s")
	}
	r.cascade.audits.Tasks.Begin(r.running)
}

// everything is a grid whose strictest threshold accepts all drafts.
var everything = risk.Grid{-1000, -1001, -1002, -1003}

// One tenant whose drafts are always wrong is judged by itself after a few audits; the drafts of others are still served.
func TestATenantWhoseDraftsAreRefutedDoesNotTurnThemOffForOthers(t *testing.T) {
	r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 1}, vllmsim.Options{})
	n.grid, n.op, r.cfg.Risk.Rule.MaxDisagreement = everything, 1, .02 // so that a few audits do
	ask := func(tenant string, i int) *Receipt {
		req := scan(t, openai.Chat, chat(fmt.Sprint(tenant, " asks ", i), `,"max_tokens":60`))
		rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "test", Tenant: tenant}, &collector{})
		if err != nil {
			t.Fatal(err)
		}
		r.rests(t)
		return rc
	}
	shared := ask("innocent", 0).Decision.Audit.Own.Key
	for i := range 20 { // a tenant has half of the audits at most
		ask(fmt.Sprint("other", i), 0)
	}
	apart := -1
	for i := range 40 {
		if k := ask("attacker", i).Decision.Audit.Own.Key; k != shared {
			if apart = i; k.TrafficClass != shared.TrafficClass+".attacker" {
				t.Errorf("its evidence is that of %s", k)
			}
			break
		}
	}
	if apart < 0 || apart > 20 {
		all, bad := n.closed()
		t.Errorf("set apart after %d requests, %d audits of which %d bad", apart, all, bad)
	}
	if rc := ask("innocent", 1); rc.Decision.Audit.Own.Key != shared || !rc.Decision.Judged {
		t.Errorf("the other tenant goes by %s: %s", rc.Decision.Audit.Own.Key, rc.Acceptance())
	}
}

// fine is a grid whose thresholds lie among the scores of the simulator's drafts.
var fine = risk.Grid{0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0, -0.5, -1}

// audited counts the audits that were opened since, with a score of their own threshold or more.
func (n *notebook) audited(since int) (served int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.opened[since:] {
		if a.Score >= a.Threshold {
			served++
		}
	}
	return served
}

func (n *notebook) so() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened)
}

func TestWhatIsServedUnverifiedIsWhatAuditsAreOf(t *testing.T) {
	for what, change := range map[string]func(*plan.Config){
		"streams":               func(*plan.Config) {},
		"nothing is taken over": func(c *plan.Config) { c.MidstreamFailover = false },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{})
			n.grid, n.op = fine, 3
			change(&r.cfg)
			served := 0
			for i := range sample(30, 60) {
				before := n.so()
				_, rc, err := r.ask(openai.Chat, plan.Auto, chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":120,"stream":%v`, i%3 > 0)))
				if err != nil {
					t.Fatal(err)
				}
				r.rests(t)
				if rc.Tier == plan.Draft {
					if own := rc.Decision.Audit.Own; rc.Verdict.Cohort != accept.CohortConfidence || rc.Decision.Accept.Threshold != accept.Nats(own.Threshold) || rc.Verdict.Score < rc.Decision.Accept.Threshold {
						t.Errorf("%+v by %+v", rc.Verdict, own)
					}
					if got := n.audited(before); got != 1 {
						t.Errorf("%s from the draft: %d audits are of it", rc.Acceptance(), got)
					}
					served++
				}
			}
			if served == 0 {
				t.Error("nothing was served: the test shows nothing")
			}
		})
	}
}

// confirmed asks for an answer that is to be kept, and waits until nothing runs in the background.
func (r *rig) confirmed(t *testing.T, question string) (*Receipt, *confirmation) {
	t.Helper()
	req := scan(t, openai.Chat, chat(question, `,"max_tokens":60`))
	c := &confirmation{}
	rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: question, Confirmation: c}, &collector{})
	if err != nil {
		t.Fatal(err)
	}
	r.rests(t)
	return rc, c
}

// TestADoubtfulDraftIsKeptOnlyIfTheTargetAcceptsIt has drafts of which the target rejects some. All are doubtful, because two
// thresholds at most are certified. None is audited.
func TestADoubtfulDraftIsKeptOnlyIfTheTargetAcceptsIt(t *testing.T) {
	r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5}, vllmsim.Options{})
	n.grid, n.op = everything, 1
	r.cfg.Risk.Rates.Audit = 0
	r.cfg.VerifyDrafts = plan.VerifyDoubtful
	served := 0
	for i := range 16 {
		rc, c := r.confirmed(t, fmt.Sprint("question ", i))
		if rc.Tier != plan.Draft {
			continue
		}
		served++
		if !c.awaited || !c.known {
			t.Errorf("awaited %t, an opinion %t", c.awaited, c.known)
		}
	}
	count := func(result string) int {
		return int(testutil.ToFloat64(r.cascade.metrics.served.WithLabelValues("m", result)))
	}
	if passed, failed := count("passed"), count("failed"); passed == 0 || failed == 0 || passed+failed != served {
		t.Errorf("of %d drafts %d passed and %d failed", served, passed, failed)
	}
	if opened := n.count(risk.Opened); opened != 0 {
		t.Errorf("%d audits were opened", opened)
	}
	r.cfg.VerifyDrafts = plan.VerifyNever
	for i := range 4 {
		if rc, c := r.confirmed(t, fmt.Sprint("unchecked ", i)); rc.Tier == plan.Draft && (c.awaited || c.known) {
			t.Error("it waits, though nothing is checked")
		}
	}
}
