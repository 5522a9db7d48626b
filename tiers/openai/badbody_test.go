package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"
)

// badBody is a body that no backend may see.
type badBody struct {
	name, body string
	code       string // invalid_json by default
	message    string // a part that says what and where
}

const badMessages = `"messages":[{"role":"user","content":"hi"}]`

var badBodies = []badBody{
	{name: "empty", body: ``, message: "empty"},
	{name: "white space", body: " \n\t ", message: "empty"},
	{name: "unclosed", body: `{"model":"llama-3",` + badMessages, message: "at byte 62"},
	{name: "trailing comma", body: `{"model":"llama-3",` + badMessages + `,}`, message: "at byte 6"},
	{name: "single quotes", body: `{'model':'llama-3'}`, message: "at byte 1"},
	{name: "a comment", body: `{"model":"llama-3",/* */` + badMessages + `}`, message: "at byte 19"},
	{name: "BOM", body: "\xef\xbb\xbf" + chatWith(), message: "at byte 0"},
	{name: "UTF-16", body: utf16Of(chatWith()), message: "at byte"},
	{name: "NaN", body: chatWith(`"temperature":NaN`), message: "at byte"},
	{name: "Infinity", body: chatWith(`"top_p":Infinity`), message: "at byte"},
	{name: "leading zero", body: chatWith(`"max_tokens":01`), message: "at byte"},
	{name: "trailing junk", body: chatWith() + "x", message: "at byte 63"},
	{name: "two documents", body: chatWith() + chatWith(), message: "at byte"},
	{name: "two documents on lines", body: chatWith() + "\n" + chatWith(), message: "at byte"},
	{name: "an array", body: "[" + chatWith() + "]", message: "object"},
	{name: "a string", body: `"llama-3"`, message: "object"},
	{name: "null", body: `null`, message: "object"},
	{name: "raw NUL in a string", body: chatWith("\"user\":\"a\x00b\""), message: "at byte"},
	{name: "raw tab in a string", body: chatWith("\"user\":\"a\tb\""), message: "at byte"},
	{name: "raw NUL after the end", body: chatWith() + "\x00", message: "at byte"},
	{name: "invalid UTF-8", body: chatWith("\"user\":\"a\xffb\""), message: "at byte"},
	{name: "overlong UTF-8", body: chatWith("\"user\":\"\xc0\x80\""), message: "at byte"},
	{name: "a raw surrogate", body: chatWith("\"user\":\"\xed\xa0\x80\""), message: "at byte"},
	{name: "a lone high surrogate", body: chatWith(`"user":"\ud800"`), message: "at byte"},
	{name: "a lone low surrogate", body: chatWith(`"user":"\udc00x"`), message: "at byte"},
	{name: "invalid UTF-8 in a name", body: chatWith("\"u\xff\":1"), message: "at byte"},
	{name: "a bad escape", body: chatWith(`"user":"\x41"`), message: "at byte"},
	{name: "invalid UTF-8 in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":"` + "\xf0\x9f\x98" + `"}]}`, message: "/messages/0/content"},

	{name: "depth 65", body: chatWith(`"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), code: "too_deep", message: "deeper than 64 levels at byte 130"},
	{name: "a bomb of arrays", body: strings.Repeat("[", 1<<20), code: "too_deep", message: "at byte 64"},
	{name: "a bomb of objects", body: strings.Repeat(`{"a":`, 200_000), code: "too_deep", message: "at byte 320"},
	{name: "a bomb in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":` + strings.Repeat(`[`, 1<<20), code: "too_deep", message: "at byte"},

	{name: "a duplicate", body: chatWith(`"model":"gpt-9"`), code: "duplicate_key", message: "model"},
	{name: "an escaped duplicate", body: chatWith(`"mod\u0065l":"gpt-9"`), code: "duplicate_key", message: "model"},
	{name: "duplicate messages", body: chatWith(badMessages), code: "duplicate_key", message: "messages"},
	{name: "a duplicate in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":"a","content":"b"}]}`, code: "duplicate_key", message: "/messages/0/content"},
	{name: "a duplicate in an unknown field", body: chatWith(`"x":{"y":[{"z":1,"\u007a":2}]}`), code: "duplicate_key", message: "/x/y/0/z"},
	{name: "Model", body: chatWith(`"Model":"gpt-9"`), code: "duplicate_key", message: "Model"},
	{name: "STREAM", body: chatWith(`"STREAM":true`), code: "duplicate_key", message: "STREAM"},
	{name: "escaped Messages", body: chatWith(`"\u004dessages":[]`), code: "duplicate_key", message: "Messages"},
	{name: "257 fields", body: chatWith(manyFields(255)...), code: "too_many_fields", message: "256"},
	{name: "4,097 messages", body: `{"model":"llama-3","messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, 4096) + `{"role":"user","content":"a"}]}`, code: "invalid_value", message: "4096"},
	{name: "no messages", body: `{"model":"llama-3","messages":[]}`, code: "invalid_value", message: "messages"},
	{name: "a message without a role", body: `{"model":"llama-3","messages":[{"content":"a"}]}`, code: "missing_required_parameter", message: "messages[0]"},
}

func manyFields(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	return out
}

func utf16Of(s string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// chatWith is a small chat request with further members, as raw JSON.
func chatWith(members ...string) string {
	return `{"model":"llama-3",` + badMessages + strings.Join(append([]string{""}, members...), ",") + `}`
}

// check holds that err refuses the body as the row says.
func (bad *badBody) check(t *testing.T, err error) {
	t.Helper()
	code := bad.code
	if code == "" {
		code = "invalid_json"
	}
	refused, ok := errors.AsType[*RequestError](err)
	if !ok || refused.Status != http.StatusBadRequest || refused.Code != code || !strings.Contains(refused.Message, bad.message) {
		t.Errorf("%s: got %+v, want code %q and a message with %q", bad.name, err, code, bad.message)
	}
}

func TestABadBodyIsRefusedWithWhatAndWhere(t *testing.T) {
	for _, bad := range badBodies {
		_, err := Scan(Chat, []byte(bad.body), DefaultLimits())
		bad.check(t, err)
	}
	for _, bad := range []badBody{
		{name: "malformed", body: `{"model":"llama-3"`, message: "at byte 18"},
		{name: "a duplicate", body: `{"model":"llama-3","model":"gpt-9"}`, code: "duplicate_key", message: "model"},
		{name: "Model", body: `{"model":"llama-3","Model":"gpt-9"}`, code: "duplicate_key", message: "Model"},
		{name: "a number for a model", body: `{"model":7}`, code: "invalid_type", message: "a number"},
		{name: "no model", body: `{"prompt":"x"}`, code: "missing_required_parameter", message: "model"},
	} {
		_, err := Peek("/tokenize", []byte(bad.body), DefaultLimits())
		bad.check(t, err)
	}
}

// wrongTypes are values that the known fields must not have.
var wrongTypes = map[string][]string{
	"model":                      {`7`, `null`, `["llama-3"]`, `{}`, `""`},
	"messages":                   {`"hi"`, `{}`, `7`, `null`, `["hi"]`, `[7]`, `[null]`, `[{"role":7}]`, `[{"role":"user","content":7}]`, `[{"role":"user","content":{}}]`, `[{"role":"user","content":["x"]}]`},
	"stream":                     {`"true"`, `1`, `[]`},
	"stream_options":             {`true`, `"x"`, `{"include_usage":"yes"}`, `{"include_usage":1}`},
	"max_tokens":                 {`"5"`, `5.5`, `-1`, `1e400`, `true`, `99999999999`, `[5]`},
	"max_completion_tokens":      {`"5"`, `-1`, `{}`},
	"min_tokens":                 {`"5"`, `-1`, `1.5`},
	"n":                          {`"2"`, `0`, `-1`, `9`, `16384`, `1.5`, `true`},
	"temperature":                {`"0"`, `-0.1`, `2.1`, `1e999`, `[]`, `true`},
	"top_p":                      {`"1"`, `-1`, `1.1`, `{}`},
	"frequency_penalty":          {`"1"`, `-2.1`, `3`},
	"presence_penalty":           {`"1"`, `-2.1`, `3`},
	"repetition_penalty":         {`"1"`, `-1`},
	"stop":                       {`7`, `{}`, `[7]`, `["a",null]`, `true`},
	"seed":                       {`"7"`, `[]`, `1.5`, `true`},
	"logprobs":                   {`"yes"`, `5`, `{}`},
	"top_logprobs":               {`"5"`, `-1`, `1.5`},
	"logit_bias":                 {`"x"`, `[]`, `{"50256":"x"}`},
	"tools":                      {`"x"`, `{}`, `7`},
	"tool_choice":                {`7`, `[]`, `true`},
	"response_format":            {`"json_object"`, `[]`, `true`},
	"structured_outputs":         {`"x"`, `7`},
	"continue_final_message":     {`"yes"`, `1`},
	"add_generation_prompt":      {`"yes"`, `0`},
	"include_stop_str_in_output": {`"yes"`, `[]`},
	"bad_words":                  {`7`, `"x"`},
	"allowed_token_ids":          {`"x"`, `{}`},
}

func TestAWrongTypeOfAKnownFieldIsRefused(t *testing.T) {
	refuses := func(kind Kind, body, name string) {
		t.Helper()
		_, err := Scan(kind, []byte(body), DefaultLimits())
		refused, ok := errors.AsType[*RequestError](err)
		if !ok || refused.Status != http.StatusBadRequest || !strings.HasPrefix(refused.Param, name) {
			t.Errorf("%s: %v", body, err)
			return
		}
		switch refused.Code {
		case "invalid_type", "invalid_value", "missing_required_parameter":
		default:
			t.Errorf("%s: code %q", body, refused.Code)
		}
	}
	for name, values := range wrongTypes {
		for _, value := range values {
			switch name {
			case "model":
				refuses(Chat, `{"model":`+value+`,`+badMessages+`}`, name)
			case "messages":
				refuses(Chat, `{"model":"llama-3","messages":`+value+`}`, name)
			default:
				refuses(Chat, chatWith(`"`+name+`":`+value), name)
			}
		}
	}
	for _, value := range []string{`7`, `null`, `{}`, `[null]`, `[{}]`, `[true]`} {
		refuses(Completion, `{"model":"llama-3","prompt":`+value+`}`, "prompt")
	}
}
