package engines

import (
	"fmt"
	"testing"
)

// countedMessages are members of requests whose tokens are counted.
var countedMessages = map[string]string{
	"plain":  `"messages":[{"role":"user","content":"What is the capital of France?"}]`,
	"turns":  `"system":[{"type":"text","text":"You are a pirate."}],"messages":[{"role":"user","content":"Who are you?"},{"role":"assistant","content":[{"type":"text","text":"A pirate: 日本語 😀"}]},{"role":"user","content":[{"type":"text","text":"And where is your ship?"}]}]`,
	"a tool": `"messages":[{"role":"user","content":"What is the weather in Rome?"}],"tools":[{"name":"weather","description":"Tells the weather","input_schema":` + weather + `}]`,
}

// TestTheTokensOfAMessageAreThoseOfItsAnswer compares counts with what the engine tells of the prompt when it answers it, and
// with its own counts where it has them.
func TestTheTokensOfAMessageAreThoseOfItsAnswer(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{relayOnly: true})
		for kind, members := range countedMessages {
			if kind == "a tool" && p.target.Kind == VLLM {
				continue // it takes tools only with a parser of calls, for counts, too
			}
			var counted, own, answered struct {
				Tokens int `json:"input_tokens"`
				Usage  struct {
					Tokens int `json:"input_tokens"`
					Cached int `json:"cache_read_input_tokens"`
				}
			}
			const path = "/v1/messages/count_tokens"
			if err := askJSON(t.Context(), "POST", r.URL+path, fmt.Sprintf(`{"model":"off",%s}`, members), &counted); err != nil {
				t.Fatal(err)
			}
			if err := askJSON(t.Context(), "POST", p.target.URL+path, fmt.Sprintf(`{"model":%q,"max_tokens":1,%s}`, p.target.Model, members), &own); err != nil {
				t.Fatal(err)
			}
			if err := askJSON(t.Context(), "POST", r.URL+paths["messages"], fmt.Sprintf(`{"model":"off","max_tokens":1,%s}`, members), &answered); err != nil {
				t.Fatal(err)
			}
			read := answered.Usage.Tokens + answered.Usage.Cached
			if counted.Tokens == 0 || counted.Tokens != read || counted.Tokens != own.Tokens {
				t.Errorf("%s: %d tokens; the engine itself counts %d, and reads %d", kind, counted.Tokens, own.Tokens, read)
			}
		}
	})
}
