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
	const want = "72220aaec6f7da699f886f030ec922058d2088d6f34c13908021cc465da20ad8"
	if got, err := r.Digest(); err != nil || fmt.Sprintf("%x", got) != want {
		t.Errorf("digest %x, want %s (%v): then digestContext must change", got, want, err)
	}
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
		parts = append(parts, space+strconv.Quote(name)+space+":"+space+fields[name]+space)
	}
	return space + "{" + strings.Join(parts, ",") + "}" + space
}

func TestOnlyWhiteSpaceEscapesAndTheOrderOfFieldsMakeNoDifference(t *testing.T) {
	for name, c := range map[string]struct {
		kind    Kind
		differ  []string // values that are all different
		another string   // spelling of the first
	}{
		"temperature": {Chat, []string{`0.5`, `0.25`, `0`, `1`}, "\n0.5"},
		"seed":        {Chat, []string{`9223372036854775807`, `9223372036854775806`}, " 9223372036854775807"},
		"stop":        {Chat, []string{`["a","b"]`, `["b","a"]`, `["a"]`, `"a"`, `"a\n"`, `[]`}, "[ \"\\u0061\" ,\t\"b\"]"},
		"logit_bias":  {Chat, []string{`{"1":5,"2":6}`, `{"1":6,"2":5}`, `{"1":5}`, `{}`}, `{ "\u0031" : 5 , "2":6}`},
		"tools": {Chat, []string{
			`[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"default":1},"b":{}}}}}]`,
			`[{"type":"function","function":{"name":"f","parameters":{"properties":{"b":{},"a":{"default":1}}}}}]`, // prompts show the order
			`[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"default":1.0},"b":{}}}}}]`,
		}, `[{"type":"function","function":{"name":"f","parameters":{"properties":{"\u0061":{"default":1},"b":{}}}}}]`},
		"messages": {Chat, []string{
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`,
			`[{"role":"assistant","content":"b"},{"role":"user","content":"a"}]`,
			`[{"role":"user","content":"ab"}]`, `[{"role":"user","content":null}]`, `[{"role":"user"}]`,
		}, `[{"content":"\u0061","role":"user"},{"r\u006fle":"assistant","content":"b"}]`},
		"prompt":    {Completion, []string{`"a"`, `"b"`, `["a"]`, `["a","b"]`, `["b","a"]`, `[1,2]`, `[12]`, `[[1],[2]]`, `[[1,2]]`}, `"\u0061"`},
		"x_unknown": {Chat, []string{`{"a":[null,true,-0]}`, `{"a":[null,true,0]}`, `{"a":["null",true,-0]}`}, `{"a": [null, true, -0]}`},
		"x_text":    {Chat, []string{`"é/"`, "\"e\u0301/\"", `"\\u00e9/"`, `"<"`, `"\u2028"`, `"\t"`, `"😀"`}, `"\u00E9\/"`},
	} {
		fields, seen := fixed(c.kind), map[string]string{}
		for _, value := range append(c.differ, c.another) {
			fields[name] = value
			got := canonicalOf(t, c.kind, bodyOf(fields, false, ""))
			if was := seen[got]; (was != "") != (value == c.another) || value == c.another && was != c.differ[0] {
				t.Errorf("%s: %s is %q: %s", name, value, was, got)
			}
			seen[got] = value
			if spaced := canonicalOf(t, c.kind, bodyOf(fields, true, " \r\n\t")); spaced != got {
				t.Errorf("%s: with white space and in another order\n%s\nis not\n%s", name, spaced, got)
			}
		}
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
	return v
}

// FuzzCanonical: the canonical form of what Scan accepts means the same, and is its own canonical form. So
// requests that mean different things have different ones.
func FuzzCanonical(f *testing.F) {
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
