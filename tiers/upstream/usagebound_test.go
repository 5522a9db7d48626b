package upstream

import (
	"testing"

	"github.com/foregate/foregate/tiers/openai"
)

func TestUsageIsCutByWhatItsCallCanHaveUsed(t *testing.T) {
	absurd := openai.Usage{Prompt: 1e12, Completion: 1e12, Cached: 1e12}
	const body, thoughtless, hidden = `{"messages":[]}`, `{"include_reasoning":false}`, `{"include_\u0072easoning":false}`
	can := func(prompt, answer int) openai.Usage {
		return openai.Usage{Prompt: prompt, Completion: answer, Cached: prompt}
	}
	for name, tc := range map[string]struct {
		sent           string
		prompt, answer int
		came           int64
		said           int
		want           openai.Usage
	}{
		"in one piece":                            {body, 0, 50, inOnePiece, 0, can(openai.MaxPromptTokens([]byte(body)), 50)},
		"a stream":                                {body, 0, 5000, 700, 0, can(openai.MaxPromptTokens([]byte(body)), 700)},
		"a stream that has come":                  {body, 0, 50, 0, 0, can(openai.MaxPromptTokens([]byte(body)), 0)},
		"a stream beyond its limit":               {body, 0, 50, 700, 0, can(openai.MaxPromptTokens([]byte(body)), 50)},
		"a stream without its thoughts":           {thoughtless, 0, 5000, 700, 0, can(openai.MaxPromptTokens([]byte(thoughtless)), 5000)},
		"a stream that hides that it is without":  {hidden, 0, 5000, 700, 0, can(openai.MaxPromptTokens([]byte(hidden)), 5000)},
		"no text":                                 {body, 0, 0, inOnePiece, 0, can(openai.MaxPromptTokens([]byte(body)), 0)},
		"an engine that goes on behind the limit": {body, 0, 50, inOnePiece, 300, can(openai.MaxPromptTokens([]byte(body)), 300)},
		"a stream that does":                      {body, 0, 50, 700, 300, can(openai.MaxPromptTokens([]byte(body)), 300)},
		"known prompts":                           {body, 77, 0, inOnePiece, 0, can(77, 0)},
	} {
		b := usageBound{sent: []byte(tc.sent), prompt: tc.prompt, answer: tc.answer}
		for range 2 { // what was looked for is remembered
			if got := b.clamp(absurd, tc.came, tc.said); got != tc.want {
				t.Errorf("%s: %+v, want %+v", name, got, tc.want)
			}
		}
		if got := b.clamp(openai.Usage{Prompt: -1e12, Completion: -1}, inOnePiece, tc.said); got != (openai.Usage{Completion: openai.EstimateTokens(tc.said)}) {
			t.Errorf("%s: %+v of less than nothing", name, got)
		}
	}
	b := usageBound{sent: []byte(body), answer: 50}
	if got := b.clamp(openai.Usage{Prompt: len(body), Completion: 9}, 9, 0); got != (openai.Usage{Prompt: len(body), Completion: 9}) || b.searched {
		t.Errorf("%+v; looked through: %v", got, b.searched)
	}
}
