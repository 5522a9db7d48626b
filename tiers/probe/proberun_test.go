package probe

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
)

// engine starts a simulated one that is so fast that a probe takes some 50 ms.
func engine(t *testing.T, o vllmsim.Options) *vllmsim.Server {
	t.Helper()
	o.Profile, o.TimeScale = "h100-8b", 200
	return vllmsim.Start(t, o)
}

// taken probes an engine at a URL.
func taken(t *testing.T, url string) *probeRun {
	t.Helper()
	e := &probeRun{asker: &asker{transport: transport(t), timeout: 20 * time.Second, url: url, model: "sim"}}
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
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

func TestAGoodEngineLacksNothingButReuse(t *testing.T) {
	s := engine(t, vllmsim.Options{Seed: 3, PromptTokensDetails: true, MaxModelLen: 9000})
	e := taken(t, s.URL())
	c := &e.found
	if got := whats(c); got != MissingReuse || !strings.Contains(c.MissingReason(MissingReuse), "600 tokens") {
		t.Fatalf("missing: %+v", c.Missing)
	}
	// What is fixed of the simulator: id 4 ends a turn, /v1/models tells the context.
	if !slices.Equal(c.EOS, []int32{4}) || c.Window != 9000 || c.Model != "sim" {
		t.Errorf("ends %v, window %d, model %q", c.EOS, c.Window, c.Model)
	}
	if c.TopLogprobs < 10 || !c.TokenIDs || !c.Continues {
		t.Errorf("got %+v", c)
	}
	if c.Scoring != openai.ScoreCompletions {
		t.Errorf("scoring %q", c.Scoring)
	}
	if len(c.Tokenizer) != 64 || len(c.Template) != 64 {
		t.Errorf("fingerprints %q, %q", c.Tokenizer, c.Template)
	}
}

func TestAProbeCostsWhatItSays(t *testing.T) {
	for name, o := range map[string]vllmsim.Options{
		"all there":   {},
		"no tokenize": {Without: []string{"tokenize"}},
		"sglang":      {Engine: "sglang"},
		"bare sglang": {Engine: "sglang", Without: []string{"token_ids", "tokenize"}},
		"nothing":     {Without: vllmsim.Features()},
	} {
		for seed := range uint64(4) {
			o.Seed = seed * 11 // no answer ends soon in the language of 33
			e := taken(t, engine(t, o).URL())
			if s := e.found.Spent; s.Prompt > 2200 || s.Generated > 420 || s.Prompt == 0 || s.Generated == 0 {
				t.Errorf("%s, seed %d: %+v", name, seed, s)
			}
		}
	}
}

func TestWhatAnEngineLacksIsToldWithItsReason(t *testing.T) {
	for _, c := range []struct {
		o       vllmsim.Options
		missing string            // all
		why     map[string]string // a part of the reason
	}{
		{vllmsim.Options{Without: []string{"token_ids"}}, "eos prompt_token_ids reuse token_ids", map[string]string{
			MissingIDs: "without token_ids", MissingPromptIDs: "without prompt_token_ids", MissingEOS: "ids of answers"}},
		{vllmsim.Options{Without: []string{"prompt_token_ids"}}, "prompt_token_ids reuse", map[string]string{
			MissingPromptIDs: "it answers without prompt_token_ids"}},
		{vllmsim.Options{Without: []string{"prompt_token_ids", "tokenize"}}, "continuation detokenize prompt_token_ids reuse template tokenize tokenizer", nil},
		{vllmsim.Options{Without: []string{"tokenize"}}, "detokenize reuse tokenize", map[string]string{
			MissingTokenize: "/tokenize: status 404", MissingWords: "/detokenize: status 404"}},
		{vllmsim.Options{Without: []string{"tokenize", "token_ids"}}, "continuation detokenize eos prompt_token_ids reuse template token_ids tokenize tokenizer", map[string]string{
			MissingTokenizer: "status 404: Not Found; /v1/completions: answers come without prompt_token_ids",
			MissingTemplate:  `chat "plain": /tokenize: status 404`, MissingContinue: "ids of a chat"}},
		{vllmsim.Options{Without: []string{"prompt_logprobs"}}, "reuse scoring", map[string]string{
			MissingScoring: "completions: ", MissingReuse: "does not score a given text"}},
		{vllmsim.Options{Without: []string{"logprobs"}}, "logprobs reuse", map[string]string{
			MissingLogprobs: "without logprobs"}},
		{vllmsim.Options{Without: []string{"continuation"}}, "continuation reuse", map[string]string{
			MissingContinue: "otherwise than in the chat, from token 1"}},
		{vllmsim.Options{Engine: "sglang", Without: []string{"token_ids"}}, "detokenize prompt_token_ids token_ids", nil},
	} {
		c.o.Seed = 3
		capabilities := &taken(t, engine(t, c.o).URL()).found
		if got := whats(capabilities); got != c.missing {
			t.Errorf("without %v: %q, not %q: %+v", c.o.Without, got, c.missing, capabilities.Missing)
		}
		for what, part := range c.why {
			if why := capabilities.MissingReason(what); !strings.Contains(why, part) {
				t.Errorf("without %v: %s: %q, not %q", c.o.Without, what, why, part)
			}
		}
	}
}

func TestSGLangScoresInItsOwnWayAndReuses(t *testing.T) {
	c := &taken(t, engine(t, vllmsim.Options{Seed: 3, Engine: "sglang"}).URL()).found
	if c.Scoring != openai.ScoreSGLang || !c.Reuse || whats(c) != "detokenize prompt_token_ids" {
		t.Errorf("got %+v", c)
	}
}

func TestOneAnswersForAnotherWhereRoutesDiffer(t *testing.T) {
	full := taken(t, engine(t, vllmsim.Options{Seed: 3}).URL())
	bare := taken(t, engine(t, vllmsim.Options{Seed: 3, Without: []string{"tokenize"}}).URL())
	if full.ofTexts.not != "" || full.ofChats.not != "" || bare.ofTexts.not == "" || bare.ofChats.not == "" {
		t.Fatal("both took the same route")
	}
	if full.found.Tokenizer != bare.found.Tokenizer || full.found.Template != bare.found.Template {
		t.Error("/tokenize and prompt_token_ids give other fingerprints")
	}
}

func TestADraftAndItsTargetHaveTheSameTokens(t *testing.T) {
	target := &taken(t, engine(t, vllmsim.Options{Seed: 3}).URL()).found
	draft := &taken(t, engine(t, vllmsim.Options{Seed: 3, Divergence: 0.5}).URL()).found
	if same, known := SameTokens(draft, target); !same || !known {
		t.Errorf("same %v, known %v", same, known)
	}
	silent := &taken(t, engine(t, vllmsim.Options{Seed: 3, Without: []string{"tokenize", "token_ids"}}).URL()).found
	if same, known := SameTokens(silent, target); same || known {
		t.Errorf("of one that tells nothing: same %v, known %v", same, known)
	}
	if same, known := SameTokens(nil, target); same || known {
		t.Errorf("of one that was not probed: same %v, known %v", same, known)
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
		{answer{ids: []int32{1, 9, 3}, tops: []map[string]float64{{"x": -1, "y": -1}, {"x": -0.7, "y": -0.8}}}, false, 1, true},
		{answer{ids: []int32{1, 9, 3}, tops: []map[string]float64{{"x": -1, "y": -1}, {"x": -0.1, "y": -2.5}}}, false, 1, false},
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

func TestAnAnswerEndsByItselfOnlyWithoutAStopString(t *testing.T) {
	for body, want := range map[string]string{
		`{"choices":[{"finish_reason":"stop","stop_reason":null,"token_ids":[5,6,7]}],"usage":{"completion_tokens":3}}`: "7",
		`{"choices":[{"finish_reason":"stop","stop_reason":11,"token_ids":[5,6]}]}`:                                     "11",
		`{"choices":[{"finish_reason":"stop","matched_stop":12}]}`:                                                      "12",
		`{"choices":[{"finish_reason":"stop","stop_reason":"\n","token_ids":[5,6]}]}`:                                   "",
		`{"choices":[{"finish_reason":"length","token_ids":[5,6]}]}`:                                                    "",
		`{"choices":[{"finish_reason":"stop","token_ids":[5,6]}],"usage":{"completion_tokens":3}}`:                      "",
		`{"choices":[{"finish_reason":"stop"}]}`:                                                                        "",
	} {
		a, err := parseAnswer([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if id, ok := a.end(); ok {
			got = fmt.Sprint(id)
		}
		if got != want {
			t.Errorf("%s: %q, not %q", body, got, want)
		}
	}
}
