package schema

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestNothingIsLoadedFromAnywhere(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `true`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`true`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := (&Schemas{Now: time.Now}).Of("acme")
	for _, ref := range []string{server.URL, "file://" + file, file, "s.json", "urn:other", "//" + strings.TrimPrefix(server.URL, "http://")} {
		for _, text := range []string{`{"$ref":%q}`, `{"$schema":%q}`, `{"$id":"http://a/b","properties":{"a":{"$ref":%q}}}`, `{"$id":%[1]q,"$schema":%[1]q}`} {
			if got := s.CheckSchema([]byte(`{}`), fmt.Appendf(nil, text, ref)); got != ReasonUnusable {
				t.Errorf(text+": %q", ref, got)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// hostile are schemas that would keep a naive checker busy, each with a value.
func hostile() map[string][2]string {
	doubling := func(word string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
		for i := range 40 {
			fmt.Fprintf(&b, `"a%d":{%q:[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, word, i+1, i+1)
		}
		return b.String() + `"a40":{"type":"string"}}}`
	}
	nested := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	list := "[" + strings.Repeat("1,", 20_000) + "2]"
	fat := `{"a":"` + strings.Repeat("a", 200_000) + `!"}`
	members := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	chain := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
		}
		return fmt.Sprintf(`%s"a%d":{}`, b.String(), n)
	}
	trees := []string{"[]"} // of equal hashes: arrays in arrays, written in the same order
	for range 13 {
		var next []string
		for _, tree := range trees {
			next = append(next, "["+tree+"]")
			if tree != "[]" {
				next = append(next, strings.TrimSuffix(tree, "]")+",[]]")
			}
		}
		trees = next
	}
	return map[string][2]string{
		"allOf doubles":           {doubling("allOf"), `7`},
		"anyOf doubles":           {doubling("anyOf"), `7`},
		"oneOf doubles":           {doubling("oneOf"), `"x"`},
		"items double":            {`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, nested},
		"itself":                  {`{"$ref":"#"}`, `1`},
		"each other":              {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, `1`},
		"dynamic":                 {`{"$dynamicAnchor":"n","anyOf":[{"items":{"$dynamicRef":"#n"}},{"items":{"$dynamicRef":"#n"}}]}`, nested},
		"recursive":               {`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`, nested},
		"the meta-schema":         {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, nested},
		"deep":                    {strings.Repeat(`{"not":`, 3000) + "{}" + strings.Repeat("}", 3000), `1`},
		"deeper than encodings":   {strings.Repeat(`[`, 20_000), `1`},
		"wide":                    {`{"properties":{` + members(20_000, `"a%d":true`) + `}}`, `{}`},
		"wide, just allowed":      {`{"properties":{` + members(4000, `"a%d":true`) + `}}`, `{}`},
		"nested, just allowed":    {strings.Repeat(`{"allOf":[`, 20) + members(3500, `{"minimum":%d}`) + strings.Repeat("]}", 20), `7`},
		"refs into the middle":    {`{"x":{"y":{` + members(3000, `"z%d":{}`) + `}},"allOf":[` + members(250, `{"$ref":"#/x/y/z%d"}`) + `]}`, `1`},
		"refs to the middle":      {`{"x":{"y":{"properties":{` + members(1200, `"z%d":{"type":"object"}`) + `}}},"allOf":[` + members(250, `{"$ref":"#/x/y/properties/z%d"}`) + `]}`, `1`},
		"many identities":         {`{"$defs":{` + members(900, `"a%[1]d":{"$id":"http://a/%[1]d"}`) + `}}`, `1`},
		"old identities":          {`{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{` + members(900, `"a%[1]d":{"id":"http://a/%[1]d"}`) + `}}`, `1`},
		"a chain":                 {`{"$ref":"#/$defs/a0","$defs":{` + chain(200) + `}}`, `1`},
		"notes of nothing":        {`{"unevaluatedProperties":true,"anyOf":[` + members(1300, `{"type":"string","x":%d}`) + `]}`, `{` + members(40_000, `"n%d":1`) + `}`},
		"a long pattern":          {`{"properties":{"a":{"pattern":"` + strings.Repeat("a?", 5000) + `"}}}`, fat},
		"a pattern that grows":    {`{"properties":{"a":{"pattern":"` + strings.Repeat(".{900}", 60) + `"}}}`, fat},
		"a pattern that nests":    {`{"properties":{"a":{"pattern":"((((a{30}){30}){30}){30})"}}}`, fat},
		"a pattern to backtrack":  {`{"properties":{"a":{"pattern":"^(a+)+$"}}}`, fat},
		"a pattern, just allowed": {`{"properties":{"a":{"pattern":"(a|b|c|.{40}){20}$"}}}`, fat},
		"many patterns":           {`{"patternProperties":{` + members(1500, `"x{%d}":{}`) + `}}`, `{` + members(3000, `"x%d":1`) + `}`},
		"a pattern with groups":   {`{"pattern":"(?=a)b"}`, `"b"`},
		"a format that compiles":  {`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"` + strings.Repeat(".{1000}", 900) + `"`},
		"unique, long":            {`{"uniqueItems":true}`, list},
		"unique, equal hashes":    {`{"uniqueItems":true}`, "[" + strings.Join(trees, ",") + "]"},
		"a great enum":            {`{"items":{"enum":[` + members(3500, `%d.5`) + `]}}`, list},
		"huge numbers":            {`{"multipleOf":1e-999999}`, `1e999999`},
		"huge numbers, in bounds": {`{"items":{"multipleOf":1e-400}}`, "[" + strings.Repeat("1e400,", 20_000) + "1]"},
		"digits":                  {`{"minimum":` + strings.Repeat("9", 100_000) + `}`, `1`},
		"nothing is evaluated":    {`{"unevaluatedItems":{"type":"integer"},"anyOf":[` + members(300, `{"contains":{"const":%d}}`) + `]}`, list},
		"names of names":          {`{"propertyNames":{"allOf":[` + members(500, `{"minLength":%d}`) + `]}}`, `{` + members(2000, `"n%d":1`) + `}`},
		"no schema at all":        {`"words"`, `1`},
		"no JSON":                 {`{`, `1`},
		"a number":                {`7`, `1`},
		"nothing":                 {``, `1`},
		"empty ref":               {`{"$ref":""}`, `1`},
		"a ref out of bounds":     {`{"$ref":"#/allOf/9","allOf":[]}`, `1`},
		"strange escapes":         {`{"$ref":"#/~9%zz"}`, `1`},
		"strange identities":      {`{"$id":"http://[::1","$ref":"#a"}`, `1`},
		"the identity of another": {`{"$id":"https://json-schema.org/draft/2020-12/schema","type":"object"}`, `{}`},
	}
}

// TestHostileSchemasTakeNoTime: the bound is generous, for a machine that has other things to do;
// without the bounds of this package, several of these take hours.
func TestHostileSchemasTakeNoTime(t *testing.T) {
	const most = 5 * time.Second
	for name, c := range hostile() {
		s := (&Schemas{Now: time.Now}).Of("acme")
		started := time.Now()
		done := make(chan string, 1)
		go func() { done <- s.CheckSchema([]byte(c[1]), []byte(c[0])) }()
		select {
		case reason := <-done:
			t.Logf("%s: %q after %v", name, reason, time.Since(started).Round(100*time.Microsecond))
		case <-time.After(most):
			t.Fatalf("%s is not over after %v", name, most)
		}
	}
}

func TestWhatCannotEndIsUnusable(t *testing.T) {
	all := hostile()
	s := (&Schemas{Now: time.Now}).Of("acme")
	for _, name := range []string{
		"allOf doubles", "items double", "itself", "each other", "deep", "wide", "a long pattern", "a pattern that grows", "many identities",
		"huge numbers", "unique, long", "a format that compiles", "a pattern with groups", "no JSON", "nothing", "digits", "a chain", "notes of nothing", "unique, equal hashes",
	} {
		if got := s.CheckSchema([]byte(all[name][1]), []byte(all[name][0])); got != ReasonUnusable {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestSchemasOfOrdinaryToolsAreChecked(t *testing.T) {
	s := (&Schemas{Now: time.Now}).Of("acme")
	const tree = `{"$defs":{"Node":{"type":"object","properties":{"kind":{"enum":["leaf","pair"]},"left":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]},
		"right":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]}},"required":["kind"],"additionalProperties":false}},"$ref":"#/$defs/Node"}`
	for name, c := range map[string]struct{ schema, good, bad string }{
		"a tree":            {tree, `{"kind":"pair","left":{"kind":"leaf"},"right":{"kind":"pair","left":null,"right":{"kind":"leaf"}}}`, `{"kind":"pair","left":{"kind":"twig"}}`},
		"draft 7":           {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"type":"number","exclusiveMinimum":0}},"items":[{"$ref":"#/definitions/p"}]}`, `[1]`, `[0]`},
		"a pattern":         {`{"pattern":"^[A-Z]{2}\\d{4}$"}`, `"AB1234"`, `"AB12345"`},
		"a long list":       {`{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}}`, "[" + strings.Repeat(`{"id":1,"tags":["a","b"]},`, 2000) + `{"id":2}]`, "[" + strings.Repeat(`{"id":1},`, 2000) + `{"id":"2"}]`},
		"one of many kinds": {`{"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"]},{"properties":{"t":{"const":"b"},"n":{"type":"integer"}},"required":["t","n"],"unevaluatedProperties":false}]}`, `{"t":"b","n":1}`, `{"t":"b","n":1,"m":2}`},
		"an identity":       {`{"$id":"https://example.com/a.json","properties":{"a":{"$ref":"a.json#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":"x"}`, `{"a":1}`},
		"fields called id":  {`{"properties":{"id":{"type":"string"},"$ref":{"type":"string"}},"examples":[{"id":"1"},{"id":"2"},{"id":"3"},{"id":"4"},{"id":"5"},{"id":"6"},{"id":"7"},{"id":"8"},{"id":"9"}]}`, `{"id":"x"}`, `{"id":7}`},
	} {
		if got := s.CheckSchema([]byte(c.good), []byte(c.schema)); got != "" {
			t.Errorf("%s, good: %q", name, got)
		}
		if got := s.CheckSchema([]byte(c.bad), []byte(c.schema)); got != ReasonMismatch {
			t.Errorf("%s, bad: %q", name, got)
		}
	}
}

func TestOfManySchemasFewAreKept(t *testing.T) {
	s := (&Schemas{Now: time.Now}).Of("acme")
	for i := range 2 * maxKeptBytes / entryBytes {
		s.entry(key{byte(i), byte(i >> 8)}, 10)
	}
	if o := s.owners["acme"]; s.bytes != o.bytes || s.bytes > maxKeptBytes || len(o.kept)*entryBytes > maxKeptBytes {
		t.Errorf("%d kept, %d of %d bytes", len(o.kept), o.bytes, s.bytes)
	}
	before := s.bytes
	first, err := s.compiled([]byte(`{"pattern":"a{900}"}`))
	if err != nil || s.bytes < before+900 {
		t.Errorf("a pattern counts %d bytes, %v", s.bytes-before, err)
	}
	if again, err := s.compiled([]byte(`{"pattern":"a{900}"}`)); err != nil || again != first {
		t.Errorf("it was compiled twice: %v", err)
	}
}

// large is a schema near the largest that is compiled, another one for each number.
func large(i int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"title":"%d","properties":{`, i)
	for n := range 1000 {
		fmt.Fprintf(&b, `"%s%d":{"type":"string","maxLength":9},`, strings.Repeat("p", 80), n)
	}
	return []byte(b.String() + `"last":{}}}`)
}

