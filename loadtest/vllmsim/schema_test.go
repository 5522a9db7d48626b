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
		{completions, `{"model":"nope","prompt":[1,-1]}`, `'loc': ('body', 'prompt', 1), 'msg': 'Input should be greater than or equal to 0'`},
		{completions, `{"prompt":[[1],[2,-7]]}`, `'loc': ('body', 'prompt', 1, 1)`},
		{completions, `{"prompt":"x","truncate_prompt_tokens":-2}`, `'loc': ('body', 'truncate_prompt_tokens'), 'msg': 'Input should be greater than or equal to -1'`},
		{completions, `{"prompt":"x","truncation_side":"top"}`, `'loc': ('body', 'truncation_side'), 'msg': \"Input should be 'left' or 'right'\"`},
		{completions, `{"PROMPT":"x"}`, `'missing', 'loc': ('body', 'prompt')`},
		{completions, `{"prompt":"x","n":1.5}`, `'int_from_float', 'loc': ('body', 'n')`},
		{completions, `{"prompt":"x","n":1e30}`, `'int_parsing_size', 'loc': ('body', 'n')`},
		{completions, `{"prompt":"x","n":true}`, `'int_type', 'loc': ('body', 'n'), 'msg': 'Input should be a valid integer'`},
		{completions, `{"prompt":"x","temperature":"hot"}`, `'float_parsing', 'loc': ('body', 'temperature')`},
		{completions, `{"prompt":"x","temperature":[]}`, `'float_type', 'loc': ('body', 'temperature')`},
		{completions, `{"prompt":"x","stream":"perhaps"}`, `'bool_type', 'loc': ('body', 'stream')`},
		{completions, `{"prompt":"x"} {}`, `'json_invalid'`},
		{completions, `[1]`, `'dict_type', 'loc': ('body',)`},
		{chat, `{"messages":[{"role":"user","content":"a"},{"content":"b"}]}`, `'missing', 'loc': ('body', 'messages', 1, 'role')`},
		{chat, `{"messages":[{"ROLE":"user","content":"a"}]}`, `'missing', 'loc': ('body', 'messages', 0, 'role')`},
		{chat, `{"messages":[null]}`, `'role'`},
		{chat, `{"messages":{"role":"user"}}`, `'list_type', 'loc': ('body', 'messages')`},
		{chat, `{"Messages":[{"role":"user","content":"a"}]}`, `'missing', 'loc': ('body', 'messages')`},
		{"/tokenize", `{"messages":[{"content":"a"}]}`, `'role'`},
		{"/detokenize", `{"TOKENS":[1]}`, `'missing', 'loc': ('body', 'tokens')`},
		{"/inference/v1/generate", `{"token_ids":[1],"sampling_params":{"n":"x"}}`, `'loc': ('body', 'sampling_params', 'n')`},
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
		fmt.Sprintf(plain, `"5"`):                  5,
		fmt.Sprintf(plain, `6.0`):                  6,
		fmt.Sprintf(plain, `7e0,"seed":"8"`):       7,
		fmt.Sprintf(plain, `"8.0","top_p":"0.5"`):  8,
	} {
		if got := ask(t, s, "/v1/completions", body).Usage.CompletionTokens; got != tokens {
			t.Errorf("%s: %d tokens", body, got)
		}
	}
	status, got := post(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"TYPE":"text","type":"text","text":"a"}]}],"max_tokens":1}`)
	expect(t, got, status, 200)
}

func TestPromptsAreTruncatedOnTheSideAskedFor(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, MaxModelLen: 20})
	long := string(appendIDs(nil, ids(300, 30)))
	for _, c := range []struct {
		how  string
		want []int32
	}{
		{`"truncate_prompt_tokens":4`, ids(326, 4)},
		{`"truncate_prompt_tokens":4,"truncation_side":"left"`, ids(326, 4)},
		{`"truncate_prompt_tokens":4,"truncation_side":"right"`, ids(300, 4)},
		{`"truncate_prompt_tokens":-1`, ids(315, 15)}, // 5 tokens are asked for
		{`"truncate_prompt_tokens":-1,"truncation_side":"right"`, ids(300, 15)},
	} {
		a := ask(t, s, "/v1/completions", `{"prompt":`+long+`,"max_tokens":5,"return_token_ids":true,`+c.how+`}`)
		expect(t, c.how+" keeps", a.Usage.PromptTokens, len(c.want))
		_, body := post(t, s, "/v1/completions/render", `{"prompt":`+long+`,"max_tokens":5,`+c.how+`}`)
		if !strings.Contains(body, `"token_ids":`+string(appendIDs(nil, c.want))) {
			t.Errorf("%s: %s", c.how, body)
		}
	}
	for how, says := range map[string]string{
		`"truncate_prompt_tokens":16`:                 "truncate_prompt_tokens=16 cannot be greater than max_model_len - max_tokens = 15",
		`"truncate_prompt_tokens":0`:                  "cannot be empty",
		`"truncate_prompt_tokens":-1,"max_tokens":21`: "max_tokens=21 cannot be greater than max_model_len=20",
		`"truncate_prompt_tokens":-1,"max_tokens":0`:  "max_tokens must be at least 1",
	} {
		status, got := post(t, s, "/v1/completions", `{"prompt":`+long+`,"max_tokens":5,`+how+`}`)
		if status != 400 || !strings.Contains(got, says) {
			t.Errorf("%s: %d %s", how, status, got)
		}
	}
}
