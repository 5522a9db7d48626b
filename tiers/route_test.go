package tiers

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/application"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
)

func canary(t *testing.T, weights ...float64) *Route {
	t.Helper()
	config := func() plan.Config { return testConfig() }
	names := []string{"a", "b", "c"}
	rt := &Route{Model: "m", Config: config, Weight: weights[0], Target: testPool(t, "a", "big", "http://127.0.0.1:9")}
	for i, w := range weights[1:] {
		rt.Variants = append(rt.Variants, Variant{w, &Route{Model: "m", Config: config, Target: testPool(t, names[i+1], "big", "http://127.0.0.1:9")}})
	}
	return rt
}

func TestConversationsAreSharedOutByWeight(t *testing.T) {
	const n = 100_000
	rt, random, counts := canary(t, 80, 15, 5), rand.New(rand.NewPCG(1, 2)), map[string]float64{}
	for range n {
		counts[rt.For(random.Uint64()).Target.Name()]++
	}
	for name, share := range map[string]float64{"a": 0.8, "b": 0.15, "c": 0.05} {
		if got, bound := counts[name]/n, 4*math.Sqrt(share*(1-share)/n); math.Abs(got-share) > bound {
			t.Errorf("%s has %.4f of the conversations, want %.4f ± %.4f", name, got, share, bound)
		}
	}
}

func TestALargerWeightMovesConversationsOnlyToItsTarget(t *testing.T) {
	before, after, random, moved := canary(t, 80, 15, 5), canary(t, 80, 30, 5), rand.New(rand.NewPCG(3, 4)), 0
	for range 100_000 {
		h := random.Uint64()
		was, is := before.For(h).Target.Name(), after.For(h).Target.Name()
		if was != is {
			moved++
			if is != "b" {
				t.Fatalf("a conversation moved from %s to %s", was, is)
			}
		}
	}
	if moved == 0 {
		t.Error("no conversation moved")
	}
}

func TestOnlyAReadyIncumbentAnswersForAVariantThatIsNot(t *testing.T) {
	for _, variant := range []pool.Readiness{pool.Down, pool.Unknown, pool.Ready} {
		for _, incumbent := range []pool.Readiness{pool.Down, pool.Unknown, pool.Ready} {
			want := variant != pool.Ready && incumbent == pool.Ready
			if got := passesOver(variant, incumbent); got != want {
				t.Errorf("variant %d, incumbent %d: passed over is %v", variant, incumbent, got)
			}
		}
	}
}

// TestAConversationIsAssignedAsLongAsNobodyIsKnownToBeAway has pools that have not answered yet.
func TestAConversationIsAssignedAsLongAsNobodyIsKnownToBeAway(t *testing.T) {
	rt, random := canary(t, 50, 50), rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		h := random.Uint64()
		if chosen, diverted := rt.Assign(h); chosen != rt.For(h) || diverted != nil {
			t.Fatalf("conversation %x is assigned to %s", h, chosen.Target.Name())
		}
	}
}

func TestWeightsOfAnotherRevisionAreOfOtherEvidence(t *testing.T) {
	for _, c := range []struct{ draft, target, want string }{
		{"small", "large", ""}, {"", "large", ""}, {"small", "large b", " b"}, {"small a", "large", "a "}, {"small a", "large b", "a b"},
	} {
		if got := (Served{Draft: c.draft, Target: c.target}).revisions(); got != c.want {
			t.Errorf("%q and %q: %q, want %q", c.draft, c.target, got, c.want)
		}
	}
}

func TestARouteThinksIfOneOfItsTargetsDoes(t *testing.T) {
	for _, thinker := range []string{"a", "b", "none"} {
		o := allOptions(nil)
		o.Routes = []Route{*canary(t, 80, 20)}
		o.Capabilities = func(pool string) *probe.Capabilities { return &probe.Capabilities{Thinks: pool == thinker} }
		if c := New(o); c.Thinks("m") != (thinker != "none") || c.Thinks("unknown") {
			t.Errorf("%s: %t, an unknown model %t", thinker, c.Thinks("m"), c.Thinks("unknown"))
		}
	}
}

func TestRoutesThatAreReplacedHoldForLaterRequests(t *testing.T) {
	target := testPool(t, "targets", "big", "http://127.0.0.1:9")
	config := func() plan.Config { return testConfig() }
	c := newTestCascade(t, Route{Model: "m", Target: target, Config: config})
	c.SetRoutes([]Route{{Model: "m", Target: target, Config: config}, {Model: "n", Target: target, Config: config}})
	if rt, err := c.Route("n"); err != nil || rt.Target != target {
		t.Error(err)
	}
	c.SetRoutes([]Route{{Model: "n", Target: testPool(t, "targets", "bigger", "http://127.0.0.1:9"), Config: config}})
	if _, err := c.Route("m"); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a route that was removed: %v", err)
	}
}

func TestWhatIsSetForAnApplicationIsOfItsTenantAlone(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"system","content":"You answer tickets of 2026."},{"role":"user","content":"%s"}]}`
	scan := func(user string) *openai.Request {
		r, err := openai.Scan(openai.Chat, fmt.Appendf(nil, body, user), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	own := map[string]plan.Application{application.Of(scan("1"), "acme", "", "salt"): {Mode: plan.ModeOff}}
	rt := &Route{Model: "m", Draft: testPool(t, "d", "small", "http://127.0.0.1:9"), Target: testPool(t, "t", "big", "http://127.0.0.1:9"),
		Config: func() plan.Config { return testConfig() }, Applications: func() map[string]plan.Application { return own }}
	c := newTestCascade(t, *rt)
	for _, row := range []struct {
		tenant, named string
		demand        plan.Demand
		want          string // why it is not drafted
	}{
		{tenant: "acme", want: "application_off"},
		{tenant: "globex"},
		{tenant: "acme", named: "tickets"},
		{tenant: "acme", demand: plan.Demand{Mode: plan.DemandTarget}, want: "mode_off"},
		{tenant: "globex", demand: plan.Demand{Tier: plan.Target}, want: "demanded"},
	} {
		r := c.arrive(Arrival{Metadata: &Metadata{Caller: identity.Caller{Tenant: row.tenant, Application: row.named}}, Body: scan("2"), Demand: row.demand, Route: rt}, "salt")
		if r.Plan.Reason != row.want || r.Plan.Judged != (row.want == "") {
			t.Errorf("%+v: %+v", row, r.Plan)
		}
	}
}

func TestRequestsOfPriorityLowHaveTheBoundOfTheirOwn(t *testing.T) {
	cfg := testConfig()
	cfg.Risk.Rule.MaxDisagreementLow = .4
	rt := &Route{Model: "m", Target: testPool(t, "t", "big", "http://127.0.0.1:9"), Config: func() plan.Config { return cfg }}
	c := newTestCascade(t, *rt)
	for p := identity.Low; p <= identity.High; p++ {
		r := c.arrive(Arrival{Metadata: &Metadata{Caller: identity.Caller{Priority: p}}, Body: scan(t, openai.Chat, chat("hi", "")), Route: rt}, "salt")
		if got, is := r.Config.Risk.Rule.MaxDisagreement == .4, p == identity.Low; got != is || r.Config.Risk.Low != is {
			t.Errorf("priority %s: %+v", p, r.Config.Risk.Rule)
		}
	}
}
