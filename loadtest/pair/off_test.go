package pair

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestModeOffIsMeasuredAtEnginesWithoutLogprobs(t *testing.T) {
	engine := func(model string) demo.Engine {
		return simulated(t, vllmsim.Options{Engine: "openai", Model: model, Without: []string{"logprobs"}})
	}
	r := measured(t, engine("small"), engine("large"), nil)
	if off := row(t, r, wayOff); off.Answers != 10 || off.Target != 10 || off.Exact != 10 || off.USD == nil {
		t.Errorf("%+v, want ten answers of the target", off)
	}
	for name, want := range map[string]float64{"answers of mode off": 1} {
		if m := figure(t, r, name); m.Value == nil || *m.Value != want || m.Of != 10 {
			t.Errorf("%+v, want %v", m, want)
		}
	}
	for _, until := range []string{"first token", "end"} {
		if m := figure(t, r, "latency that the gateway adds in mode off until the "+until); m.Value == nil || m.Of != 10 {
			t.Errorf("%+v, want the latency of ten questions", m)
		}
	}
	for mode, want := range map[string]string{
		wayRisk:       "mode risk needs the logprobs of drafts, and a target that can check them; pool draft: it answers without logprobs",
		wayConfidence: "mode confidence needs the logprobs of drafts; pool draft: it answers without logprobs",
		wayVerify:     "mode verify needs a target that tells the logprobs of a given text; pool target: openai has no way to score a given text",
	} {
		if w := row(t, r, mode); w.Answers > 0 || !strings.HasPrefix(w.Why, want) {
			t.Errorf("%s: %q, want %q", mode, w.Why, want)
		}
	}
	for _, unclear := range []string{"it takes two alternatives to tell", "| it does not score |"} {
		if page := (Reports{r}).Markdown(); strings.Contains(page, unclear) {
			t.Errorf("the page has %q:\n%s", unclear, page)
		}
	}
}
