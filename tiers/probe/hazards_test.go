package probe

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dialect"
)

func TestConstantLogprobsAreToldFromSureOnes(t *testing.T) {
	list := func(first scored, n int, rest scored) []scored {
		out := []scored{first}
		for range n {
			out = append(out, rest)
		}
		return out
	}
	true1, zero, sure := scored{-0.3, true}, scored{0, false}, scored{0, true}
	for _, c := range []struct {
		what string
		all  []scored
		want bool
	}{
		{"llama.cpp's own speculation", list(true1, 15, zero), true},
		{"all constants", list(zero, 15, zero), true},
		{"another constant", list(true1, 15, scored{-1.5, false}), true},
		{"half of them", append(list(true1, 8, zero), true1, true1, true1, true1, true1, true1, true1, true1), true},
		{"a third of them", append(list(true1, 4, zero), true1, true1, true1, true1, true1, true1, true1, true1), false},
		{"a sure model", list(true1, 15, sure), false},
		{"one that is sure", append(list(true1, 14, scored{-0.2, true}), zero), false},
		{"true ones", list(true1, 15, true1), false},
		{"too few", list(true1, 3, zero), false},
		{"one", list(zero, 0, zero), false},
		{"none", nil, false},
	} {
		if _, n, is := constant(c.all); is != c.want || is && n < fewestConstant {
			t.Errorf("%s: %v, %d", c.what, is, n)
		}
	}
	different := []scored{{-1, false}, {-2, false}, {-3, false}, {-4, false}, {-5, false}, {-6, false}}
	if _, _, is := constant(different); is {
		t.Error("logprobs that differ are one constant")
	}
}

