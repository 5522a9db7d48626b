package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

func TestWhatIsNoAuditIsRefused(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		good := risk.Audit{Decision: risk.Decision{Key: chat, Chance: .05}, Ticket: "x", Score: 1}
		for name, spoil := range map[string]func(a *risk.Audit){
			"not drawn":        func(a *risk.Audit) { a.Chance = 0 },
			"no ticket":        func(a *risk.Audit) { a.Ticket = "" },
			"many features":    func(a *risk.Audit) { a.Features = make([]float64, 9) },
			"no route":         func(a *risk.Audit) { a.Route = "" },
			"an index below 0": func(a *risk.Audit) { a.Hi = -1 },
			"no score":         func(a *risk.Audit) { a.Score = math.NaN() },
		} {
			a := good
			spoil(&a)
			if fate, err := r.Open(t.Context(), a); err == nil || errors.Is(err, ErrAway) {
				t.Errorf("%s: %s, %v", name, fate, err)
			}
		}
	})
}

func TestAKeyThatWasResetBeginsAnew(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		r.certify()
		old := r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0)
		r.open("under-way", 1)
		if err := r.Reset(t.Context(), chat); err != nil {
			t.Fatal(err)
		}
		if v := r.View(chat); v.Serves() || v.Version != 0 {
			t.Errorf("%+v", v)
		}
		if all, _ := r.All(t.Context()); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		r.close("under-way", false)
		if fate, err := r.Open(t.Context(), risk.Audit{Decision: old, Ticket: "old", Score: 1}); fate != risk.Stale || err != nil {
			t.Errorf("an old decision is %s, %v", fate, err)
		}
		r.certify()
		if r.View(chat).Version == old.Version {
			t.Error("the grid has the old one's version")
		}
	})
}

// TestAHundredThousandPromptsAnHourKeepTheEvidenceSmall: one request in 20 is audited, each of another prompt.
func TestAHundredThousandPromptsAnHourKeepTheEvidenceSmall(t *testing.T) {
	r := join(t, "")
	r.Economics = func(risk.Key) risk.Economics { return risk.Economics{} }
	r.teach()
	for i := range 5000 {
		d, ticket := r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), fmt.Sprint("t", i)
		if _, err := r.Open(t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: 1, Application: fmt.Sprintf("acme/%016x", i)}); err != nil {
			t.Fatal(err)
		}
		r.close(ticket, i%20 == 0)
	}
	snapshot, err := json.Marshal(r.fold())
	table, failed := r.Applications(t.Context())
	t.Logf("a snapshot of %d bytes, %d applications", len(snapshot), len(table))
	if err != nil || failed != nil || len(snapshot) > 16<<10 || len(table) > 256 {
		t.Errorf("a snapshot of %d bytes, %d applications; %v, %v", len(snapshot), len(table), err, failed)
	}
}

func TestTheLogTellsOfEveryAuditWithItsOutcome(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		r.certify()
		threshold := r.View(chat).Threshold
		r.open("good", 1)
		r.open("bad", 1)
		r.open("lost", threshold-.01)
		r.close("bad", true)
		r.close("good", false)
		r.close("good", true)
		r.close("unknown", true)
		if r.raw != nil { // what somebody else put there is passed over
			for _, text := range []string{"banana", `{"do":"open"}`, `{"do":"close","class":"to_1k.0a1b2c3d","ticket":"lost","bad":2}`, `{"do":"close","class":"other","rule":{"eps":0.2,"delta":0.05,"lease":400,"run":500},"ticket":"lost"}`} {
				r.raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keyLog + chat.Route, Values: []string{"e", text}})
			}
			r.raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keyLog + chat.Route, Values: []string{"else", "1"}})
		}
		got, err := r.Audits(t.Context(), chat.Route)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 63 {
			t.Fatalf("%d audits", len(got))
		}
		for i, want := range []risk.LogEntry{
			{Audit: risk.Audit{Ticket: "good", Score: 1}, Served: true, Label: "good"},
			{Audit: risk.Audit{Ticket: "bad", Score: 1}, Served: true, Label: "bad"},
			{Audit: risk.Audit{Ticket: "lost", Score: threshold - .01}, Label: "lost"},
		} {
			e := got[60+i]
			want.Decision, want.Features, want.Tokens = risk.Decision{Key: chat, Threshold: threshold, Chance: 1}, []float64{want.Score, 1}, 7
			if time.Since(e.When) > time.Minute || time.Until(e.When) > time.Second || e.Version != r.View(chat).Version || e.Floor > e.Threshold {
				t.Errorf("%+v", e)
			}
			if d := cmp.Diff(want, e, cmpopts.IgnoreFields(risk.LogEntry{}, "When", "Version", "Floor", "Op", "Hi", "Audited", "Common")); d != "" {
				t.Error(d)
			}
		}
		if routes, err := r.Routes(t.Context()); err != nil || len(routes) != 1 || routes[0] != chat.Route {
			t.Errorf("%v, %v", routes, err)
		}
	})
}

func TestEachPriorityHasTheRuleOfItsBound(t *testing.T) {
	stores(t, func(t *testing.T, r *replica) {
		rule := plain
		rule.MaxDisagreementLow = .4
		r.by(rule)
		want := map[risk.Key]float64{chat: plain.MaxDisagreement, {Route: chat.Route, TrafficClass: "all_low_t0.0a1b2c3d.who"}: .4, {Route: chat.Route, TrafficClass: "all.0a1b2c3d.who_low"}: plain.MaxDisagreement}
		for k := range want {
			if fate, err := r.OpenWarmup(t.Context(), k, "w"); fate != risk.Opened || err != nil {
				t.Fatal(fate, err)
			}
		}
		all, err := r.All(t.Context())
		if err != nil || len(all) != len(want) {
			t.Fatal(all, err)
		}
		for _, s := range all {
			if s.Rule.MaxDisagreement != want[s.Key] || s.State.MaxDisagreement != want[s.Key] {
				t.Errorf("%s goes by %g, and its state by %g, want %g", s.Key, s.Rule.MaxDisagreement, s.State.MaxDisagreement, want[s.Key])
			}
		}
	})
}
