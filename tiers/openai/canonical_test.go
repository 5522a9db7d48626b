package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// permissive are limits under which every field that may be allowed is.
func permissive() Limits {
	lim := DefaultLimits()
	lim.Allow = func(string) []string {
		return append(AllowableFields(), Kwargs+".a", Kwargs+".b", Kwargs+".style")
	}
	return lim
}

func canonicalOf(t *testing.T, kind Kind, body string) string {
	t.Helper()
	r, err := Scan(kind, []byte(body), permissive())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	out, err := r.Canonical(nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	sameDigest(t, r, out)
	return string(out)
}

// sameDigest checks that the request's digest is the hash of its canonical form.
func sameDigest(t *testing.T, r *Request, canonical []byte) {
	t.Helper()
	want := sha256.Sum256(append([]byte(digestContext), canonical...))
	if got, err := r.Digest(); err != nil || got != want {
		t.Fatalf("digest %x, want %x of %s: %v", got, want, canonical, err)
	}
}

func TestTheDigestOfARequestStaysTheSame(t *testing.T) {
	r := scanChat(t, `{"messages":[{"role":"user","content":"hi\u0021"}],"temperature":0.5,"model":"m"}`)
	const want = "68bad3787bb83973957fbc80c1818eec36c972ebf5d0edfca3e1ffba46789fab"
	if got, err := r.Digest(); err != nil || fmt.Sprintf("%x", got) != want {
		t.Errorf("digest %x, want %s (%v): then digestContext must change", got, want, err)
	}
}

// spelt is a field with values that are all different, and other spellings of the first.
type spelt struct {
	values []string
	same   []string
}

// spellings has every field that the gateway reads or may let pass, and some that it knows nothing of.
var spellings = map[string]spelt{
	"model":                 {[]string{`"m"`, `"M"`, `"m "`, `"ｍ"`}, []string{`"\u006d"`}},
	"max_tokens":            {[]string{`5`, `6`, `null`}, []string{"\n5"}},
	"max_completion_tokens": {[]string{`5`, `6`}, nil},
	"min_tokens":            {[]string{`5`, `6`, `0`}, nil},
	"n":                     {[]string{`1`, `2`}, nil},
	"best_of":               {[]string{`1`, `2`}, nil},
	"stop":                  {[]string{`["a","b"]`, `["b","a"]`, `["a"]`, `"a"`, `"a\n"`, `[]`}, []string{"[ \"\\u0061\" ,\t\"b\"]"}},
	"seed":                  {[]string{`9223372036854775807`, `9223372036854775806`, `-9223372036854775808`, `0`}, nil},
	"temperature":           {[]string{`0.5`, `0.50000000000000011102230246251565404236316680908203125`[:38], `0.25`, `0`, `0.0`, `1`, `1.0`}, []string{`0.50`, `5e-1`, `5E-1`, `0.05e1`, `500.0e-3`}},
	"top_p":                 {[]string{`0.9`, `0.95`, `1`}, []string{`9e-1`}},
	"frequency_penalty":     {[]string{`0.1`, `-0.1`, `0`}, []string{`1e-1`}},
	"presence_penalty":      {[]string{`0.1`, `-0.1`, `0`}, []string{`1e-1`}},
	"repetition_penalty":    {[]string{`1.1`, `1.2`, `1`}, []string{`11e-1`}},
	"logit_bias":            {[]string{`{"1":5,"2":6}`, `{"1":6,"2":5}`, `{"1":5}`, `{"1":5.0,"2":6}`, `{}`}, []string{`{"2":6,"1":5}`, `{ "\u0031" : 5 , "2":6}`}},
	"bad_words":             {[]string{`["a","b"]`, `["b","a"]`, `[]`}, nil},
	"allowed_token_ids":     {[]string{`[1,2]`, `[2,1]`, `[12]`}, []string{`[ 1 , 2 ]`}},
	"tools": {[]string{
		`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"default":1},"b":{}}}}}]`,
		`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"b":{},"a":{"default":1}}}}}]`, // prompts show the order
		`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"default":1.0},"b":{}}}}}]`,
		`[{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{"a":{"default":1},"b":{}}}}}]`,
	}, []string{`[{"function":{"parameters":{"type":"object","properties":{"a":{"default":1},"b":{}}},"name":"f"},"type":"function"}]`}},
	"functions":   {[]string{`[{"name":"f","description":"x"}]`, `[{"name":"g","description":"x"}]`}, []string{`[{"description":"x","name":"f"}]`}},
	"tool_choice": {[]string{`{"type":"function","function":{"name":"f"}}`, `{"type":"function","function":{"name":"g"}}`, `"auto"`, `"none"`}, []string{`{"function":{"name":"f"},"type":"function"}`}},
	"response_format": {[]string{
		`{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{"a":{},"b":{}}}}}`,
		`{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{"b":{},"a":{}}}}}`, // the answer has this order
		`{"type":"json_object"}`, `{"type":"text"}`,
	}, []string{`{"json_schema":{"schema":{"properties":{"a":{},"b":{}}},"name":"s"},"type":"json_schema"}`}},
	"structured_outputs":         {[]string{`{"regex":"a+","whitespace_pattern":" "}`, `{"regex":"a*","whitespace_pattern":" "}`, `{"choice":["a","b"]}`, `{"choice":["b","a"]}`}, []string{`{"whitespace_pattern":" ","regex":"\u0061+"}`}},
	"continue_final_message":     {[]string{`true`, `false`}, nil},
	"add_generation_prompt":      {[]string{`true`, `false`}, nil},
	"include_stop_str_in_output": {[]string{`true`, `false`}, nil},
	"top_logprobs":               {[]string{`1`, `2`}, nil},
	"logprobs":                   {[]string{`true`, `false`}, nil},

	"chat_template":        {[]string{`"a"`, `"b"`}, nil},
	"chat_template_kwargs": {[]string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":1}`, `{"enable_thinking":true}`, `{"enable_thinking":false}`}, []string{`{ "a": 1, "b": 2 }`}},
	"documents":            {[]string{`[{"title":"a","text":"b"}]`, `[{"text":"b","title":"a"}]`, `[{"title":"b","text":"a"}]`}, []string{`[{"title" : "a","text":"\u0062"}]`}},
	"media_io_kwargs":      {[]string{`{"a":1}`, `{"a":2}`}, nil},
	"mm_processor_kwargs":  {[]string{`{"a":1}`, `{"a":2}`}, nil},
	"prompt_logprobs":      {[]string{`1`, `2`}, nil},
	"prompt_embeds":        {[]string{`"a"`, `"b"`}, nil},
	"echo":                 {[]string{`true`}, nil},
	"return_prompt_text":   {[]string{`true`}, nil},
	"return_token_ids":     {[]string{`true`}, nil},
	"logprob_token_ids":    {[]string{`[1]`, `[2]`}, nil},
	"stop_regex":           {[]string{`"a+"`, `["a+"]`, `"a*"`}, []string{`"\u0061+"`}},
	"use_beam_search":      {[]string{`true`}, nil},

	"logprob_start_len":        {[]string{`1`, `2`}, nil},
	"enable_response_messages": {[]string{`true`}, nil},
	"return_prompt_token_ids":  {[]string{`true`}, nil},
	"token_ids_logprob":        {[]string{`[1]`, `[2]`}, nil},

	"top_k":             {[]string{`5`, `6`, `-1`}, nil},
	"min_p":             {[]string{`0.1`, `0.2`}, []string{`10e-2`}},
	"guided_regex":      {[]string{`"a+"`, `"a*"`}, []string{`"\u0061+"`}},
	"guided_choice":     {[]string{`["a","b"]`, `["b","a"]`}, []string{`["\u0061", "b"]`}},
	"guided_grammar":    {[]string{`"root ::= a"`, `"root ::= b"`}, nil},
	"regex":             {[]string{`"a+"`, `"a*"`}, []string{`"\u0061+"`}},
	"ebnf":              {[]string{`"root ::= a"`, `"root ::= b"`}, nil},
	"grammar":           {[]string{`"root ::= a"`, `"root ::= b"`}, nil},
	"json_schema":       {[]string{`"{\"type\":\"object\"}"`, `"{\"type\":\"array\"}"`}, nil},
	"structural_tag":    {[]string{`{"a":1}`, `{"a":2}`}, nil},
	"guided_json":       {[]string{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, `{"a":1,"b":[2,1]}`, `{"a":1,"b":[12]}`}, []string{`{"\u0061" : 1, "b" : [1 , 2]}`}},
	"reasoning_effort":  {[]string{`"low"`, `"high"`, `null`}, []string{`"lo\u0077"`}},
	"x_unknown":         {[]string{`{"a":{"b":[null,true,-0]}}`, `{"a":{"b":[null,true,0]}}`, `{"a":{"b":[null,true,-0.0]}}`, `{"a":{"b":[null,true,0.0]}}`, `{"a":{"b":[null,false,-0]}}`, `{"a":{"b":["null",true,-0]}}`}, nil},
	"x_large":           {[]string{`1e400`, `1e500`, `-1e400`, `1.7976931348623157e308`, `123456789012345678901234567890`, `123456789012345678901234567891`, `1.2345678901234568e29`}, nil},
	"x_text":            {[]string{`"é"`, "\"e\u0301\"", `"\\u00e9"`, `"\u0000"`, `"\\"`, `"\""`, `"<"`, `"\u2028"`, `"\t"`, `"\b\f\n\r"`}, []string{`"\u00e9"`, `"\u00E9"`}},
	"x_slash":           {[]string{`"a/b"`, `"a\\/b"`}, []string{`"a\/b"`, `"a\u002fb"`, `"a\u002Fb"`}},
	"x_control":         {[]string{`"\u001f\n"`, `"\u001e\n"`}, []string{`"\u001F\u000a"`}},
	"x_pair":            {[]string{`"😀"`, `"😁"`}, []string{`"\ud83d\ude00"`, `"\uD83D\uDE00"`}},
	`"x, quoted\u0021"`: {[]string{`1`, `2`}, nil},
}

// fixed are the fields that every request of the tests has.
func fixed(kind Kind) map[string]string {
	if kind == Completion {
		return map[string]string{"model": `"m"`, "prompt": `"hi"`}
	}
	return map[string]string{"model": `"m"`, "messages": `[{"role":"user","content":"hi"}]`}
}

// bodyOf writes a request, its members in the order of their names or in reverse.
func bodyOf(fields map[string]string, reversed bool, space string) string {
	names := slices.Sorted(maps.Keys(fields))
	if reversed {
		slices.Reverse(names)
	}
	parts := make([]string, 0, len(names))
	for _, name := range names {
		quoted := name
		if name[0] != '"' {
			quoted = strconv.Quote(name)
		}
		parts = append(parts, space+quoted+space+":"+space+fields[name]+space)
	}
	return space + "{" + strings.Join(parts, ",") + "}" + space
}

func TestEachFieldIsInTheCanonicalForm(t *testing.T) {
	for name := range readers {
		if _, ok := spellings[name]; !ok && name != "messages" && name != "prompt" && !slices.Contains(Ephemeral, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, f := range FieldTable {
		if _, ok := spellings[f.Name]; !ok && f.Verdict == FieldRefused {
			t.Errorf("%s is not in the table", f.Name)
		}
	}
	for name, s := range spellings {
		kinds := []Kind{Chat, Completion}
		if name == "logprobs" { // a number in completions
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			checkSpellings(t, kind, name, s)
		}
	}
}

func checkSpellings(t *testing.T, kind Kind, name string, s spelt) {
	t.Helper()
	fields := fixed(kind)
	seen := map[string]string{}
	if _, ok := fields[name]; !ok {
		seen[canonicalOf(t, kind, bodyOf(fields, false, ""))] = "none"
	}
	for i, value := range s.values {
		fields[name] = value
		got := canonicalOf(t, kind, bodyOf(fields, false, ""))
		if was, ok := seen[got]; ok {
			t.Errorf("%s: %s and %s are one request: %s", name, was, value, got)
		}
		seen[got] = value
		if spaced := canonicalOf(t, kind, bodyOf(fields, true, " \r\n\t")); spaced != got {
			t.Errorf("%s: with white space and in another order\n%s\nis not\n%s", name, spaced, got)
		}
		if i > 0 {
			continue
		}
		for _, other := range s.same {
			fields[name] = other
			if again := canonicalOf(t, kind, bodyOf(fields, false, "")); again != got {
				t.Errorf("%s: %s is not %s:\n%s\n%s", name, other, value, again, got)
			}
		}
	}
}

func TestEachPartOfAPromptIsInTheCanonicalForm(t *testing.T) {
	for name, c := range map[string]struct {
		kind Kind
		spelt
	}{
		"messages": {Chat, spelt{[]string{
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`,
			`[{"role":"assistant","content":"b"},{"role":"user","content":"a"}]`,
			`[{"role":"user","content":"b"},{"role":"assistant","content":"a"}]`,
			`[{"role":"system","content":"a"},{"role":"assistant","content":"b"}]`,
			`[{"role":"user","content":"ab"}]`,
			`[{"role":"user","content":"a","name":"x"},{"role":"assistant","content":"b"}]`,
			`[{"role":"user","content":null},{"role":"assistant","content":"b"}]`,
			`[{"role":"user"},{"role":"assistant","content":"b"}]`,
		}, []string{`[{"content":"\u0061","role":"user"},{"content":"b","r\u006fle":"assistant"}]`}}},
		"messages of parts": {Chat, spelt{[]string{
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"a"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"ab"}]}]`,
			`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,x"}}]}]`,
			`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,y"}}]}]`,
		}, []string{`[{"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}],"role":"user"}]`}}},
		"messages of calls": {Chat, spelt{[]string{
			`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1,\"b\":2}"}}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\":2,\"a\":1}"}}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1,"b":2}}}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"b":2,"a":1}}}]}]`,
			`[{"role":"assistant","tool_calls":[{"id":"2","type":"function","function":{"name":"f","arguments":"{\"a\":1,\"b\":2}"}}]}]`,
		}, []string{`[{"tool_calls":[{"function":{"name":"f","arguments":"{\u0022a\u0022:1,\"b\":2}"},"type":"function","id":"1"}],"role":"assistant"}]`}}},
		"prompt": {Completion, spelt{[]string{`"a"`, `"b"`, `["a"]`, `["a","b"]`, `["b","a"]`, `[1,2]`, `[12]`, `[[1],[2]]`, `[[1,2]]`}, []string{`"\u0061"`}}},
	} {
		field, _, _ := strings.Cut(name, " ")
		checkSpellings(t, c.kind, field, c.spelt)
	}
}

func TestWhatIsNotSentOnOrChangesNoAnswerIsNotInTheCanonicalForm(t *testing.T) {
	sent := fixed(Chat)
	want := canonicalOf(t, Chat, bodyOf(sent, false, ""))
	for name, value := range map[string]string{
		"stream": `true`, "stream_options": `{"include_usage":true}`, "user": `"u"`,
		"echo": `false`, "documents": `[]`, "prompt_logprobs": `null`, "background": `false`,
	} {
		sent[name] = value
	}
	for _, f := range FieldTable {
		if f.Verdict == FieldStripped {
			sent[f.Name] = `"x"`
		}
	}
	for _, name := range Ephemeral {
		if _, ok := sent[name]; !ok {
			t.Errorf("%s is not in the test", name)
		}
	}
	if got := canonicalOf(t, Chat, bodyOf(sent, false, "")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestABodyThatWasChangedHasNoCanonicalForm(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"x":[1,"a",1.5,null]}`)
	r, err := Scan(Chat, body, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		was := body[i]
		for _, b := range []byte(`"\{}[],:x0 `) {
			body[i] = b
			_, _ = r.Digest() // must not panic
			out, err := r.Canonical([]byte("before"))
			if !bytes.HasPrefix(out, []byte("before")) || err != nil && len(out) != len("before") {
				t.Fatalf("byte %d: %s, %v", i, out, err)
			}
		}
		body[i] = was
	}
}

func TestOnlyAnswersThatSayAllAreShared(t *testing.T) {
	for body, want := range map[string]string{
		`"n":2,"seed":1,"tools":[{}],"response_format":{"type":"json_object"}`: "",
		`"logprobs":true`:                   "logprobs",
		`"logprobs":false,"top_logprobs":0`: "",
		`"echo":true`:                       "output_fields",
		`"return_token_ids":true`:           "output_fields",
		`"echo":false`:                      "",
		`"stream_options":{"continuous_usage_stats":true}`:          "output_fields",
		`"documents":[{"text":"a"}],"chat_template_kwargs":{"a":1}`: "",
		`"documents":[{"text":"a"}],"return_prompt_text":true`:      "output_fields",
	} {
		r, err := Scan(Chat, []byte(`{"model":"m","messages":[{"role":"user"}],`+body+`}`), permissive())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Unshareable(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	for prompt, want := range map[string]string{
		`"a"`: "", `["a"]`: "", `[1,2]`: "", `[[1,2]]`: "",
		`["a","b"]`: "prompt_kind", `[[1],[2]]`: "prompt_kind", `[]`: "prompt_kind",
	} {
		r, err := Scan(Completion, []byte(`{"model":"m","prompt":`+prompt+`}`), DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Unshareable(); got != want {
			t.Errorf("prompt %s: %q, want %q", prompt, got, want)
		}
	}
}

func TestDocumentsAreThoseThatAreSentOn(t *testing.T) {
	for value, want := range map[string]string{
		``: ``, `,"documents":null`: ``, `,"documents":[]`: ``, `,"documents": [{"text":"a"}]`: `[{"text":"a"}]`,
	} {
		r, err := Scan(Chat, []byte(`{"model":"m","messages":[{"role":"user"}]`+value+`}`), permissive())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Sent("documents"); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s: %q", value, got)
		}
	}
}

// meaning decodes JSON so that only what no engine can tell apart is equal.
func meaning(t *testing.T, data []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	for name := range v {
		v[name] = numbers(v[name])
	}
	return v
}

// numbers replaces each fraction by its double.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = numbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(string(v), ".eE") {
			return fmt.Sprintf("the double %x", f)
		}
	}
	return v
}

// FuzzCanonical: the canonical form of what Scan accepts means the same, and is its own canonical form. So
// requests that mean different things have different ones.
func FuzzCanonical(f *testing.F) {
	for name, s := range spellings {
		for _, value := range append(s.same, s.values...) {
			fields := fixed(Chat)
			fields[name] = value
			f.Add([]byte(bodyOf(fields, false, "")), false)
		}
	}
	f.Add([]byte(`{"model":"m","prompt":["\\\"",[1E5]],"a":{"b":1,"\u0061":2}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, completion bool) {
		kind := Chat
		if completion {
			kind = Completion
		}
		r, err := Scan(kind, body, permissive())
		if err != nil {
			return
		}
		got, err := r.Canonical(nil)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		sameDigest(t, r, got)
		want := meaning(t, body)
		for _, m := range r.members {
			if m.drop || slices.Contains(Ephemeral, m.name) {
				delete(want, m.name)
			}
		}
		if diff := cmp.Diff(want, meaning(t, got)); diff != "" {
			t.Fatalf("%s became %s: %s", body, got, diff)
		}
		if len(want) != len(r.members) {
			return // what it leaves out may have been needed
		}
		again, err := Scan(kind, got, permissive())
		if err != nil {
			return // a limit on bytes that an escape was under
		}
		if twice, err := again.Canonical(nil); err != nil || !bytes.Equal(twice, got) {
			t.Fatalf("%s became %s, and that %s (%v)", body, got, twice, err)
		}
	})
}
