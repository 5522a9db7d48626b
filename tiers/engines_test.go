package tiers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/scoring"
)

// Engines differ in what they tell of an answer while they write it. These tests are of those that tell less than vLLM.

func TestTheTokenThatEndsADraftNeedsNoLogprob(t *testing.T) {
	brief := []string{ // what has answers of less than ten tokens
		`,"structured_outputs":{"choice":["yes","no"]}`, `,"structured_outputs":{"choice":["yes, it is","no, it is not"]}`,
		`,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}}`,
		`,"tools":[{"type":"function","function":{"name":"go","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required"`,
	}
	for feature, most := range map[string]int{"end_logprob": 0, "logprobs": 2 * len(brief)} {
		r := probedRig(t, vllmsim.Options{Seed: 7, Without: []string{feature}}, vllmsim.Options{})
		r.cfg.Accept.Threshold = -15
		refused := 0
		for i := range 2 * len(brief) {
			body := chat("Is it?", fmt.Sprintf(`%s,"max_tokens":200,"stream":%v`, brief[i/2], i%2 == 0))
			got, rc, err := r.ask(openai.Chat, Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if rc.Tier != Draft {
				refused++
				t.Logf("%s: %s", body, rc.Acceptance())
			}
			if want := r.own(body); got.text != want.text || got.usage.Prompt > 0 && want.usage.Prompt > 0 && got.usage != want.usage {
				t.Errorf("%s\n got %q, %+v\nwant %q, %+v", body, got.text, got.usage, want.text, want.usage)
			}
		}
		if refused != most {
			t.Errorf("without %s: %d of %d short answers refused, want %d", feature, refused, 2*len(brief), most)
		}
	}
}

// TestWhatARequestAsksOfAnEngineIsAskedBehindTheSeamToo: a continuation by ids is a body of its own. What it cannot say is
// continued by text, which keeps the request's.
func TestWhatARequestAsksOfAnEngineIsAskedBehindTheSeamToo(t *testing.T) {
	for field, way := range map[string]string{
		`"top_k":40`: "ids", `"min_p":0.05`: "ids", `"stop_token_ids":[7]`: "ids", `"repetition_penalty":1.0`: "ids",
		`"reasoning_effort":"low"`: "", `"metadata":{"a":"b"}`: "", `"typical_p":null`: "", // nothing that a continuation by ids would miss
		`"typical_p":0.9`: "text", `"stop_regex":"[0-9]+"`: "text", `"thinking_token_budget":64`: "text",
		`"repetition_detection":{"max_pattern_size":4}`: "text", `"a_field_of_next_year":1`: "text",
	} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk)
			for i := range 20 { // and cut
				say(w, spoken(fmt.Sprintf(" w%d", i), fmt.Sprint(100+i), -0.01, ""))
			}
		})
		target := newScripted(t, ending)
		if _, _, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, Auto, chat("Hello", `,"stream":true,"max_tokens":100,`+field)); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		asked := target.asked(1) // the first is about the model
		if byIDs := strings.Contains(asked, `"prompt":[`); byIDs != (way != "text") || way != "" && !strings.Contains(asked, field) {
			t.Errorf("%s: continued with %s", field, asked)
		}
	}
}

func TestLawsThatThinningDoesNotKnowAreTheTargets(t *testing.T) {
	for field, want := range map[string]string{"typical_p": "sampled_fields", "stop_regex": "sampled_fields", "metadata": ""} {
		req, err := openai.Scan(openai.Chat, []byte(chat("Hello", `,"`+field+`":{}`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		req.Temperature = 1
		got := thinLacks(Config{Sampled: true, MaxPrompt: 1000, Scoring: scoring.Config{AtOnce: 1, MostTokens: 8192}}, Facts{Request: req})
		if (got == "sampled_fields") != (want != "") {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
