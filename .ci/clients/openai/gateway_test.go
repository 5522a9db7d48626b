// Package openai tests that the Go libraries of OpenAI and of Anthropic work with
// the gateway.
package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/foregate/foregate/clients/programs"
)

// The routes share their pools. Settings of their own make them what they are called.
const (
	routeDefault = "llama-3"
	routeAccept  = "accept" // keeps every draft
	routeReject  = "reject" // keeps no draft
	routeSeam    = "seam"   // releases drafts early, so that the target takes over in mid-stream
	routeAlone   = "alone"  // has no draft pool
)

const targetModel = "sim/target"

// routeSettings make the routes what they are called.
var routeSettings = map[string]string{
	"speculation.mode":                          "confidence", // drafts from the first request on
	"speculation.threshold_nats@" + routeAccept: "-20",
	"speculation.threshold_nats@" + routeReject: "20",
	"speculation.holdback_tokens@" + routeSeam:  "2",
	"speculation.threshold_nats@" + routeSeam:   "0.22",
}

// ways are the routes and demanded tiers that each kind of answer is tried on, with the tiers that
// may have answered.
var ways = []struct{ route, tier, from string }{
	{routeDefault, "auto", "draft mixed target"},
	{routeDefault, "draft", "draft"},
	{routeDefault, "target", "target"},
	{routeAccept, "auto", "draft"},
	{routeReject, "auto", "mixed target"},
	{routeSeam, "auto", "draft mixed target"},
	{routeAlone, "auto", "target"},
}

// world is a gateway with two draft backends and one target behind it.
type world struct {
	*programs.Gateway
	target string // URL
	redis  string // URL
}