func TestOneTenantsNewSchemasTakeABoundedShareOfTimeAndOfTheCache(t *testing.T) {
	now := time.Unix(1, 0)
	s := &Schemas{Now: func() time.Time { return now }}
	const small = `{"type":"object"}`
	if got := s.Of("innocent").CheckSchema([]byte(`{}`), []byte(small)); got != "" {
		t.Fatal(got)
	}
	kept := len(s.owners["innocent"].kept)
	compiled := 0
	for i := range 200 { // in 20 seconds
		if s.Of("attacker").CheckSchema([]byte(`{}`), large(i)) == "" {
			compiled++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if size := len(large(0)); size > maxText || compiled < 10 || compiled > 80 {
		t.Errorf("%d of %d bytes were compiled", compiled, size)
	}
	if len(s.owners["innocent"].kept) != kept || s.bytes > maxKeptBytes {
		t.Errorf("the schema of another tenant was pushed out of %d bytes", s.bytes)
	}
	if got := s.Of("another").CheckSchema([]byte(`{}`), large(1000)); got != "" {
		t.Errorf("another tenant: %q", got)
	}
	now = now.Add(time.Minute)
	if got := s.Of("attacker").CheckSchema([]byte(`{}`), large(1001)); got != "" {
		t.Errorf("later: %q", got)
	}
}

func TestTenantsThatOweNothingAreForgotten(t *testing.T) {
	now := time.Unix(1, 0)
	s := &Schemas{Now: func() time.Time { return now }}
	for i := range 3 * maxOwners {
		now = now.Add(time.Second)
		if o := s.owner(strconv.Itoa(i)); o == nil || !o.mayCompile(10) {
			t.Fatalf("tenant %d may not", i)
		}
	}
	if len(s.owners) > maxOwners {
		t.Errorf("%d tenants are remembered", len(s.owners))
	}
}

func TestManyMayAskAtOnce(t *testing.T) {
	s := (&Schemas{Now: time.Now}).Of("acme")
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 60 {
				if got := s.CheckSchema([]byte(`{"a":[3]}`), fmt.Appendf(nil, `{"properties":{"a":{"items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"maximum":%d}}}`, i%6)); (got == "") != (i%6 >= 3) {
					t.Errorf("worker %d, maximum %d: %q", worker, i%6, got)
				}
			}
		})
	}
	all.Wait()
}

