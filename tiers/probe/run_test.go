package probe

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/upstream"
)

// simulated starts a simulated engine that is so fast that a probe takes some 50 ms.
func simulated(t *testing.T, o vllmsim.Options) *vllmsim.Server {
	t.Helper()
	o.Profile, o.TimeScale = "h100-8b", 200
	return vllmsim.Start(t, o)
}

// taken probes an engine at a URL.
func taken(t *testing.T, url string) *probeRun {
	t.Helper()
	e := allAsked(t, &asker{upstream: up(t), timeout: 20 * time.Second, url: url, model: "sim"})
	e.found = *e.capabilities()
	return e
}

// allAsked asks all questions.
func allAsked(t *testing.T, a *asker) *probeRun {
	t.Helper()
	e := newRun(a)
	e.mayScore = func(int) (func(error), error) { return func(error) {}, nil }
	for !e.complete() {
		if err := e.next(t.Context()); err != nil {
			t.Fatalf("%s: %v", questions[e.known].name, err)
		}
	}
	return e
}

// up asks engines as the gateway does.
func up(t *testing.T) *upstream.Client {
	t.Helper()
	return upstream.New(upstream.Options{Transport: transport(t)})
}

// transport keeps its connections to itself.
func transport(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func whats(c *Capabilities) string {
	var list []string
	for _, m := range c.Missing {
		list = append(list, m.Name)
	}
	return strings.Join(list, " ")
}

func TestAGoodEngineLacksNothing(t *testing.T) {
	s := simulated(t, vllmsim.Options{Seed: 3, MaxModelLen: 9000})
	c := &taken(t, s.URL()).found
	// What is fixed of the simulator: id 4 ends a turn, /v1/models tells the context.
	if whats(c) != "" || !slices.Equal(c.EOS, []int32{4}) || c.Window != 9000 || c.Model != "sim" || !c.TokenIDs {
		t.Errorf("got %+v", c)
	}
	if c.Scoring != openai.ScoreCompletions || len(c.Tokenizer) != 64 || len(c.Template) != 64 {
		t.Errorf("scoring %q, fingerprints %q, %q", c.Scoring, c.Tokenizer, c.Template)
	}
}

// The package comment and docs/concepts.md say what a probe costs.
func TestAProbeCostsWhatItSays(t *testing.T) {
	for seed := range uint64(4) {
		s := simulated(t, vllmsim.Options{Seed: seed * 11})
		taken(t, s.URL())
		st := s.State()
		if st.PrefixQueries > 300 || st.GeneratedTokens > 75 || st.PrefixQueries == 0 || st.GeneratedTokens == 0 {
			t.Errorf("seed %d: %d and %d tokens", seed, st.PrefixQueries, st.GeneratedTokens)
		}
	}
}

func TestWhatAnEngineLacksIsToldWithItsReason(t *testing.T) {
	for _, c := range []struct {
		without string
		missing string            // all
		why     map[string]string // a part of the reason
	}{
		{"token_ids", "prompt_token_ids token_ids", map[string]string{
			MissingIDs: "without token_ids", MissingPromptIDs: "without prompt_token_ids"}},
		{"prompt_token_ids", "prompt_token_ids", map[string]string{MissingPromptIDs: "it answers without prompt_token_ids"}},
		{"tokenize", "detokenize eos tokenize", map[string]string{MissingTokenize: "/tokenize: status 404"}},
		{"prompt_logprobs", "scoring", map[string]string{MissingScoring: "completions: "}},
		{"logprobs", "logprobs", map[string]string{MissingLogprobs: "without logprobs"}},
		{"continuation", "continuation", map[string]string{MissingContinue: "otherwise than in the chat, from token 1"}},
	} {
		found := &taken(t, simulated(t, vllmsim.Options{Seed: 3, Without: []string{c.without}}).URL()).found
		if got := whats(found); got != c.missing {
			t.Errorf("without %s: %q, not %q: %+v", c.without, got, c.missing, found.Missing)
		}
		for what, part := range c.why {
			if why := found.MissingReason(what); !strings.Contains(why, part) {
				t.Errorf("without %s: %s: %q, not %q", c.without, what, why, part)
			}
		}
	}
}

func TestADraftAndItsTargetHaveTheSameTokens(t *testing.T) {
	of := func(o vllmsim.Options) *Capabilities {
		o.Seed = 3
		return &taken(t, simulated(t, o).URL()).found
	}
	target := of(vllmsim.Options{})
	for what, c := range map[string]struct {
		draft       *Capabilities
		same, known bool
	}{
		"a draft":                {of(vllmsim.Options{Divergence: 0.5}), true, true},
		"another tokenizer":      {of(vllmsim.Options{Tokenizer: "other"}), false, true},
		"one that tells nothing": {of(vllmsim.Options{Without: []string{"tokenize"}}), false, false},
		"one not probed":         {nil, false, false},
	} {
		if same, known := SameTokens(c.draft, target); same != c.same || known != c.known {
			t.Errorf("%s: same %v, known %v", what, same, known)
		}
	}
}

func TestATieExcusesAnotherToken(t *testing.T) {
	reported := answer{ids: []int32{1, 2, 3, 4}}
	for _, c := range []struct {
		got  answer
		same bool
		at   int
		tied bool
	}{
		{answer{ids: []int32{1, 2, 3}}, true, 3, false},
		{answer{ids: []int32{1, 9, 3}, tops: [][]float64{{-1, -1}, {-0.7, -0.8}}}, false, 1, true},
		{answer{ids: []int32{1, 9, 3}, tops: [][]float64{{-1, -1}, {-2.5, -0.1}}}, false, 1, false},
		{answer{ids: []int32{1, 9, 3}}, false, 1, false},
	} {
		if same, at := goesOn(&reported, &c.got); same != c.same || at != c.at || c.got.tied(at) != c.tied {
			t.Errorf("%+v: same %v, at %d, tied %v", c.got, same, at, c.got.tied(at))
		}
	}
	if same, _ := goesOn(&answer{text: "a market town"}, &answer{text: "a mark\uFFFD"}); !same {
		t.Error("half a character at the end is taken for another")
	}
	if same, _ := goesOn(&answer{text: "a market town"}, &answer{}); same {
		t.Error("nothing is taken for the same")
	}
}
