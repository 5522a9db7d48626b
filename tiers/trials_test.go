package tiers

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/scoring"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// trialRig is a rig with a second target, which serves the same model with a divergence from the first one.
type trialRig struct {
	*rig
	other *vllmsim.Server
	sums  compare.Memory
}

// trialPrices are the prices of tokens at every pool of a trialRig, in USD.
var trialPrices = economy.Prices{DraftPrefill: 1e-6, DraftDecode: 4e-6, TargetPrefill: 1e-5, TargetDecode: 4e-5}

// newTrialRig makes a trialRig whose drafts are served or not as the mode says. compared adds the second target to the route.
func newTrialRig(t *testing.T, mode plan.Mode, divergence float64, compared func(rt *Route, other *pool.Pool)) *trialRig {
	t.Helper()
	r := &trialRig{rig: &rig{t: t, cfg: testConfig()}}
	r.cfg.Mode = mode
	r.cfg.Scoring = scoring.Config{MaxTokens: 8192, MaxConcurrent: 4, Timeout: 10 * time.Second}
	r.cfg.Risk = plan.Risk{Label: plan.LabelLenient, MaxConcurrentAudits: 4}
	start := func(model, profile string, divergence float64) (*vllmsim.Server, *pool.Pool) {
		s := vllmsim.Start(t, vllmsim.Options{Model: model, Profile: profile, Seed: 7, Divergence: divergence, TimeScale: testScale})
		return s, testPool(t, model+"s", model, s.URL())
	}
	var drafts, targets, others *pool.Pool
	r.draft, drafts = start("small", "a10g-8b", 0.1)
	r.target, targets = start("big", "h100-70b-tp4", 0)
	r.other, others = start("new", "h100-70b-tp4", divergence)
	rt := Route{
		Model: "m", Draft: drafts, Target: targets, Config: func() plan.Config { return r.cfg },
		Prices: func() economy.Prices { return trialPrices }, Serves: Served{Target: "big@1"},
	}
	compared(&rt, others)
	o := testOptions(t)
	o.Routes, o.Compare, o.Capabilities = []Route{rt}, &r.sums, probed(t, drafts, targets, others).Capabilities
	var err error
	if r.cascade, err = New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// asCanary makes the other target a variant with a weight beside 1.
func asCanary(weight float64) func(*Route, *pool.Pool) {
	return func(rt *Route, other *pool.Pool) {
		own := *rt
		own.Target, own.Serves = other, Served{Target: "new@2"}
		rt.Weight, rt.Variants = 1, []Variant{{weight, &own}}
	}
}

// asMirror makes the other target a mirror of all requests.
func asMirror(rt *Route, other *pool.Pool) {
	rt.Mirror = &Mirror{Pool: other, Serves: "new@2", Share: 1, Prices: rt.Prices}
}

// answer answers n different requests by their variants, and waits for the work in the background.
func (r *trialRig) answer(t *testing.T, n int, members string) {
	t.Helper()
	for i := range n {
		body, err := openai.Scan(openai.Chat, fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"question %d"}]%s}`, i, members), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		rt := routeOf(r.cascade).For(Conversation("t", body))
		if _, err := r.cascade.Answer(t.Context(), Request{Body: body, Route: rt, Tenant: "t", ID: fmt.Sprint("id", i)}, &collector{}); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 || i == n-1 {
			r.cascade.trials.Wait()
			r.cascade.trials.Begin(r.running)
		}
	}
}

// totals returns what was recorded, of one pair.
func (r *trialRig) totals(t *testing.T) *compare.Both {
	t.Helper()
	all := r.sums.Take()
	for p, b := range all {
		if len(all) == 1 && p.Route == "m" && p.Incumbent == "bigs (big@1)" && p.Candidate == "news (new@2)" {
			return b
		}
	}
	t.Fatalf("%v was recorded", all)
	return nil
}

// counted returns how often a mirror had a result.
func (r *trialRig) counted(result string) float64 {
	return testutil.ToFloat64(r.cascade.metrics.trials.WithLabelValues("m", "mirror", result))
}

const greedy = `,"temperature":0,"max_tokens":40`

func TestTheIncumbentsOpinionTellsAWorseCandidateFromAnEqualOne(t *testing.T) {
	t.Parallel()
	for divergence, want := range map[float64]compare.Verdict{0: compare.NoneSeen, 0.5: compare.Worse} {
		for _, members := range []string{greedy, greedy + `,"stream":true`} {
			r := newTrialRig(t, plan.ModeOff, divergence, asCanary(1))
			r.run(t)
			for _, rt := range []*Route{routeOf(r.cascade), routeOf(r.cascade).Variants[0].Route} {
				rt.compared.opinions = 1 // of each answer, not of a sample
			}
			const n = 160
			r.answer(t, n, members)
			both := r.totals(t)
			a, b := &both.Incumbent, &both.Candidate
			report := compare.NewReport(compare.Pair{}, a, b)
			for _, row := range report.Rows {
				if row.Name == "agreement" && row.Verdict != want {
					t.Errorf("divergence %g: %+v", divergence, row)
				}
			}
			if int(a.Answers+b.Answers) != n || a.Opinions.N > a.Answers || b.Opinions.N > b.Answers || a.Opinions.N == 0 || a.Unanswered != b.Unanswered || a.Drafts.N+b.Drafts.N != 0 {
				t.Errorf("divergence %g: incumbent %+v, candidate %+v", divergence, *a, *b)
			}
			if (a.FirstToken.N > 0) != (members != greedy) || a.USD.Sum <= 0 {
				t.Errorf("%+v", *a)
			}
		}
	}
}

func TestAsManyAnswersOfTheIncumbentAreJudgedAsOfTheCandidate(t *testing.T) {
	pools := func(name string) *pool.Pool { return testPool(t, name, name, "http://127.0.0.1:9") }
	route := func(target string) *Route { return &Route{Model: "m", Target: pools(target)} }
	for _, c := range []struct {
		own        float64
		candidates []float64
		want       []float64 // shares of the answers of each, the incumbent's first
	}{
		{95, []float64{5}, []float64{0.05 / 0.95, 1}},
		{99, []float64{1}, []float64{0.01 / 0.99, 1}},
		{50, []float64{50}, []float64{0.1, 0.1}},
		{5, []float64{95}, []float64{1, 0.05 / 0.95}},
		{80, []float64{18, 2}, []float64{0.05 / 0.8, 0.05 / 0.18, 1}},
	} {
		rt := route("old")
		rt.Weight = c.own
		for i, w := range c.candidates {
			rt.Variants = append(rt.Variants, Variant{w, route(fmt.Sprint("new", i))})
		}
		comparisonsOf(rt)
		got := []float64{rt.compared.opinions}
		for _, v := range rt.Variants {
			got = append(got, v.Route.compared.opinions)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("weights %g and %v: %v, want %v", c.own, c.candidates, got, c.want)
			}
		}
		if len(rt.compared.pairs) != len(c.candidates) {
			t.Errorf("%d candidates: %v", len(c.candidates), rt.compared.pairs)
		}
	}
}

func TestAMirrorAnswersInTheBackgroundAndCostsWhatItSays(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0.5, asMirror)
	r.run(t)
	const n = 60
	before := r.other.State().GeneratedTokens
	r.answer(t, n, greedy+`,"stream":true`)
	both := r.totals(t)
	s, a, b := both.Mirror, &both.Incumbent, &both.Candidate
	if s.Made != n || s.Skipped != 0 || int(a.Answers) != n || int(b.Answers) != n || int(b.MirroredTotal.N) != n || int(b.Opinions.N) != n {
		t.Errorf("%+v, incumbent %+v, candidate %+v", s, *a, *b)
	}
	if a.Opinions.Good != n || b.Opinions.Good > 0.8*n {
		t.Errorf("the incumbent stands by %g of its own answers and by %g of the other's, of %d", a.Opinions.Good, b.Opinions.Good, n)
	}
	told := r.other.State().GeneratedTokens - before
	if s.Generated != b.Tokens || int(s.Generated) != told {
		t.Errorf("%g tokens generated, answers of %g, and the engine tells %d", s.Generated, b.Tokens, told)
	}
	if s.USD <= b.USD.Sum || b.USD.Sum <= 0 || s.Scored == 0 || r.counted("made") != n {
		t.Errorf("%+v, of which %g USD for answers; %g counted", s, b.USD.Sum, r.counted("made"))
	}
}

func TestOfAServedDraftBothTargetsTellTheirOpinionAndTheMirrorWritesNothing(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeConfidence, 0.5, asMirror)
	r.cfg.Accept.Threshold = -100 // every draft is served
	r.run(t)
	r.answer(t, 30, greedy)
	both := r.totals(t)
	a, b := &both.Incumbent, &both.Candidate
	if a.Drafts.N != 30 || b.Drafts.N != 30 || a.Drafts.Good <= b.Drafts.Good || a.Answers+b.Answers != 0 || both.Mirror.Generated != 0 || both.Mirror.Scored == 0 {
		t.Errorf("%+v", *both)
	}
}

func TestUnderPressureNothingIsCompared(t *testing.T) {
	t.Parallel()
	for _, short := range []string{"bigs", "news"} {
		r := newTrialRig(t, plan.ModeOff, 0, asMirror)
		r.cascade.trials.UnderPressure = func(route, pool string, class int8) bool { return route == "m" && pool == short && class == 0 }
		r.run(t)
		r.answer(t, 4, greedy)
		if both := r.totals(t); both.Mirror != (compare.MirrorCost{Skipped: 4}) || r.counted("pressure") != 4 {
			t.Errorf("%s is short of memory: %+v", short, both.Mirror)
		}
	}
}

func TestAMirrorThatIsDeadFailsForItselfOnly(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asMirror)
	r.other.Close()
	r.run(t)
	r.answer(t, 4, greedy)
	both := r.totals(t)
	a, b := &both.Incumbent, &both.Candidate
	if a.Answers+b.Answers != 0 || a.Unanswered != b.Unanswered || both.Mirror != (compare.MirrorCost{Skipped: 4, Failed: 4}) || r.counted("failed") != 4 {
		t.Errorf("%+v", *both)
	}
}

func TestOfAConversationOnlyTheFirstRequestCounts(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asCanary(1))
	r.run(t)
	r.answer(t, 8, greedy)
	r.answer(t, 8, greedy+`,"stream":true`) // the same conversations
	both := r.totals(t)
	if n := both.Incumbent.Answers + both.Candidate.Answers; n != 8 {
		t.Errorf("%g answers of 8 conversations", n)
	}
}

func TestAMirrorIsAskedOncePerConversationAndAFullOneIsBusy(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asMirror)
	r.run(t)
	r.answer(t, 4, greedy)
	r.answer(t, 4, greedy+`,"stream":true`) // the same conversations
	if m := r.totals(t).Mirror; m.Made != 4 || m.Skipped != 0 {
		t.Errorf("%+v of 4 conversations", m)
	}
	if err := r.other.SetFault(vllmsim.Fault{Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	r.answer(t, 5, greedy)
	if m := r.totals(t).Mirror; m.Skipped != 1 || m.Failed != 0 || r.counted("busy") != 1 {
		t.Errorf("the mirror is full: %+v", m)
	}
}

func TestAConversationWhoseCandidateIsAwayIsNoAnswerOfTheIncumbent(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asCanary(1))
	r.run(t)
	rt := routeOf(r.cascade)
	for i := range 20 {
		body, err := openai.Scan(openai.Chat, []byte(chat(fmt.Sprint("question ", i), `,"max_tokens":40`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.cascade.Answer(t.Context(), Request{Body: body, Route: rt, Tenant: "t", ID: fmt.Sprint("id", i)}, &collector{}); err != nil {
			t.Fatal(err)
		}
	}
	both := r.totals(t)
	a, b := &both.Incumbent, &both.Candidate
	if n := b.Unanswered[compare.Diverted]; n == 0 || a.Answers+n != 20 || b.Answers != 0 || a.Unanswered[compare.Diverted] != 0 {
		t.Errorf("incumbent %+v, candidate %+v", *a, *b)
	}
}

func TestWithoutAuditsNothingIsComparedInTheBackground(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asMirror)
	r.cfg.Risk.MaxConcurrentAudits = 0
	r.run(t)
	r.answer(t, 3, greedy)
	if m := r.totals(t).Mirror; m != (compare.MirrorCost{Skipped: 3}) || r.counted("audits_off") != 3 {
		t.Errorf("%+v", m)
	}
}

func TestAMirrorThatTheGatewaysEndCutsOffHasNotFailed(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asMirror)
	if err := r.other.SetFault(vllmsim.Fault{Hang: "headers"}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	r.cascade.trials.Begin(ctx)
	body, err := openai.Scan(openai.Chat, []byte(chat("question", `,"max_tokens":40`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.cascade.Answer(t.Context(), Request{Body: body, ID: "id"}, &collector{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mirror is asked", func() bool { return len(r.other.State().Requests) > 0 })
	end()
	r.cascade.trials.Wait()
	if both := r.totals(t); both.Mirror.Failed != 0 || r.counted("stopped") != 1 {
		t.Errorf("%+v", both.Mirror)
	}
}

func TestABodyIsKeptUntilItsTrialIsOver(t *testing.T) {
	t.Parallel()
	r := newTrialRig(t, plan.ModeOff, 0, asMirror)
	var kept, released atomic.Int64
	keep := keeper(func() func() { kept.Add(1); return func() { released.Add(1) } })
	ask := func(question string) {
		body, err := openai.Scan(openai.Chat, []byte(chat(question, `,"max_tokens":40`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.cascade.Answer(t.Context(), Request{Body: body, ID: "id", Retainer: keep}, &collector{}); err != nil {
			t.Fatal(err)
		}
	}
	ask("one") // nothing runs in the background yet
	if kept.Load() != 1 || released.Load() != 1 || r.counted("busy") != 1 {
		t.Errorf("kept %d times, released %d times", kept.Load(), released.Load())
	}
	r.run(t)
	ask("two")
	r.cascade.trials.Wait()
	if kept.Load() != 2 || released.Load() != 2 || r.counted("made") != 1 {
		t.Errorf("kept %d times, released %d times", kept.Load(), released.Load())
	}
}
