package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
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
	{name: "BOM", body: "\xef\xbb\xbf" + chatBody("llama-3"), message: "at byte 0"},
	{name: "UTF-16", body: utf16Of(chatBody("llama-3")), message: "at byte"},
	{name: "NaN", body: chatBody("llama-3", `"temperature":NaN`), message: "at byte"},
	{name: "Infinity", body: chatBody("llama-3", `"top_p":Infinity`), message: "at byte"},
	{name: "leading zero", body: chatBody("llama-3", `"max_tokens":01`), message: "at byte"},
	{name: "trailing junk", body: chatBody("llama-3") + "x", message: "at byte 63"},
	{name: "two documents", body: chatBody("llama-3") + chatBody("llama-3"), message: "at byte"},
	{name: "two documents on lines", body: chatBody("llama-3") + "\n" + chatBody("llama-3"), message: "at byte"},
	{name: "an array", body: "[" + chatBody("llama-3") + "]", message: "object"},
	{name: "a string", body: `"llama-3"`, message: "object"},
	{name: "null", body: `null`, message: "object"},
	{name: "raw NUL in a string", body: chatBody("llama-3", "\"user\":\"a\x00b\""), message: "at byte"},
	{name: "raw tab in a string", body: chatBody("llama-3", "\"user\":\"a\tb\""), message: "at byte"},
	{name: "raw NUL after the end", body: chatBody("llama-3") + "\x00", message: "at byte"},
	{name: "invalid UTF-8", body: chatBody("llama-3", "\"user\":\"a\xffb\""), message: "at byte"},
	{name: "overlong UTF-8", body: chatBody("llama-3", "\"user\":\"\xc0\x80\""), message: "at byte"},
	{name: "a raw surrogate", body: chatBody("llama-3", "\"user\":\"\xed\xa0\x80\""), message: "at byte"},
	{name: "a lone high surrogate", body: chatBody("llama-3", `"user":"\ud800"`), message: "at byte"},
	{name: "a lone low surrogate", body: chatBody("llama-3", `"user":"\udc00x"`), message: "at byte"},
	{name: "invalid UTF-8 in a name", body: chatBody("llama-3", "\"u\xff\":1"), message: "at byte"},
	{name: "a bad escape", body: chatBody("llama-3", `"user":"\x41"`), message: "at byte"},
	{name: "invalid UTF-8 in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":"` + "\xf0\x9f\x98" + `"}]}`, message: "/messages/0/content"},

	{name: "depth 65", body: chatBody("llama-3", `"x":`+strings.Repeat("[", 64)+strings.Repeat("]", 64)), code: "too_deep", message: "deeper than 64 levels at byte 130"},
	{name: "a bomb of arrays", body: strings.Repeat("[", 1<<20), code: "too_deep", message: "at byte 64"},
	{name: "a bomb of objects", body: strings.Repeat(`{"a":`, 200_000), code: "too_deep", message: "at byte 320"},
	{name: "a bomb in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":` + strings.Repeat(`[`, 1<<20), code: "too_deep", message: "at byte"},

	{name: "a duplicate", body: chatBody("llama-3", `"model":"gpt-9"`), code: "duplicate_key", message: "model"},
	{name: "an escaped duplicate", body: chatBody("llama-3", `"mod\u0065l":"gpt-9"`), code: "duplicate_key", message: "model"},
	{name: "duplicate messages", body: chatBody("llama-3", badMessages), code: "duplicate_key", message: "messages"},
	{name: "a duplicate in a message", body: `{"model":"llama-3","messages":[{"role":"user","content":"a","content":"b"}]}`, code: "duplicate_key", message: "/messages/0/content"},
	{name: "a duplicate in an unknown field", body: chatBody("llama-3", `"x":{"y":[{"z":1,"\u007a":2}]}`), code: "duplicate_key", message: "/x/y/0/z"},
	{name: "Model", body: chatBody("llama-3", `"Model":"gpt-9"`), code: "duplicate_key", message: "Model"},
	{name: "STREAM", body: chatBody("llama-3", `"STREAM":true`), code: "duplicate_key", message: "STREAM"},
	{name: "escaped Messages", body: chatBody("llama-3", `"\u004dessages":[]`), code: "duplicate_key", message: "Messages"},
	{name: "257 fields", body: chatBody("llama-3", manyFields(255)...), code: "too_many_fields", message: "256"},
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

