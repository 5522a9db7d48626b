package tiers

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/recent"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/world"
)

// stoppedClock is a world whose time a test tells.
type stoppedClock struct {
	world.System
	now time.Time
}

func (c *stoppedClock) Now() time.Time { return c.now }

func TestTimesAreThoseOfTheTierThatTookThem(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := &stoppedClock{now: now}
	r := &Request{Arrival: Arrival{Body: &openai.Request{}}, Receipt: &Receipt{Began: now}, Services: &Services{World: clock, metrics: newMetrics(nil, time.Now)}}
	rc := r.Receipt
	after := func(d time.Duration) { clock.now = clock.now.Add(d) }
	after(time.Second)
	r.Enter("draft")
	after(2 * time.Second)
	r.Enter("target")
	after(4 * time.Second)
	r.RecordFirstByte()
	if rc.Draft != 2*time.Second || rc.Target != 4*time.Second || rc.First != 7*time.Second {
		t.Errorf("at the first byte: %v of the draft, %v of the target, %v in all", rc.Draft, rc.Target, rc.First)
	}
	after(8 * time.Second)
	r.Leave()
	after(16 * time.Second)
	r.Leave()
	if rc.Draft != 2*time.Second || rc.Target != 12*time.Second || rc.First != 7*time.Second {
		t.Errorf("at the end: %v of the draft, %v of the target, %v in all", rc.Draft, rc.Target, rc.First)
	}
	asked := clock.now
	after(time.Second)
	r.recordCheck(Check{Took: time.Second})
	r.recordDraft(draft.New(draft.Options{Request: &openai.Request{}, Config: &plan.Config{}, Decision: &plan.Decision{}}), asked.Add(-5*time.Second))
	if (*events)(r).Tried(dispatch.Try{}, clock.now); rc.Tries[0].At != clock.now.Sub(rc.Began) {
		t.Errorf("a call at %v, want %v", rc.Tries[0].At, clock.now.Sub(rc.Began))
	}
	(*events)(r).Settled(1, dispatch.Try{Tokens: 1})
	if r.recordVerdict(accept.Verdict{}); rc.Judged != clock.now.Sub(rc.Began) || rc.Tries[0].Tokens != 1 || rc.Tries[0].At != rc.Judged {
		t.Errorf("judged at %v, want %v; %+v", rc.Judged, clock.now.Sub(rc.Began), rc.Tries)
	}
	if rc.Verify != time.Second || rc.Draft != 5*time.Second || rc.Checks[0].At != asked.Sub(rc.Began) {
		t.Errorf("%v of asking, %v of the draft, %+v", rc.Verify, rc.Draft, rc.Checks)
	}
}

func TestARecordIsBounded(t *testing.T) {
	r := &Request{Arrival: Arrival{Body: &openai.Request{}}, Receipt: &Receipt{}, Services: &Services{World: world.System{}, metrics: newMetrics(nil, time.Now)}}
	rc := r.Receipt
	for i := range 2 * maxTries {
		r.recordCheck(Check{})
		r.recordFailover(Failover{})
		if entry := (*events)(r).Tried(dispatch.Try{}, time.Time{}); (entry == 0) != (i >= maxTries) {
			t.Errorf("the entry of call %d is %d", i, entry)
		}
	}
	if len(rc.Tries) != maxTries || len(rc.Checks) != maxChecks || len(rc.Failovers) != maxChecks {
		t.Errorf("%d calls, %d checks, %d takeovers", len(rc.Tries), len(rc.Checks), len(rc.Failovers))
	}
}

// TestADraftIsComparedWithTheTargetAtTheSamePrices and with the same prefix in the cache.
func TestADraftIsComparedWithTheTargetAtTheSamePrices(t *testing.T) {
	q := playedRequest(t, nil, nil, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, "http://targets")
	q.Receipt = &Receipt{PromptTokens: 100, CachedTokens: 60, AcceptedTokens: 10, USD: 30, Verdict: accept.Verdict{Reason: accept.ReasonScore}}
	if q.compareWithTarget(); q.SavedUSD != 0 || !q.Unpriced {
		t.Errorf("without a price: saved %g, unpriced %t", q.SavedUSD, q.Unpriced)
	}
	q.Target.SetPrice(pool.Price{Tokens: economy.TokenPrice{Input: 3, Output: 5}})
	q.Unpriced = false
	if q.compareWithTarget(); q.SavedUSD != 40*3+10*5-30 || q.Unpriced {
		t.Errorf("saved %g, unpriced %t", q.SavedUSD, q.Unpriced)
	}
	q.Receipt = &Receipt{PromptTokens: 100, TargetTokens: 10, USD: 30}
	if q.compareWithTarget(); q.SavedUSD != 0 {
		t.Errorf("without a draft: saved %g", q.SavedUSD)
	}
}

