package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// prompts are questions whose answers differ in length and in how sure a draft
// is of them.
func prompts(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("What does order %d of the market contain, and why?", i))
	}
	return out
}

func TestTheOfficialClient(t *testing.T) {
	w := newWorld(t)
	t.Run("is answered as JSON on every route and tier", func(t *testing.T) { t.Parallel(); testJSON(t, w) })
	t.Run("is answered as a stream on every route and tier", func(t *testing.T) { t.Parallel(); testStream(t, w) })
	t.Run("gets the target's own answer when it demands the target", func(t *testing.T) { t.Parallel(); testTargetIsTarget(t, w) })
	t.Run("gets one seamless stream when the target takes over", func(t *testing.T) { t.Parallel(); testSeam(t, w) })
	t.Run("gets completions", func(t *testing.T) { t.Parallel(); testCompletions(t, w) })
	t.Run("gets tool calls", func(t *testing.T) { t.Parallel(); testTools(t, w) })
	t.Run("gets two choices", func(t *testing.T) { t.Parallel(); testTwoChoices(t, w) })
	t.Run("gets structured output", func(t *testing.T) { t.Parallel(); testStructured(t, w) })
	t.Run("gets text that ends before a stop string", func(t *testing.T) { t.Parallel(); testStops(t, w) })
	t.Run("gets whole characters", func(t *testing.T) { t.Parallel(); testCharacters(t, w) })
	t.Run("may send a prompt of 32k tokens", func(t *testing.T) { t.Parallel(); testLongPrompt(t, w) })
	t.Run("gets as many tokens as it allows", func(t *testing.T) { t.Parallel(); testMaxTokens(t, w) })
	t.Run("sees the headers of its answer", func(t *testing.T) { t.Parallel(); testHeaders(t, w) })
	t.Run("lists the models", func(t *testing.T) { t.Parallel(); testModels(t, w) })
	t.Run("is counted under good names", func(t *testing.T) { t.Parallel(); testMetricNames(t, w) })
	t.Run("passes embeddings and tokenize through", func(t *testing.T) { t.Parallel(); testPassthrough(t, w) })
}

// ways are the routes and demanded tiers that every kind of answer is tried on,
// with the tiers that may have answered.
var ways = []struct{ route, tier, from string }{
	{routeUsual, "auto", "draft mixed target"},
	{routeUsual, "draft", "draft"},
	{routeUsual, "target", "target"},
	{routeAccept, "auto", "draft"},
	{routeReject, "auto", "mixed target"},
	{routeSeam, "auto", "draft mixed target"},
	{routeText, "auto", "draft mixed target"},
	{routeAlone, "auto", "target"},
}

func testJSON(t *testing.T, w *world) {
	for _, way := range ways {
		for _, q := range prompts(4) {
			a := whole(t, w.process, ask(way.route, q), tier(way.tier))
			checkAnswer(t, way.route, way.from, a)
		}
	}
}

func testStream(t *testing.T, w *world) {
	for _, way := range ways {
		for _, q := range prompts(4) {
			a := streamed(t, w.process, ask(way.route, q), tier(way.tier))
			checkAnswer(t, way.route, way.from, a)
		}
	}
}

// checkAnswer holds what is true of every answer of one choice.
func checkAnswer(t *testing.T, route, from string, a *answer) {
	t.Helper()
	if a.model != route {
		t.Errorf("model is %q, want %q", a.model, route)
	}
	if !strings.Contains(from, a.told.Tier) || a.told.Tier == "" {
		t.Errorf("route %s: the answer is from %q, want one of %s (X-Acceptance %s, request %s)", route, a.told.Tier, from, a.header.Get("X-Acceptance"), a.id)
	}
	if f := a.finish[0]; f != "stop" && f != "length" {
		t.Errorf("finish_reason is %q", f)
	}
	checkUsage(t, a)
	if id := a.header.Get("X-Request-Id"); id == "" || !strings.HasPrefix(a.id, "chatcmpl-"+id) {
		t.Errorf("the answer's id is %q, the request's %q", a.id, id)
	}
}

// checkUsage compares the usage with the text, and with the foregate object. The
// simulator's tokenizer gives a text back the ids it was made of, and the token
// that ended the answer is counted too. An answer cut by its limit may end inside a
// character of up to four byte tokens, of which nothing is shown.
func checkUsage(t *testing.T, a *answer) {
	t.Helper()
	u := a.usage
	if u.PromptTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage does not add up: %+v", u)
	}
	if sum := a.told.AcceptedTokens + a.told.TargetTokens; int64(sum) != u.CompletionTokens {
		t.Errorf("foregate tells of %d+%d tokens, usage of %d (%s)", a.told.AcceptedTokens, a.told.TargetTokens, u.CompletionTokens, a.told.Tier)
	}
	tokens := len(vllmsim.DefaultTokenizer().Encode(a.texts[0]))
	if a.finish[0] == "stop" {
		tokens++
	}
	hidden := u.CompletionTokens - int64(tokens)
	if hidden < 0 || hidden > 0 && (a.finish[0] != "length" || hidden > 3 || !strings.HasSuffix(a.texts[0], " ")) {
		t.Errorf("the text has %d tokens, the usage says %d (%+v, finish %s, model %s): %q", tokens, u.CompletionTokens, a.told, a.finish[0], a.model, a.texts[0])
	}
}

