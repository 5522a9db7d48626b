package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
)

var weatherTool = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name: "get_weather", Description: openai.String("The weather of a city."),
	Parameters: openai.FunctionParameters{"type": "object", "required": []string{"city"},
		"properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}},
})

func testTools(t *testing.T, w *world) {
	params := ask(routeUsual, "What is the weather in Paris?")
	params.Tools = []openai.ChatCompletionToolUnionParam{weatherTool}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	a, s := whole(t, w.process, params), streamed(t, w.process, params)
	for kind, got := range map[string]*answer{"JSON": a, "stream": s} {
		call := got.toolsOf[0]
		if call.name != "get_weather" || call.id == "" || !json.Valid([]byte(call.args)) {
			t.Errorf("%s: the tool call is %+v", kind, call)
		}
		if got.finish[0] != "tool_calls" || got.told.Tier != "draft" {
			t.Errorf("%s: finish %q from %s", kind, got.finish[0], got.told.Tier)
		}
		if said := got.header.Get("X-Acceptance"); !strings.HasPrefix(said, "accepted;reason=") {
			t.Errorf("%s: X-Acceptance is %q", kind, said)
		}
	}
	if a.toolsOf[0].args != s.toolsOf[0].args {
		t.Errorf("JSON calls with %s, the stream with %s", a.toolsOf[0].args, s.toolsOf[0].args)
	}
	params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	if got := whole(t, w.process, params); got.finish[0] == "tool_calls" || len(got.toolsOf) > 0 {
		t.Errorf("tools were forbidden, but called: %+v", got.toolsOf)
	}
}

func testTwoChoices(t *testing.T, w *world) {
	params := ask(routeUsual, "Name a colour.")
	params.N, params.Temperature = openai.Int(2), openai.Float(1)
	params.Seed = openai.Int(11)
	a, s := whole(t, w.process, params), streamed(t, w.process, params)
	for kind, got := range map[string]*answer{"JSON": a, "stream": s} {
		if len(got.texts) != 2 || got.texts[0] == "" || got.texts[1] == "" || got.texts[0] == got.texts[1] {
			t.Errorf("%s: the choices are %v", kind, got.texts)
		}
		if got.finish[0] == "" || got.finish[1] == "" || got.told.Tier != "target" {
			t.Errorf("%s: finish %v from %s", kind, got.finish, got.told.Tier)
		}
	}
	if a.texts[0] != s.texts[0] || a.texts[1] != s.texts[1] || a.usage.CompletionTokens != s.usage.CompletionTokens {
		t.Errorf("JSON and stream differ: %v and %v", a.texts, s.texts)
	}
}

func testStructured(t *testing.T, w *world) {
	for _, route := range []string{routeUsual, routeAccept, routeReject} {
		for i := range 5 {
			params := ask(route, fmt.Sprintf("Rate hotel %d.", i))
			params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
				OfJSONObject: &openai.ResponseFormatJSONObjectParam{}}
			for kind, got := range map[string]*answer{"JSON": whole(t, w.process, params), "stream": streamed(t, w.process, params)} {
				if !json.Valid([]byte(got.texts[0])) || got.finish[0] != "stop" {
					t.Errorf("%s %s: finish %q, %q", route, kind, got.finish[0], got.texts[0])
				}
				if got.told.Tier == "mixed" {
					t.Errorf("%s %s: a structured answer was switched in its middle", route, kind)
				}
			}
		}
	}
}

// testStops takes a known answer and asks for it again, with stop strings from
// its middle: one within a token and some that straddle tokens.
func testStops(t *testing.T, w *world) {
	for _, way := range ways {
		if way.tier == "auto" && way.route != routeAccept && way.route != routeAlone {
			continue // which tier answers may depend on where the text ends
		}
		full := streamed(t, w.process, ask(way.route, "Write about rivers and bridges."), tier(way.tier)).texts[0]
		if len(full) < 80 {
			t.Fatalf("%s: the answer is too short to be cut: %q", way.route, full)
		}
		for _, span := range [][2]int{{30, 32}, {31, 47}, {40, 60}, {len(full) - 9, len(full)}} {
			stop := full[span[0]:span[1]]
			want := full[:strings.Index(full, stop)]
			params := ask(way.route, "Write about rivers and bridges.")
			params.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"never said", stop}}
			for kind, got := range map[string]*answer{
				"JSON":   whole(t, w.process, params, tier(way.tier)),
				"stream": streamed(t, w.process, params, tier(way.tier)),
			} {
				if got.texts[0] != want || got.finish[0] != "stop" {
					t.Errorf("%s/%s %s, stop %q: finish %q, text %q, want %q", way.route, way.tier, kind, stop, got.finish[0], got.texts[0], want)
				}
			}
		}
	}
	testStopsAcrossTheSeam(t, w)
}

