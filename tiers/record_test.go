package tiers

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
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