func testTargetIsTarget(t *testing.T, w *world) {
	direct := &process{base: w.target[0].URL()}
	client := direct.client()
	for _, q := range prompts(8) {
		want, err := client.Chat.Completions.New(t.Context(), ask(simTarget, q))
		if err != nil {
			t.Fatal(err)
		}
		for kind, got := range map[string]*answer{
			"JSON":   whole(t, w.process, ask(routeUsual, q), tier("target")),
			"stream": streamed(t, w.process, ask(routeUsual, q), tier("target")),
		} {
			if got.texts[0] != want.Choices[0].Message.Content {
				t.Errorf("%s: the target says %q, the gateway %q", kind, want.Choices[0].Message.Content, got.texts[0])
			}
			if got.usage.CompletionTokens != want.Usage.CompletionTokens || got.usage.PromptTokens != want.Usage.PromptTokens {
				t.Errorf("%s: the target counts %+v, the gateway %+v", kind, want.Usage, got.usage)
			}
		}
	}
}

func testSeam(t *testing.T, w *world) {
	mixed := map[string]int{}
	for _, route := range []string{routeSeam, routeText} {
		for _, q := range prompts(100) {
			a := streamed(t, w.process, ask(route, q))
			checkAnswer(t, route, "draft mixed target", a)
			if a.told.Tier == "mixed" {
				mixed[route]++
			}
			if strings.ContainsFunc(a.texts[0], func(r rune) bool { return r == unicode.ReplacementChar }) {
				t.Errorf("%s: a character was broken at the seam: %q", route, a.texts[0])
			}
			if mixed[route] == 5 {
				break
			}
		}
		if mixed[route] == 0 {
			t.Errorf("route %s: no answer was mixed, so nothing was shown", route)
		}
	}
}

func testCompletions(t *testing.T, w *world) {
	client := w.client()
	for _, way := range ways {
		params := openai.CompletionNewParams{
			Model: openai.CompletionNewParamsModel(way.route), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("The old bridge")},
			Temperature: openai.Float(0), MaxTokens: openai.Int(60),
		}
		got, err := client.Completions.New(t.Context(), params, tier(way.tier))
		if err != nil {
			t.Fatalf("%+v: %v", way, err)
		}
		told := parseTold(t, got.JSON.ExtraFields["foregate"].Raw())
		if got.Model != way.route || got.Choices[0].Text == "" || !strings.Contains(way.from, told.Tier) {
			t.Errorf("%+v: %s", way, got.RawJSON())
		}
		text, last := "", ""
		s := client.Completions.NewStreaming(t.Context(), params, tier(way.tier))
		for s.Next() {
			c := s.Current()
			if len(c.Choices) > 0 {
				text += c.Choices[0].Text
			}
			last = c.JSON.ExtraFields["foregate"].Raw()
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

func testLongPrompt(t *testing.T, w *world) {
	prompt := strings.Repeat(" the quick river reads a quiet letter", 4700)
	for _, route := range []string{routeUsual, routeSeam} {
		for name, a := range map[string]*answer{
			"JSON":   whole(t, w.process, ask(route, prompt)),
			"stream": streamed(t, w.process, ask(route, prompt)),
		} {
			if a.usage.PromptTokens < 32000 {
				t.Errorf("%s: the prompt has %d tokens, want 32,000", name, a.usage.PromptTokens)
			}
			if got := a.header.Get("X-Acceptance"); got != "bypassed;reason=prompt_length" {
				t.Errorf("%s: X-Acceptance is %q", name, got)
			}
			checkAnswer(t, route, "target", a)
		}
	}
}

func testMaxTokens(t *testing.T, w *world) {
	for _, way := range ways {
		for _, most := range []int64{1, 2, 7, 8, 33} {
			params := ask(way.route, "Describe the library of a small town at length.")
			params.MaxTokens = openai.Int(most)
			forever := option.WithJSONSet("ignore_eos", true)
			for kind, a := range map[string]*answer{
				"JSON":   whole(t, w.process, params, tier(way.tier), forever),
				"stream": streamed(t, w.process, params, tier(way.tier), forever),
			} {
				if a.usage.CompletionTokens != most || a.finish[0] != "length" {
					t.Errorf("%s %s of %d tokens: %d came, finish %q, %s", way.route, kind, most, a.usage.CompletionTokens, a.finish[0], a.told.Tier)
				}
			}
		}
	}
}

func TestAHundredRequestsAtOnceAreAllAnswered(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i, q := range prompts(100) {
		all.Go(func() {
			way := ways[i%len(ways)]
			params := ask(way.route, q)
			if i%2 == 0 {
				a, err := tryWhole(t, w.process, params, tier(way.tier))
				if err != nil {
					t.Errorf("request %d (%s, JSON): %v", i, way.route, err)
					return
				}
				checkAnswer(t, way.route, way.from, a)
				return
			}
			a, err := tryStream(t.Context(), t, w.process, params, tier(way.tier))
			if err != nil {
				t.Errorf("request %d (%s, stream): %v", i, way.route, err)
				return
			}
			checkAnswer(t, way.route, way.from, a)
		})
	}
	all.Wait()
	eventually(t, "the backends are idle again", func() bool { return w.running() == 0 })
	if page := w.metrics(t); !strings.Contains(page, "foregate_requests_in_flight 0\n") {
		t.Errorf("requests are still counted as under way:\n%s", grep(page, "in_flight"))
	}
}

func TestALeavingClientStopsItsGeneration(t *testing.T) {
	w := newWorld(t)
	for _, way := range ways {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %s stream=%t", way.route, way.tier, stream), func(t *testing.T) {
				leaveEarly(t, w, way.route, way.tier, stream)
			})
		}
	}
	eventually(t, "the gateway has counted them as gone", func() bool {
		return strings.Contains(w.metrics(t), `code="499"`)
	})
}