// testStopsAcrossTheSeam takes answers that two tiers made and stops them in
// every part. Where the target takes over depends on time too, so the texts are
// compared only when it was the same place.
func testStopsAcrossTheSeam(t *testing.T, w *world) {
	mixed, compared := 0, 0
	for _, q := range prompts(100) {
		full := streamed(t, w.process, ask(routeSeam, q))
		text := full.texts[0]
		if full.told.Tier != "mixed" || len(text) < 60 {
			continue
		}
		for at := 20; at+12 < len(text); at += 31 {
			stop := text[at : at+12]
			params := ask(routeSeam, q)
			params.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{stop}}
			got := streamed(t, w.process, params)
			if strings.Contains(got.texts[0], stop) {
				t.Errorf("%q is in an answer that it should have stopped: %q", stop, got.texts[0])
			}
			want := text[:strings.Index(text, stop)]
			same := got.told.Tier == "draft" || got.told.Tier == "mixed" && got.told.AcceptedTokens == full.told.AcceptedTokens
			if same && (got.texts[0] != want || got.finish[0] != "stop") {
				t.Errorf("%q stopped at %q from %s (%s): %q, want %q", q, stop, got.told.Tier, got.finish[0], got.texts[0], want)
			}
			if same {
				compared++
			}
		}
		if mixed++; mixed == 4 {
			break
		}
	}
	if compared == 0 {
		t.Errorf("of %d mixed answers none could be compared", mixed)
	}
}

// testCharacters asks until characters that take several tokens came, in every
// way: each chunk is UTF-8 (streamed checks that), and together they are the JSON
// answer.
func testCharacters(t *testing.T, w *world) {
	for _, way := range ways {
		shown := 0
		for _, q := range prompts(40) {
			s := streamed(t, w.process, ask(way.route, q), tier(way.tier))
			text := s.texts[0]
			if strings.ContainsRune(text, utf8.RuneError) {
				t.Errorf("%s/%s: a character was broken: %q", way.route, way.tier, text)
			}
			if utf8.RuneCountInString(text) == len(text) {
				continue
			}
			shown++
			same := way.tier != "auto" || way.route == routeAccept || way.route == routeAlone
			if a := whole(t, w.process, ask(way.route, q), tier(way.tier)); same && a.texts[0] != text {
				t.Errorf("%s/%s: the stream says %q, the JSON %q", way.route, way.tier, text, a.texts[0])
			}
			if shown == 3 {
				break
			}
		}
		if shown == 0 {
			t.Errorf("%s/%s: no answer held such a character", way.route, way.tier)
		}
	}
	a := whole(t, w.process, ask(routeUsual, "Wie heißt 東京 auf Deutsch? 🚀 \U0001F469\u200D\U0001F680 \u0000"))
	if a.usage.PromptTokens == 0 {
		t.Error("a prompt of many scripts was not counted")
	}
}

// testPassthrough compares what the gateway passes on with what the backend says
// itself, byte for byte but for the parts that differ on every call.
func testPassthrough(t *testing.T, w *world) {
	for path, fields := range map[string]string{
		"/tokenize":      `"prompt":"The old   bridge — 東京 🚀", "unknown_field" : [1, 2.50, "\u00e9"]`,
		"/detokenize":    `"tokens":[300,301,302]`,
		"/v1/embeddings": `"input":["one","two"],"dimensions":8`,
	} {
		got, head := post(t, w.base+path, `{ "model":"`+routeUsual+`", `+fields+` }`)
		want, _ := post(t, w.target[0].URL()+path, `{ "model":"`+simTarget+`", `+fields+` }`)
		if got, want := volatile.ReplaceAllString(got, ""), volatile.ReplaceAllString(want, ""); got != want {
			t.Errorf("%s: the backend says %s, the gateway %s", path, want, got)
		}
		if head.Get("X-Tier") != "target" || head.Get("X-Acceptance") != "bypassed;reason=passthrough" {
			t.Errorf("%s: X-Tier %q, X-Acceptance %q", path, head.Get("X-Tier"), head.Get("X-Acceptance"))
		}
	}
}

var volatile = regexp.MustCompile(`"id":"[^"]*"|"created":\d+`)

// post sends JSON and returns the body of a 200.
func post(t *testing.T, url, body string, headers ...string) (string, http.Header) {
	t.Helper()
	status, head, got := send(t, http.MethodPost, url, body, headers...)
	if status != http.StatusOK {
		t.Fatalf("POST %s: status %d: %s", url, status, got)
	}
	return got, head
}

// send makes one request; headers are names and values in turn.
func send(t *testing.T, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or its error counts
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, resp.Header, string(got)
}
