package vllmsim

import (
	"fmt"
	"strings"
	"testing"
)

// What vLLM's request models refuse, they refuse as a whole, before the model's name is looked at.
func TestTheSchemaIsVLLMs(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	const completions, chat = "/v1/completions", "/v1/chat/completions"
	for _, c := range [][3]string{
		{completions, `{"model":"nope","prompt":[1,-1]}`, `'loc': 'body.prompt.1', 'msg': 'Input should be greater than or equal to 0'`},
		{completions, `{"prompt":[[1],[2,-7]]}`, `'loc': 'body.prompt.1.1'`},
		{completions, `{"prompt":"x","n":1.5}`, `'loc': 'body.n'`},
		{completions, `{"prompt":"x"} {}`, `'json_invalid'`},
		{chat, `{"messages":[{"role":"user","content":"a"},{"content":"b"}]}`, `'missing', 'loc': 'body.messages.1.role'`},
		{chat, `{"messages":[{"ROLE":"user","content":"a"}]}`, `'missing', 'loc': 'body.messages.0.role'`},
		{chat, `{"messages":[null]}`, `.role'`},
		{chat, `{"messages":{"role":"user"}}`, `'loc': 'body.messages'`},
		{chat, `{"Messages":[{"role":"user","content":"a"}]}`, `'missing', 'loc': 'body.messages'`},
		{"/tokenize", `{"messages":[{"content":"a"}]}`, `.role'`},
		{"/detokenize", `{"TOKENS":[1]}`, `'missing', 'loc': 'body.tokens'`},
	} {
		status, got := post(t, s, c[0], c[1])
		if status != 400 || !strings.Contains(got, `"type":"Bad Request"`) || !strings.Contains(got, c[2]) {
			t.Errorf("%s: %d %s", c[1], status, got)
		}
	}
}

// A name in another case is a field that nobody knows, and ignored.
func TestNamesOfFieldsHaveOneCase(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	const plain = `{"prompt":"go on","ignore_eos":true,"max_tokens":%s}`
	for body, tokens := range map[string]int{
		fmt.Sprintf(plain, `3`):                    3,
		fmt.Sprintf(plain, `3,"MAX_TOKENS":5`):     3,
		fmt.Sprintf(plain, `3,"PROMPT":7,"N":"x"`): 3,
		fmt.Sprintf(plain, `3,"max_tokens":4`):     4, // the last of two counts, as in Python
	} {
		if got := ask(t, s, "/v1/completions", body).Usage.CompletionTokens; got != tokens {
			t.Errorf("%s: %d tokens", body, got)
		}
	}
	status, got := post(t, s, "/v1/completions", `{"PROMPT":"x"}`)
	if status != 400 || !strings.Contains(got, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)") {
		t.Errorf("a prompt in another case: %d %s", status, got)
	}
	status, got = post(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"TYPE":"text","type":"text","text":"a"}]}],"max_tokens":1}`)
	expect(t, got, status, 200)
}