func startWorld(t *testing.T) *world {
	t.Helper()
	draft := []string{"--model", "sim/draft", "--profile", "a10g-8b", "--divergence", "0.6", "--time-scale", "50"}
	first, second := programs.StartSimulator(t, draft...), programs.StartSimulator(t, draft...)
	w := &world{target: programs.StartSimulator(t, "--model", targetModel, "--profile", "h100-70b-tp4", "--time-scale", "50")}
	redis := programs.Redis(t)
	w.redis = redis
	w.Gateway = programs.StartGateway(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: %q}
pools:
  small: {model: sim/draft, backends: [%q, %q]}
  large: {model: %s, backends: [%q]}
routes:
  - {model: llama-3, draft: small, target: large, same_tokenizer: true}
  - {model: accept, draft: small, target: large, same_tokenizer: true}
  - {model: reject, draft: small, target: large, same_tokenizer: true}
  - {model: seam, draft: small, target: large, same_tokenizer: true}
  - {model: alone, target: large}
drain: {delay: 0s, grace: 5s}
`, redis, first, second, targetModel, w.target))
	change := []string{"settings", "set", "--redis", redis, "--because", "a test"}
	for name, value := range routeSettings {
		change = append(change, name+"="+value)
	}
	programs.Run(t, change...)
	programs.Within(t, programs.StartWait, "both pools were probed and the settings are in force", func() bool {
		_, page := programs.Get(t, w.Admin+"/metrics")
		_, status := programs.Get(t, w.Admin+"/admin/status")
		return strings.Count(page, "\nforegate_probe_age_seconds{") == 2 && strings.Contains(status, "threshold_nats@"+routeSeam)
	})
	return w
}

func TestTheClientWorksWithTheGateway(t *testing.T) {
	w := startWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"chats on every route and tier":            testChats,
		"one stream where the target takes over":   testMixedStream,
		"completions":                              testCompletions,
		"tool calls":                               testTools,
		"two choices":                              testTwoChoices,
		"log probabilities":                        testLogprobs,
		"structured output":                        testStructured,
		"stop strings and limits":                  testStopsAndLimits,
		"the list of models, embeddings, refusals": testOtherCalls,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, w) })
	}
}

func testChats(t *testing.T, w *world) {
	for _, way := range ways {
		for i := range 4 {
			params := question(way.route, fmt.Sprintf("What does order %d of the market contain, and why?", i))
			checkAnswer(t, way.route, way.from, whole(t, w.URL, params, tier(way.tier)))
			checkAnswer(t, way.route, way.from, streamed(t, w.URL, params, tier(way.tier)))
		}
	}
}

// checkAnswer holds what is true of every answer of one choice.
func checkAnswer(t *testing.T, route, from string, a *answer) {
	t.Helper()
	if a.model != route {
		t.Errorf("model is %q, want %q", a.model, route)
	}
	if a.told.Tier == "" || !strings.Contains(from, a.told.Tier) {
		t.Errorf("route %s: the answer is from %q, want one of %s (X-Acceptance %s)", route, a.told.Tier, from, a.header.Get("X-Acceptance"))
	}
	if f := a.finish[0]; a.texts[0] == "" || f != "stop" && f != "length" {
		t.Errorf("finish_reason is %q, the text %q", f, a.texts[0])
	}
	u := a.usage
	if u.PromptTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens ||
		u.CompletionTokens != int64(a.told.AcceptedTokens+a.told.TargetTokens) {
		t.Errorf("usage does not add up: %+v, and foregate tells %+v", u, a.told)
	}
	if id := a.header.Get("X-Request-Id"); id == "" || !strings.HasPrefix(a.id, "chatcmpl-"+id) {
		t.Errorf("the answer's id is %q, the request's %q", a.id, id)
	}
}

func testMixedStream(t *testing.T, w *world) {
	for i := range 100 {
		a := streamed(t, w.URL, question(routeSeam, fmt.Sprintf("What is in chapter %d?", i)))
		checkAnswer(t, routeSeam, "draft mixed target", a)
		if a.told.Tier == "mixed" {
			return
		}
	}
	t.Error("no answer was mixed, so nothing was shown")
}

func testCompletions(t *testing.T, w *world) {
	c := client(w.URL)
	for _, way := range ways {
		params := openai.CompletionNewParams{
			Model: openai.CompletionNewParamsModel(way.route), Temperature: openai.Float(0), MaxTokens: openai.Int(60),
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("The old bridge")},
		}
		got, err := c.Completions.New(t.Context(), params, tier(way.tier))
		if err != nil {
			t.Fatalf("%+v: %v", way, err)
		}
		told := parseTold(t, got.JSON.ExtraFields["foregate"].Raw())
		if got.Model != way.route || got.Choices[0].Text == "" || !strings.Contains(way.from, told.Tier) {
			t.Errorf("%+v: %s", way, got.RawJSON())
		}
		text, last := "", ""
		s := c.Completions.NewStreaming(t.Context(), params, tier(way.tier))
		for s.Next() {
			chunk := s.Current()
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Text
			}
			last = chunk.JSON.ExtraFields["foregate"].Raw()
		}
		if err := s.Err(); err != nil {
			t.Fatalf("%+v: %v", way, err)
		}
		parseTold(t, last)
		if way.tier != "auto" && text != got.Choices[0].Text {
			t.Errorf("%+v: the stream says %q, the JSON %q", way, text, got.Choices[0].Text)
		}
	}
}

func testOtherCalls(t *testing.T, w *world) {
	c := client(w.URL)
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range page.Data {
		names = append(names, m.ID)
	}
	if got := strings.Join(names, " "); got != "llama-3 accept reject seam alone" {
		t.Errorf("the models are %s", got)
	}
	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: routeDefault, Dimensions: openai.Int(8), EncodingFormat: "float",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 8 {
		t.Errorf("embeddings: %+v, %v", vectors, err)
	}
	_, err = c.Chat.Completions.New(t.Context(), question("nobody", "x"))
	checkRefusal(t, err, http.StatusNotFound, "model_not_found")
	params := question(routeDefault, "x")
	params.Temperature = openai.Float(-1)
	_, err = c.Chat.Completions.New(t.Context(), params)
	checkRefusal(t, err, http.StatusBadRequest, "")
	s := c.Chat.Completions.NewStreaming(t.Context(), question("nobody", "x"))
	if s.Next() {
		t.Error("a refused stream has a chunk")
	}
	checkRefusal(t, s.Err(), http.StatusNotFound, "model_not_found")
	_ = s.Close()
}