func TestABadBodyIsRefusedWithWhatAndWhereAndReachesNoBackend(t *testing.T) {
	g := newGuarded(t)
	t.Run("bodies", func(t *testing.T) {
		for _, bad := range badBodies {
			t.Run(bad.name, func(t *testing.T) {
				t.Parallel()
				code := bad.code
				if code == "" {
					code = "invalid_json"
				}
				g.refuse(t, chat, []byte(bad.body), 400, code, bad.message)
			})
		}
		t.Run("10 GB by its length", func(t *testing.T) { t.Parallel(); testHugeLength(t, g) })
		t.Run("5 MiB in chunks", func(t *testing.T) { t.Parallel(); testHugeChunks(t, g) })
	})
	t.Run("passed through", func(t *testing.T) {
		for _, bad := range []badBody{
			{name: "malformed", body: `{"model":"llama-3"`, message: "at byte 18"},
			{name: "a duplicate", body: `{"model":"llama-3","model":"gpt-9"}`, code: "duplicate_key", message: "model"},
			{name: "an escaped duplicate", body: `{"model":"llama-3","mod\u0065l":"gpt-9"}`, code: "duplicate_key", message: "model"},
			{name: "a deep duplicate", body: `{"model":"llama-3","x":[{"a":1,"a":2}]}`, code: "duplicate_key", message: "/x/0/a"},
			{name: "Model", body: `{"model":"llama-3","Model":"gpt-9"}`, code: "duplicate_key", message: "Model"},
			{name: "a bomb", body: strings.Repeat("[", 1<<20), code: "too_deep", message: "at byte 64"},
			{name: "a number for a model", body: `{"model":7}`, code: "invalid_type", message: "a number"},
			{name: "no model", body: `{"prompt":"x"}`, code: "missing_required_parameter", message: "model"},
			{name: "two documents", body: `{"model":"llama-3"}{}`, message: "at byte"},
		} {
			t.Run(bad.name, func(t *testing.T) {
				t.Parallel()
				code := bad.code
				if code == "" {
					code = "invalid_json"
				}
				g.refuse(t, "/tokenize", []byte(bad.body), 400, code, bad.message)
			})
		}
	})
	g.untouched(t)
}

// testHugeLength names ten gigabytes and sends none: the answer comes at once.
func testHugeLength(t *testing.T, g *guarded) {
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	began := time.Now()
	_ = conn.SetDeadline(began.Add(4 * time.Second)) // before the body could be called slow
	if _, err := io.WriteString(conn, "POST "+chat+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10737418240\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 413" {
		t.Errorf("got %q, %v after %v", head, err, time.Since(began))
	}
}

// testHugeChunks sends more than the limit without saying so.
func testHugeChunks(t *testing.T, g *guarded) {
	var b bytes.Buffer
	b.WriteString("POST " + chat + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range 80 {
		fmt.Fprintf(&b, "10000\r\n%s\r\n", strings.Repeat(" ", 1<<16))
	}
	b.WriteString("0\r\n\r\n")
	got := raw(t, g.addr, b.Bytes())
	if len(got.replies) != 1 || got.replies[0].status != 413 || !got.closed {
		t.Errorf("got %+v", got)
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

func TestAWrongTypeOfAKnownFieldIsRefusedAndReachesNoBackend(t *testing.T) {
	g := newGuarded(t)
	for name, values := range wrongTypes {
		for _, value := range values {
			body := chatBody("llama-3", `"`+name+`":`+value)
			switch name {
			case "model":
				body = `{"model":` + value + `,` + badMessages + `}`
			case "messages":
				body = `{"model":"llama-3","messages":` + value + `}`
			}
			status, head, got := send(t, "POST", g.base+chat, body)
			if status != 400 || !strings.Contains(got, name) {
				t.Errorf("%s = %s: status %d: %.300s", name, value, status, got)
				continue
			}
			code := "invalid_type"
			for _, other := range []string{"invalid_value", "missing_required_parameter"} {
				if strings.Contains(got, other) {
					code = other
				}
			}
			checkError(t, head, got, &refusal{kind: "invalid_request_error", code: code})
		}
	}
	for _, value := range []string{`7`, `null`, `{}`, `[null]`, `[{}]`, `[true]`} {
		if status, _, got := send(t, "POST", g.base+"/v1/completions", `{"model":"llama-3","prompt":`+value+`}`); status != 400 || !strings.Contains(got, "prompt") {
			t.Errorf("prompt = %s: status %d: %.300s", value, status, got)
		}
	}
	g.untouched(t)
}
