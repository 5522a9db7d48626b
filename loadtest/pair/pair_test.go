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
	t.Log(r.Markdown())
	return r
}

// simulated is an engine of the simulator.
func simulated(t *testing.T, o vllmsim.Options) demo.Engine {
	t.Helper()
	o.Seed, o.TimeScale = 1, 100
	return demo.Engine{URL: vllmsim.Start(t, o).URL(), Model: o.Model}
}

// figure is a measure by the beginning of its name.
func figure(t *testing.T, r *Report, name string) Measure {
	t.Helper()
	for _, m := range r.Measures {
		if strings.HasPrefix(m.Name, name) {
			return m
		}
	}
	t.Fatalf("the report has no measure %q", name)
	return Measure{}
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
	for _, name := range []string{"the target agrees with itself", "exactness", "seams"} {
		if m := figure(t, r, name); m.Value == nil || *m.Value != 1 || m.Of == 0 {
			t.Errorf("%+v, want 1", m)
		}
	}
	stands, area := figure(t, r, "drafts that the target stands by"), figure(t, r, "AUROC")
	if stands.Value == nil || *stands.Value <= 0 || *stands.Value >= 1 || area.Value == nil || *area.Value <= 0.5 {
		t.Errorf("%+v, %+v; want some of the drafts, and a score that tells", stands, area)
	}
	if m := figure(t, r, "latency that the gateway adds in mode off until the first token"); m.Value == nil || m.Of != 10 {
		t.Errorf("%+v, want a comparison of all questions", m)
	}
	if m := figure(t, r, "cost of mode confidence"); m.Value == nil || *m.Value <= 0 || *m.Value >= 1 {
		t.Errorf("%+v, want less than the target alone", m)
	}
	for _, w := range r.Ways {
		if w.Answers != 10 || w.Failed > 0 || w.Draft+w.Mixed+w.Target != 10 || w.Compared != 10 || w.TTFT50 <= 0 || w.E2E50 < w.TTFT50 {
			t.Errorf("%+v", w)
		}
	}
	if cut := row(t, r, waySeams); cut.Mixed < 2 || cut.MixedExact != cut.Mixed {
		t.Errorf("%+v, want several answers that are continued in the middle", cut)
	}
	alone := row(t, r, wayAlone)
	if draft := row(t, r, wayDraft); draft.Exact == 10 || draft.Exact == 0 || draft.Work.DraftOutput == 0 || alone.Work.TargetOutput == 0 {
		t.Errorf("%+v, %+v", draft, alone)
	}
}

func TestWhatAnEngineCannotTellIsSaidWithTheReason(t *testing.T) {
	engine := func(model string, divergence float64) demo.Engine {
		return simulated(t, vllmsim.Options{Engine: "openai", Model: model, Divergence: divergence})
	}
	r := measured(t, engine("small", .3), engine("large", 0), func(o *Options) { o.DraftPrice = Price{} })
	if m := figure(t, r, "exactness"); m.Value != nil || !strings.Contains(m.Why, "score") {
		t.Errorf("%+v, want why mode verify was not measured", m)
	}
	if m := figure(t, r, "cost"); m.Value != nil || !strings.HasPrefix(m.Why, "no prices of the draft were given (--draft-usd-per-million)") {
		t.Errorf("%+v, want why there are no dollars", m)
	}
	if m := figure(t, r, "the target agrees with itself"); m.Value == nil || *m.Value != 1 {
		t.Errorf("%+v, want what can be measured at any server", m)
	}
	page := r.Markdown()
	for _, want := range []string{"lacks scoring", "| verify |  |"} {
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
	if m := figure(t, r, "exactness"); m.Value != nil || !strings.Contains(m.Why, errOver.Error()) {
		t.Errorf("%+v, want that the time was over", m)
	}
	if cut := row(t, r, waySeams); cut.Answers > 0 || !strings.Contains(cut.Why, errOver.Error()) {
		t.Errorf("%+v", cut)
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
	if m := figure(t, r, "the target agrees with itself"); m.Value == nil {
		t.Errorf("%+v", m)
	}
	if m := figure(t, r, "exactness"); m.Value != nil || !strings.Contains(m.Why, "llamacpp has no way to score") {
		t.Errorf("%+v, want why mode verify was not measured", m)
	}
	if cut := row(t, r, waySeams); cut.Mixed == 0 {
		t.Errorf("%+v, want answers that are continued in the middle", cut)
	}
}