// leaveEarly begins a long answer, leaves, and waits until the backends stopped.
func leaveEarly(t *testing.T, w *world, route, demanded string, stream bool) {
	before := w.aborted()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	params := ask(route, "Tell a story that never ends.")
	params.MaxTokens = openai.Int(30000)
	opts := []option.RequestOption{tier(demanded), option.WithJSONSet("ignore_eos", true)}
	client := w.client()
	if stream {
		s := client.Chat.Completions.NewStreaming(ctx, params, opts...)
		for n := 0; n < 3 && s.Next(); n++ {
			continue
		}
		cancel()
		_ = s.Close() // left on purpose
	} else {
		var asked sync.WaitGroup
		asked.Go(func() {
			_, _ = client.Chat.Completions.New(ctx, params, opts...) // it is cut off
		})
		eventually(t, "a backend works on it", func() bool { return w.running() > 0 })
		cancel()
		asked.Wait()
	}
	eventually(t, "the generation was aborted and no backend works", func() bool { return w.running() == 0 && w.aborted() > before })
}

// grep returns the lines of a page that hold a word.
func grep(page, word string) string {
	var out []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func testModels(t *testing.T, w *world) {
	client := w.client()
	page, err := client.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range page.Data {
		names = append(names, m.ID)
	}
	if got, want := strings.Join(names, " "), strings.Join(allRoutes, " "); got != want {
		t.Errorf("the models are %s, want %s", got, want)
	}
}

func testHeaders(t *testing.T, w *world) {
	for _, way := range ways {
		a := whole(t, w.process, ask(way.route, "Which headers come back?"), tier(way.tier), option.WithHeader("X-Request-ID", "my-own.id:7"))
		s := streamed(t, w.process, ask(way.route, "Which headers come back?"), tier(way.tier), option.WithHeader("X-Request-ID", "my-own.id:7"))
		for _, h := range []http.Header{a.header, s.header} {
			if h.Get("X-Request-Id") != "my-own.id:7" {
				t.Errorf("%s: X-Request-ID is %q", way.route, h.Get("X-Request-Id"))
			}
			if !strings.Contains(way.from, h.Get("X-Tier")) || h.Get("X-Tier") == "" {
				t.Errorf("%s: X-Tier is %q, want one of %s", way.route, h.Get("X-Tier"), way.from)
			}
			if !strings.Contains(h.Get("Server-Timing"), ";dur=") {
				t.Errorf("%s: Server-Timing is %q", way.route, h.Get("Server-Timing"))
			}
			verdict, rest, _ := strings.Cut(h.Get("X-Acceptance"), ";reason=")
			if !strings.Contains("accepted rejected bypassed", verdict) || rest == "" {
				t.Errorf("%s: X-Acceptance is %q", way.route, h.Get("X-Acceptance"))
			}
		}
		if a.header.Get("X-Tier") != a.told.Tier {
			t.Errorf("%s: X-Tier is %q, the body tells of %q", way.route, a.header.Get("X-Tier"), a.told.Tier)
		}
		if ct := s.header.Get("Content-Type"); ct != "text/event-stream; charset=utf-8" {
			t.Errorf("a stream has Content-Type %q", ct)
		}
	}
}
