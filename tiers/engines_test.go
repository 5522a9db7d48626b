package tiers

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
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
