package schema

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
	for _, ref := range []string{server.URL, "file://" + file, file, "s.json", "urn:other", "//" + strings.TrimPrefix(server.URL, "http://")} {
		for _, text := range []string{`{"$ref":%q}`, `{"$schema":%q}`, `{"$id":"http://a/b","properties":{"a":{"$ref":%q}}}`, `{"$id":%[1]q,"$schema":%[1]q}`} {
			if got := checkSchema([]byte(`{"a":1}`), fmt.Appendf(nil, text, ref)); got != ReasonUnusable {
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
	bushy := func(end string) string { // 2^17 ways to one schema
		var b strings.Builder
		for i := range 17 {
			fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
		}
		return `{"$ref":"#/$defs/a0","$defs":{` + b.String() + `"a17":` + end + `}}`
	}
	few := `{` + members(10_000, `"n%d":1`) + `}`
	long := strings.Repeat("x", 60_000)
	return map[string][2]string{
		"a wide object, often":    {bushy(`{}`), few},
		"a wide object, no rules": {`{"allOf":[` + members(40_000, `{}`) + `]}`, few},
		"a long list, often":      {bushy(`{}`), list},
		"a long text, often":      {bushy(`{"maxLength":9999999}`), `"` + strings.Repeat("é", 400_000) + `"`},
		"a long name, often":      {bushy(`{"properties":{}}`), `{"` + strings.Repeat("x", 1_000_000) + `":1}`},
		"a wide constant":         {`{"items":{"not":{"const":{` + members(9_000, `"n%d":1`) + `}}}}`, "[" + strings.Repeat("{},", 100_000) + "{}]"},
		"many types":              {`{"items":{"type":[` + strings.Repeat(`"null",`, 16_000) + `"number"]}}`, list},
		"required, often":         {`{"items":{"required":[` + strings.Repeat(`"a",`, 30_000) + `"a"]}}`, "[" + strings.Repeat(`{"a":1},`, 100_000) + `{"a":1}]`},
		"a long reference":        {`{"$defs":{"` + long + `":{}},"items":{"$ref":"#/$defs/` + long + `"}}`, "[" + strings.Repeat("1,", 100_000) + "1]"},
		"allOf doubles":           {doubling("allOf"), `7`},
		"anyOf doubles":           {doubling("anyOf"), `7`},
		"oneOf doubles":           {doubling("oneOf"), `"x"`},
		"items double":            {`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, nested},
		"itself":                  {`{"$ref":"#"}`, `1`},
		"each other":              {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, `1`},
		"dynamic":                 {`{"$dynamicAnchor":"n","anyOf":[{"items":{"$dynamicRef":"#n"}},{"items":{"$dynamicRef":"#n"}}]}`, nested},
		"deep":                    {strings.Repeat(`{"not":`, 3000) + "{}" + strings.Repeat("}", 3000), `1`},
		"wide":                    {`{"properties":{` + members(20_000, `"a%d":true`) + `}}`, `{}`},
		"refs to the middle":      {`{"x":{"y":{"properties":{` + members(1200, `"z%d":{"type":"object"}`) + `}}},"allOf":[` + members(250, `{"$ref":"#/x/y/properties/z%d"}`) + `]}`, `1`},
		"a chain":                 {`{"$ref":"#/$defs/a0","$defs":{` + chain(200) + `}}`, `1`},
		"a long pattern":          {`{"properties":{"a":{"pattern":"` + strings.Repeat("a?", 5000) + `"}}}`, fat},
		"a pattern that grows":    {`{"properties":{"a":{"pattern":"` + strings.Repeat(".{900}", 60) + `"}}}`, fat},
		"a pattern that nests":    {`{"properties":{"a":{"pattern":"((((a{30}){30}){30}){30})"}}}`, fat},
		"a pattern to backtrack":  {`{"properties":{"a":{"pattern":"^(a+)+$"}}}`, fat},
		"many patterns":           {`{"patternProperties":{` + members(1500, `"x{%d}":{}`) + `}}`, `{` + members(3000, `"x%d":1`) + `}`},
		"many great patterns":     {`{"patternProperties":{` + members(250, `"(?:`+strings.Repeat("a", 490)+`%d){1000}":{}`) + `}}`, `{"a":1}`},
		"a pattern with groups":   {`{"pattern":"(?=a)b"}`, `"b"`},
		"unique, long":            {`{"uniqueItems":true}`, list},
		"unique, equal hashes":    {`{"uniqueItems":true}`, "[" + strings.Join(trees, ",") + "]"},
		"a great enum":            {`{"items":{"enum":[` + members(3500, `%d.5`) + `]}}`, list},
		"digits":                  {`{"minimum":` + strings.Repeat("9", 100_000) + `}`, `1`},
		"names of names":          {`{"propertyNames":{"allOf":[` + members(500, `{"minLength":%d}`) + `]}}`, `{` + members(2000, `"n%d":1`) + `}`},
		"no JSON":                 {`{`, `1`},
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
		started := time.Now()
		done := make(chan string, 1)
		go func() { done <- checkSchema([]byte(c[1]), []byte(c[0])) }()
		select {
		case reason := <-done:
			t.Logf("%s: %q after %v", name, reason, time.Since(started).Round(100*time.Microsecond))
		case <-time.After(most):
			t.Errorf("%s is not over after %v", name, most)
		}
	}
}

func TestWhatCannotEndIsUnusable(t *testing.T) {
	all := hostile()
	for _, name := range []string{
		"anyOf doubles", "oneOf doubles", "itself", "each other", "deep", "wide", "a long pattern", "a pattern that grows",
		"a pattern with groups", "many great patterns", "no JSON", "nothing", "digits", "unique, equal hashes", "dynamic",
		"a ref out of bounds", "strange identities", "strange escapes",
	} {
		if got := checkSchema([]byte(all[name][1]), []byte(all[name][0])); got != ReasonUnusable {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// ordinary are schemas, each with a value that fits it and one that does not.
func ordinary() map[string]struct{ schema, good, bad string } {
	const tree = `{"$defs":{"Node":{"type":"object","properties":{"kind":{"enum":["leaf","pair"]},"left":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]},
		"right":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]}},"required":["kind"],"additionalProperties":false}},"$ref":"#/$defs/Node"}`
	return map[string]struct{ schema, good, bad string }{
		"a tree":            {tree, `{"kind":"pair","left":{"kind":"leaf"},"right":{"kind":"pair","left":null,"right":{"kind":"leaf"}}}`, `{"kind":"pair","left":{"kind":"twig"}}`},
		"draft 7":           {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"type":"number","exclusiveMinimum":0}},"items":[{"$ref":"#/definitions/p"}]}`, `[1]`, `[0]`},
		"a pattern":         {`{"pattern":"^[A-Z]{2}\\d{4}$"}`, `"AB1234"`, `"AB12345"`},
		"a long list":       {`{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}}`, "[" + strings.Repeat(`{"id":1,"tags":["a","b"]},`, 2000) + `{"id":2}]`, "[" + strings.Repeat(`{"id":1},`, 2000) + `{"id":"2"}]`},
		"one of many kinds": {`{"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"]},{"properties":{"t":{"const":"b"},"n":{"type":"integer"}},"required":["t","n"],"additionalProperties":false}]}`, `{"t":"b","n":1}`, `{"t":"b","n":1,"m":2}`},
		"branches":          {`{"not":{"required":["c"]},"propertyNames":{"maxLength":2},"patternProperties":{"^d":{"const":null}}}`, `{"a":1,"d":null}`, `{"a":1,"d":[null]}`},
		"numbers":           {`{"type":["number","null"],"exclusiveMinimum":0,"maximum":1e2,"exclusiveMaximum":100}`, `99.9`, `100`},
		"tuples":            {`{"prefixItems":[{"const":{"a":[1.0]}}],"items":false,"minItems":1}`, `[{"a":[1]}]`, `[{"a":[1]},2]`},
		"fields called id":  {`{"properties":{"id":{"type":"string"},"$ref":{"type":"string"}},"examples":[{"id":"1"},{"id":"2"},{"id":"3"},{"id":"4"},{"id":"5"},{"id":"6"},{"id":"7"},{"id":"8"},{"id":"9"}]}`, `{"id":"x"}`, `{"id":7}`},
	}
}