func TestAPromptThatIsCutDoesNotGrowAsItsLines(t *testing.T) {
	for _, c := range []struct {
		what string
		g    growth
		want bool
	}{
		{"whole", growth{54, 25, 510, 1000}, false},
		{"whole, at an unknown base", growth{54, 0, 510, 1000}, false},
		{"whole, with a long template", growth{54, 300, 790, 1280}, false},
		{"the longer cut", growth{54, 25, 510, 760}, true},
		{"both cut to the same", growth{54, 25, 300, 300}, true},
		{"both cut to next to nothing", growth{54, 25, 10, 10}, true},
		{"no less than the shorter", growth{54, 25, 510, 255}, true},
	} {
		if got := c.g.cut(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	for _, c := range []struct {
		g      growth
		window int
		want   bool
	}{{growth{base: 25, half: 500}, 1084, true}, {growth{base: 25, half: 500}, 1083, false}, {growth{base: 25, half: 500}, 0, true}, {growth{}, 100, true}} {
		if got := c.g.fits(c.window); got != c.want {
			t.Errorf("%+v fits %d: %v", c.g, c.window, got)
		}
	}
	for window, want := range map[int]int{0: longUnknown, 100: 0, 300: 225, 500: 375, 1 << 20: longKnown} {
		n := linesFor(window)
		if want == 0 && n == 0 {
			continue
		}
		if n%2 != 0 || n*tokensPerLine > want || want-n*tokensPerLine > 2*tokensPerLine {
			t.Errorf("for a window of %d: %d lines", window, n)
		}
	}
	if text := longLines(1000, 3); strings.Count(text, "\n") != 3 || !strings.Contains(text, "Line 1002:") {
		t.Errorf("%q", text)
	}
}

func TestNamesOfOneModel(t *testing.T) {
	cards := []modelCard{{ID: "/models/qwen.gguf", Aliases: "small\nqwen"}, {ID: "a", Root: "/w/llama"}, {ID: "b", Root: "/w/llama"}, {ID: "other", Root: "/w/other"}, {ID: "rootless"}}
	for _, c := range []struct {
		asked, told string
		want        bool
	}{
		{"m", "m", true}, {"m", "", true}, {"m", "n", false},
		{"llama3.2", "llama3.2:latest", true}, {"llama3.2:latest", "llama3.2", true}, {"llama3.2", "llama3.2:1b", false},
		{"qwen", "/models/qwen.gguf", true}, {"small", "/models/qwen.gguf", true}, {"small", "other", false}, {"small", "rootless", false},
		{"org/model", "model", true}, {"org/model", "fork/model", false},
		{"gpt-4o", "gpt-4o-2024-08-06", true}, {"gpt-4o", "gpt-4o-mini", false}, {"gpt-4o", "gpt-4o-mini-2024-07-18", false},
		{"a", "b", true}, {"a", "other", false}, {"rootless", "a", false},
	} {
		if got := sameModel(cards, c.asked, c.told); got != c.want {
			t.Errorf("asked %q, told %q: %v", c.asked, c.told, got)
		}
	}
	for _, name := range []string{"m", "m:latest"} {
		if c, err := parseModels([]byte(`{"data":[{"id":"n"},{"id":"m:latest"}]}`), name); err != nil || c.ID != "m:latest" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestThoughtsAreSeenWhereverTheyStand(t *testing.T) {
	for body, want := range map[string]bool{
		`{"choices":[{"message":{"content":"Yes."}}]}`:                                         false,
		`{"choices":[{"message":{"content":"Yes.","reasoning":"","reasoning_content":null}}]}`: false,
		`{"choices":[{"message":{"content":"Yes.","reasoning":"Hm."}}]}`:                       true,
		`{"choices":[{"message":{"content":null,"reasoning_content":"Hm."}}]}`:                 true,
		`{"choices":[{"message":{"content":"\n<think>Hm."}}]}`:                                 true,
		`{"choices":[{"message":{"content":"Hm.</think>Yes."}}]}`:                              true,
		`{"choices":[{"message":{"content":"I write <think> here","reasoning":{}}}]}`:          false,
	} {
		if a, err := parseAnswer([]byte(body)); err != nil || a.thinks != want {
			t.Errorf("%s: %v, %v", body, a.thinks, err)
		}
	}
}

func TestIDsOfLogprobsAreIDsOfTheAnswer(t *testing.T) {
	const entries = `{"id":5,"token":"a","logprob":-1,"top_logprobs":[{"token":"a","logprob":-1},{"token":"b","logprob":-1.05}]},{"id":6,"token":"%","logprob":0,"top_logprobs":[]}`
	body := func(last string) []byte {
		return []byte(`{"choices":[{"text":"a","finish_reason":"stop","logprobs":{"content":[` + strings.Replace(entries, "%", last, 1) + `]}}],"usage":{"completion_tokens":2}}`)
	}
	a, err := parseAnswer(body(""))
	if id, ok := a.end(); err != nil || len(a.ids) != 2 || id != 6 || !ok || !a.tied(0) || a.tied(1) {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = parseAnswer(body("word"))
	if _, ok := a.end(); err != nil || len(a.ids) != 2 || ok {
		t.Errorf("a word is taken for an end: %+v, %v", a, err)
	}
	if a, err = parseAnswer([]byte(`{"choices":[{"token_ids":[7],"logprobs":{"content":[` + entries + `]}}]}`)); err != nil || len(a.ids) != 1 {
		t.Errorf("ids that are told are not those: %+v, %v", a, err)
	}
	if a, err = parseAnswer([]byte(`{"choices":[{"logprobs":{"content":[{"id":5},{"token":"b"}]}}]}`)); err != nil || len(a.ids) != 0 {
		t.Errorf("some ids are all: %+v, %v", a, err)
	}
}

func TestAnEngineIsBusyWhileItGenerates(t *testing.T) {
	for _, c := range []struct {
		what        string
		first, last load
		want        bool
	}{
		{"it generates", load{running: 1, generated: 10}, load{running: 1, generated: 20}, true},
		{"its gauge is stale", load{running: 1, generated: 10}, load{running: 1, generated: 10}, false},
		{"it tells no tokens", load{running: 1, generated: -1}, load{running: 1, generated: -1}, true},
		{"idle", load{running: 1, generated: 10}, load{generated: 20}, false},
	} {
		if got := wentOn(c.first, c.last); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	page := []byte("# HELP x y\nx_total 5\nx{a=\"}\"} 2\nx{b=\"c\"} 3 1700\nx NaN\ny 4\n")
	for _, c := range []struct {
		names []string
		want  float64
		there bool
	}{{[]string{"x"}, 5, true}, {[]string{"z", "y"}, 4, true}, {[]string{"z"}, 0, false}, {nil, 0, false}} {
		if got, there := parseSum(page, c.names); got != c.want || there != c.there {
			t.Errorf("%v: %v, %v", c.names, got, there)
		}
	}
	for body, want := range map[string]float64{`[{"is_processing":true},{"is_processing":false}]`: 1, `[{"is_processing":false}]`: 0, `[]`: -1, `[{}]`: -1, `{`: -1} {
		if got, err := parseBusy([]byte(body)); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
}

func TestWhereSlotsAreTurnedOffMetricsTell(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096, without: "/slots"}
	for _, v := range f.probed(t).Evidence {
		if v.Capability == HazardGeneratesOn && !strings.Contains(v.Answer, "cannot be told: status 404") {
			t.Errorf("without metrics: %+v", v)
		}
	}
	sim := engine(t, vllmsim.Options{Seed: 3})
	for _, v := range taken(t, sim.URL()).found.Evidence {
		if v.Capability == HazardGeneratesOn && !strings.HasPrefix(v.Answer, "idle within") {
			t.Errorf("a simulator that stops: %+v", v)
		}
	}
	if n := sim.State().Running; n != 0 {
		t.Errorf("%d are running", n)
	}
}

func TestWhatIsNotLookedForStaysAsItWas(t *testing.T) {
	f := &wire{kind: dialect.LlamaCpp, window: 4096, listed: "m"}
	before := &Capabilities{Window: 700, Hazards: []Hazard{{HazardGeneratesOn, "x"}, {HazardShortContext, "y"}}}
	e := &probeRun{asker: &asker{transport: &http.Transport{}, timeout: defaultPace.maxRetry, url: f.start(t), model: "m", engine: f.kind}, before: before, closed: "full"}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := &e.found; c.HazardReason(HazardGeneratesOn) != "x" || c.HazardReason(HazardShortContext) != "y" || c.Window != 700 {
		t.Errorf("%+v, window %d", c.Hazards, c.Window)
	}
	if (*Capabilities)(nil).HazardReason(HazardGeneratesOn) != "" {
		t.Error("an engine that was not probed has a hazard")
	}
}

// generating is an engine that shows one running request and makes 10 tokens between two looks. perLook are the tokens of
// prompts that it begins meanwhile.
type generating struct{ looks, perLook int }

func (g *generating) RoundTrip(*http.Request) (*http.Response, error) {
	g.looks++
	page := fmt.Sprintf("vllm:num_requests_running 1\nvllm:generation_tokens_total %d\nvllm:prompt_tokens_total %d\n", 10*g.looks, 100+g.looks*g.perLook)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(page))}, nil
}

func TestAnEngineThatWorksForOthersIsNotSaidToGoOn(t *testing.T) {
	for perLook, want := range map[int]bool{0: true, 7: false} {
		synctest.Test(t, func(t *testing.T) {
			e := &probeRun{asker: &asker{transport: &generating{perLook: perLook}, timeout: time.Second, url: "http://e", model: "m", engine: dialect.VLLM}, hazards: map[string]string{}, shown: evidences{}}
			e.watchIdle(t.Context())
			if got := e.hazards[HazardGeneratesOn] != ""; got != want {
				t.Errorf("%d tokens of other prompts at each look: %q, %v", perLook, e.hazards[HazardGeneratesOn], e.shown)
			}
		})
	}
}