// rates are the acceptance rates that a registry shows, by route.
func rates(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "vllm_spec_acceptance_rate" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

func TestTheAcceptanceRateIsShownByRouteWhileDraftsAreJudged(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	now := time.Now()
	m := newMetrics(reg, func() time.Time { return now })
	if got := rates(t, reg); len(got) != 0 {
		t.Errorf("before any draft: %v", got)
	}
	draft := func(route string, judged, accepted int) {
		rc := &Receipt{Route: route, AcceptedTokens: accepted}
		rc.Verdict.Tokens, rc.Verdict.Reason = judged, "confident"
		m.countOutcome(rc, plan.ModeConfidence)
	}
	draft("a", 100, 100)
	draft("a", 100, 0)
	draft("b", 16, 17)                                        // an engine counts one more
	m.countOutcome(&Receipt{Route: "c"}, plan.ModeConfidence) // nothing was judged
	if got := rates(t, reg); len(got) != 2 || got["a"] != 0.5 || got["b"] != 1 {
		t.Errorf("got %v, want half of a's tokens and all of b's", got)
	}
	now = now.Add(recent.Window)
	draft("a", 10, 1)
	if got := rates(t, reg); len(got) != 1 || math.Abs(got["a"]-0.1) > 1e-9 {
		t.Errorf("five minutes later: %v, want a tenth of a's tokens and no b", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestOnlyEnginesThatScheduleByPriorityAreToldTheClass(t *testing.T) {
	for priority, want := range map[identity.Priority]int64{identity.Low: 10, identity.Normal: 0, identity.High: -10} { // vLLM takes the lower number first
		for _, honours := range []bool{true, false} {
			p, err := pool.New(pool.Options{Name: "targets", Model: "big", Backends: []string{"http://one"}, Priorities: honours})
			if err != nil {
				t.Fatal(err)
			}
			r := &Request{Arrival: Arrival{Metadata: &Metadata{Caller: identity.Caller{Priority: priority}}}}
			if got := r.Terms(Pool{Pool: p}).Priority; (got != nil) != honours || honours && *got != want {
				t.Errorf("honoured %t, %s: told %v, want %d", honours, priority, got, want)
			}
		}
	}
}

func TestTheHeaderTellsHowADraftWasJudged(t *testing.T) {
	judged := accept.Verdict{Accept: true, Reason: accept.ReasonConfident, Score: 0.25, Tokens: 9}
	for want, rc := range map[string]*Receipt{
		"bypassed;reason=uncertified;policy=g0.a0.op0":                     {Bypass: plan.ReasonUncertified, Decision: plan.Decision{Audit: &plan.AuditDecision{}}},
		"accepted;reason=confident;score=0.250":                            {Verdict: judged, Decision: plan.Decision{Plan: plan.Plan{Mode: plan.ModeConfidence}}},
		"accepted;reason=confident;score=0.250;mode=risk;policy=g0.a0.op0": {Verdict: judged, Decision: plan.Decision{Plan: plan.Plan{Mode: plan.ModeRisk}, Audit: &plan.AuditDecision{}}},
		"accepted;reason=confident;score=0.250;mode=verify;rule=exact":     {Verdict: judged, Decision: plan.Decision{Plan: plan.Plan{Mode: plan.ModeVerify, Rule: plan.RuleExact}}},
	} {
		if got := rc.Acceptance(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTheObjectOfAnAnswerSaysWarmupOnlyOfOne(t *testing.T) {
	for what, tc := range map[string]struct {
		rc   Receipt
		word bool
	}{
		"served by it":           {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Accept: true, Reason: "confident"}}, true},
		"refused by it":          {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Reason: "low_score"}}, true},
		"verified by the target": {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{Warmup: true}}, Verdict: accept.Verdict{Accept: true, Reason: "target_agrees"}}, false},
		"certified":              {Receipt{Decision: plan.Decision{Audit: &plan.AuditDecision{}}, Verdict: accept.Verdict{Accept: true, Reason: "confident"}}, false},
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