func TestSchemasOfOrdinaryToolsAreChecked(t *testing.T) {
	for name, c := range ordinary() {
		if got := checkSchema([]byte(c.good), []byte(c.schema)); got != "" {
			t.Errorf("%s, good: %q", name, got)
		}
		if got := checkSchema([]byte(c.bad), []byte(c.schema)); got != ReasonMismatch {
			t.Errorf("%s, bad: %q", name, got)
		}
	}
}

// byLibrary is what a library of JSON Schema says of a value.
func byLibrary(value, schema []byte) (fits, known bool) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	v, invalid := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	c := jsonschema.NewCompiler()
	if err != nil || invalid != nil || c.AddResource("urn:schema", doc) != nil {
		return false, false
	}
	sch, err := c.Compile("urn:schema")
	return err == nil && sch.Validate(v) == nil, err == nil
}

// FuzzSchema: no schema and no value panics, or takes long; and what is said of a value is what a library says.
func FuzzSchema(f *testing.F) {
	for _, c := range hostile() {
		if len(c[0])+len(c[1]) < 4000 {
			f.Add([]byte(c[0]), []byte(c[1]))
		}
	}
	for _, c := range ordinary() {
		f.Add([]byte(c.schema), []byte(c.good))
		f.Add([]byte(c.schema), []byte(c.bad))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		started := time.Now()
		got := checkSchema(value, schema)
		if took := time.Since(started); took > 5*time.Second {
			t.Fatalf("%v", took)
		}
		if len(schema) > 1000 || len(value) > 100 || bytes.Contains(schema, []byte("format")) || got == ReasonUnusable {
			return // the library may take long, and checks formats in more detail
		}
		if fits, known := byLibrary(value, schema); known && fits != (got == "") {
			t.Fatalf("%q of %s in %s, and the library says %v", got, value, schema, fits)
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
		reason := CheckCalls([]ToolCall{{name, arguments}}, tools, choice)
		if offered, ok := readTools(tools); reason == "" {
			if _, known := offered[name]; !ok || !known || len(arguments) == 0 || strings.TrimSpace(string(arguments))[0] != '{' {
				t.Fatalf("%q with %q passed", name, arguments)
			}
		}
		CheckFormat(arguments, choice)
	})
}

func BenchmarkCheckCalls(b *testing.B) {
	calls := called("weather", `{"city":"Köln","days":3,"unit":"C"}`)
	b.ReportAllocs()
	for b.Loop() {
		if reason := CheckCalls(calls, []byte(offer), nil); reason != "" {
			b.Fatal(reason)
		}
	}
}
