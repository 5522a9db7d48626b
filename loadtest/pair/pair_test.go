package pair

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/engines"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// measured runs a measurement of a pair.
func measured(t *testing.T, draft, target demo.Engine, change func(*Options)) *Report {
	t.Helper()
	o := Options{
		Pair: demo.Pair{Draft: draft, Target: target}, SameTokenizer: true, Requests: 10, MaxTokens: 32, Clients: 2, Limit: 2 * time.Minute,
		DraftPrice: Price{.1, .2}, TargetPrice: Price{.3, 1.5}, Say: t.Logf,
	}
	if change != nil {
		change(&o)
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(Reports{r}.Markdown())
	return r
}

// simulated is an engine of the simulator.
func simulated(t *testing.T, o vllmsim.Options) demo.Engine {
	t.Helper()
	o.Seed, o.TimeScale = 1, 100
	return demo.Engine{URL: vllmsim.Start(t, o).URL(), Model: o.Model}
}

// row is a way of the report.
func row(t *testing.T, r *Report, name string) Way {
	t.Helper()
	for _, w := range r.Ways {
		if w.Name == name {
			return w
		}
	}
	t.Fatalf("the report has no way %q", name)
	return Way{}
}

func TestAPairIsMeasuredInEachWay(t *testing.T) {
	r := measured(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .35}), simulated(t, vllmsim.Options{Model: "large"}), nil)
	for _, e := range r.Evidence {
		if e.Audits != 10 || e.Good == 0 || e.Good == 10 || len(e.Areas) == 0 || e.Areas[0].AUROC <= .5 || !strings.Contains(e.Why, "too few for thresholds") {
			t.Errorf("%+v; want ten drafts, some of them good, a score that tells, and why there is no threshold", e)
		}
	}
	if g := r.Guarantee; g == nil || g.Imported > 0 || g.Served > 0 || g.Requests != 5 || !strings.Contains(g.Why, "too few") {
		t.Errorf("%+v, want that nothing was promised or served", g)
	}
	for _, w := range r.Ways {
		want := 10
		if w.Name == wayRisk {
			want = 5
		}
		if w.Answers != want || w.Failed > 0 || w.Draft+w.Mixed+w.Target != want || w.Compared != want || w.TTFT50 <= 0 || w.E2E50 < w.TTFT50 || w.Seconds <= 0 {
			t.Errorf("%+v", w)
		}
	}
	alone := row(t, r, wayAlone)
	if lenient := row(t, r, wayLenient); lenient.USD == nil || alone.USD == nil || *lenient.USD <= 0 {
		t.Errorf("%+v, %+v; want dollars", lenient, alone)
	}
	if draft := row(t, r, wayDraft); draft.Exact == 10 || draft.Exact == 0 || draft.Work.DraftOutput == 0 || alone.Work.TargetOutput == 0 {
		t.Errorf("%+v, %+v", draft, alone)
	}
}

func TestModeRiskServesByImportedAudits(t *testing.T) {
	r := measured(t, simulated(t, vllmsim.Options{Model: "small", Divergence: .1}), simulated(t, vllmsim.Options{Model: "large"}), func(o *Options) {
		o.Requests, o.Clients, o.Limit = MaxRequests, MaxClients, 10*time.Minute
	})
	g := r.Guarantee
	if g == nil || g.Imported < 200 || g.Requests != MaxRequests/2 || g.Served == 0 || g.Disagreed.Of < g.Served*9/10 || g.held() == "broken" {
		t.Fatalf("%+v, want drafts that are served by a certificate and keep it", g)
	}
	e := r.Evidence[0]
	if len(e.Points) != len(comparedRates) || len(e.Replays) != len(comparedRates) || e.Replays[2].Certified == 0 || e.Replays[2].Audits == 0 || e.Replays[2].Requests <= e.Replays[2].Audits {
		t.Errorf("%+v, %+v; want what each ε gives", e.Points, e.Replays)
	}
	for _, x := range r.Truth {
		if x.Right.Of < 100 {
			t.Errorf("%+v, want what is right of all tasks", x)
		}
	}
}

func TestWhatAnEngineCannotTellIsSaidWithTheReason(t *testing.T) {
	engine := func(model string, divergence float64) demo.Engine {
		return simulated(t, vllmsim.Options{Engine: "openai", Model: model, Divergence: divergence})
	}
	r := measured(t, engine("small", .3), engine("large", 0), func(o *Options) { o.DraftPrice = Price{} })
	if w := row(t, r, wayLenient); w.Answers > 0 || !strings.Contains(w.Why, "score") {
		t.Errorf("%+v, want why mode verify was not measured", w)
	}
	if w := row(t, r, wayAlone); w.USD != nil || !strings.HasPrefix(r.NoCosts, "no prices were given (--target-usd-per-million") {
		t.Errorf("%+v, %q; want why there are no dollars", w, r.NoCosts)
	}
	page := (Reports{r}).Markdown()
	for _, want := range []string{"lacks scoring", "| verify, by rule lenient |  |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestEnginesThatDoNotAnswerInTimeAreAnError(t *testing.T) {
	gone := demo.Engine{URL: "http://127.0.0.1:1", Model: "m"}
	_, err := Run(t.Context(), Options{Pair: demo.Pair{Draft: gone, Target: gone}, Requests: 1, MaxTokens: 16, Clients: 1, Limit: time.Millisecond, Say: t.Logf})
	if err == nil || !strings.Contains(err.Error(), "did not answer the probe in time") {
		t.Errorf("%v", err)
	}
}

func TestARunWhoseTimeIsOverSaysWhatItDidNotReach(t *testing.T) {
	draft, target := simulated(t, vllmsim.Options{Model: "small", Divergence: .3}), simulated(t, vllmsim.Options{Model: "large"})
	r := measured(t, draft, target, func(o *Options) { o.Requests, o.MaxTokens, o.Limit = MaxRequests, 256, 4*time.Second })
	if alone := row(t, r, wayAlone); alone.Answers == 0 || alone.Failed > 0 {
		t.Errorf("%+v, want what was reached", alone)
	}
	if w := row(t, r, wayRisk); w.Answers > 0 || !strings.Contains(w.Why, errOver.Error()) {
		t.Errorf("%+v", w)
	}
}

func TestMistakesInOptionsNameTheFlag(t *testing.T) {
	good := Options{Requests: 1, MaxTokens: 16, Clients: 1, Limit: time.Second}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*Options){
		"--requests": func(o *Options) { o.Requests = MaxRequests + 1 }, "--max-tokens": func(o *Options) { o.MaxTokens = 15 },
		"--clients": func(o *Options) { o.Clients = 0 }, "--minutes": func(o *Options) { o.Limit = 0 },
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestARealPairIsMeasured(t *testing.T) {
	engine := func(model, name string) demo.Engine {
		return demo.Engine{URL: engines.Start(t, engines.Options{Kind: engines.LlamaCpp, Model: model, Name: name}).URL, Model: name}
	}
	r := measured(t, engine(engines.LlamaDraft, "smol-draft"), engine(engines.LlamaTarget, "smol-target"), nil)
	if w := row(t, r, wayLenient); w.Answers > 0 || !strings.Contains(w.Why, "llamacpp has no way to score") {
		t.Errorf("%+v, want why mode verify was not measured", w)
	}
	if e := r.Evidence[1]; r.Evidence[0].Audits > 0 || e.Label != labelSame || e.Audits < 9 {
		t.Errorf("%+v, want labels by the target's own answers alone", r.Evidence)
	}
}