// FuzzSchema: no schema and no value panics, or takes long; what is said twice is the same;
// and true takes what is JSON.
func FuzzSchema(f *testing.F) {
	for _, c := range hostile() {
		if len(c[0])+len(c[1]) < 4000 {
			f.Add([]byte(c[0]), []byte(c[1]))
		}
	}
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`), []byte(`{"a":2}`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s := (&Schemas{Now: time.Now}).Of("acme")
		started := time.Now()
		first := s.CheckSchema(value, schema)
		if took := time.Since(started); took > 5*time.Second {
			t.Fatalf("%v", took)
		}
		if again := s.CheckSchema(value, schema); again != first {
			t.Fatalf("%q, then %q", first, again)
		}
		if got := s.CheckSchema(value, []byte(`true`)); got != "" && got != ReasonInvalid && got != ReasonUnusable || first == ReasonInvalid != (got == ReasonInvalid) {
			t.Fatalf("%q of true, %q of the schema", got, first)
		}
	})
}

// FuzzCalls: no tools, choice or arguments panic, and what passes names a tool by a name that
// the request holds.
func FuzzCalls(f *testing.F) {
	f.Add("weather", []byte(`{"city":"x"}`), []byte(offer), []byte(`"required"`))
	f.Add("clock", []byte(`{}`), []byte(offer), []byte(`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"clock"}}]}}`))
	f.Add("x", []byte(`[]`), []byte(`[{}]`), []byte(`{"type":"function"}`))
	f.Fuzz(func(t *testing.T, name string, arguments, tools, choice []byte) {
		s := (&Schemas{Now: time.Now}).Of("acme")
		reason := s.CheckCalls([]ToolCall{{name, arguments}}, tools, choice)
		if offered, ok := readTools(tools); reason == "" {
			if _, known := offered[name]; !ok || !known || len(arguments) == 0 || strings.TrimSpace(string(arguments))[0] != '{' {
				t.Fatalf("%q with %q passed", name, arguments)
			}
		}
		s.CheckFormat(arguments, choice)
	})
}

func BenchmarkCheckCalls(b *testing.B) {
	s := (&Schemas{Now: time.Now}).Of("acme")
	calls := called("weather", `{"city":"Köln","days":3,"unit":"C"}`)
	b.ReportAllocs()
	for b.Loop() {
		if reason := s.CheckCalls(calls, []byte(offer), nil); reason != "" {
			b.Fatal(reason)
		}
	}
}
