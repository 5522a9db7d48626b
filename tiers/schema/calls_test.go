package schema

import (
	"strings"
	"testing"
)

// offer is a request's tools: weather wants a city, clock takes anything, and odd has a
// schema that does not compile.
const offer = `[
	{"type":"function","function":{"name":"weather","description":"…","parameters":{"type":"object","properties":{
		"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["C","F"]}},"required":["city"],"additionalProperties":false},"strict":true}},
	{"type":"function","function":{"name":"clock"}},
	{"type":"function","function":{"name":"odd","parameters":{"$ref":"https://example.com/s.json"}}}]`

// called is calls of tools by name and arguments, in turn.
func called(pairs ...string) (calls []ToolCall) {
	for i := 0; i < len(pairs); i += 2 {
		calls = append(calls, ToolCall{pairs[i], []byte(pairs[i+1])})
	}
	return calls
}

func TestCallsAreWhatWasOfferedAndDemanded(t *testing.T) {
	for name, c := range map[string]struct {
		calls         []ToolCall
		tools, choice string
		want          string
	}{
		"a call":                        {called("weather", `{"city":"Köln","days":3,"unit":"C"}`), offer, "", ""},
		"two":                           {called("weather", `{"city":"Köln"}`, "clock", `{}`), offer, `"auto"`, ""},
		"no call":                       {nil, offer, `"auto"`, ""},
		"no call, none demanded":        {nil, offer, `null`, ""},
		"no call, no tools":             {nil, "", "", ""},
		"no call where one must be":     {nil, offer, `"required"`, ReasonNoCall},
		"no call of the one":            {nil, offer, `{"type":"function","function":{"name":"clock"}}`, ReasonNoCall},
		"a call where one must be":      {called("clock", `{"a":[1]}`), offer, `"required"`, ""},
		"the one":                       {called("clock", `{}`), offer, `{"type":"function","function":{"name":"clock"}}`, ""},
		"another one":                   {called("weather", `{"city":"Köln"}`), offer, `{"type":"function","function":{"name":"clock"}}`, ReasonUnknown},
		"a call where none may be":      {called("clock", `{}`), offer, `"none"`, ReasonUnknown},
		"a call without tools":          {called("clock", `{}`), "", "", ReasonUnknown},
		"a name that is not there":      {called("Weather", `{"city":"Köln"}`), offer, "", ReasonUnknown},
		"no name":                       {called("", `{}`), offer, "", ReasonUnknown},
		"one of those allowed":          {called("clock", `{}`), offer, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"clock"}}]}}`, ""},
		"one not allowed":               {called("weather", `{"city":"x"}`), offer, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"clock"}}]}}`, ReasonUnknown},
		"none of those that must be":    {nil, offer, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`, ReasonNoCall},
		"a choice nobody knows":         {called("clock", `{}`), offer, `{"type":"custom"}`, ReasonUnusable},
		"a word nobody knows":           {nil, offer, `"any"`, ReasonUnusable},
		"tools nobody knows":            {called("clock", `{}`), `[{"type":"custom","custom":{"name":"clock"}}]`, "", ReasonUnusable},
		"tools that are no list":        {called("clock", `{}`), `{"a":1}`, "", ReasonUnusable},
		"a schema that loads":           {called("odd", `{}`), offer, "", ReasonUnusable},
		"a schema that is not asked":    {called("clock", `{}`, "weather", `{"city":"x"}`), offer, "", ""},
		"arguments that are no JSON":    {called("weather", `{"city":"Köln"`), offer, "", ReasonArguments},
		"two texts of JSON":             {called("weather", `{"city":"x"} {"city":"x"}`), offer, "", ReasonArguments},
		"no arguments":                  {called("clock", ``), offer, "", ReasonArguments},
		"arguments that are no object":  {called("clock", `[]`), offer, "", ReasonArguments},
		"null":                          {called("clock", `null`), offer, "", ReasonArguments},
		"arguments of the wrong type":   {called("weather", `{"city":7}`), offer, "", ReasonArguments},
		"arguments that lack one":       {called("weather", `{"days":3}`), offer, "", ReasonArguments},
		"arguments that nobody asked":   {called("weather", `{"city":"x","country":"y"}`), offer, "", ReasonArguments},
		"a number out of range":         {called("weather", `{"city":"x","days":15}`), offer, "", ReasonArguments},
		"a number that is no integer":   {called("weather", `{"city":"x","days":1.5}`), offer, "", ReasonArguments},
		"a whole number with a point":   {called("weather", `{"city":"x","days":2.0}`), offer, "", ""},
		"a number of a million digits":  {called("weather", `{"city":"x","days":1e999999}`), offer, "", ReasonUnusable},
		"arguments beyond all measures": {called("clock", `{"a":"`+strings.Repeat("x", maxAnswer)+`"}`), offer, "", ReasonUnusable},
	} {
		if got := CheckCalls(c.calls, []byte(c.tools), []byte(c.choice)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAWholeAnswerIsOfTheFormatAskedFor(t *testing.T) {
	const person = `{"type":"json_schema","json_schema":{"name":"person","strict":true,"schema":{"type":"object","properties":{"name":{"type":"string"},"next":{"$ref":"#"}},"required":["name"],"additionalProperties":false}}}`
	for name, c := range map[string]struct{ text, format, want string }{
		"no format":              {"words", "", ""},
		"null":                   {"words", "null", ""},
		"text":                   {"words", `{"type":"text"}`, ""},
		"any JSON":               {`{"a":1}`, `{"type":"json_object"}`, ""},
		"no JSON":                {"words", `{"type":"json_object"}`, ReasonInvalid},
		"of the schema":          {` {"name":"Ada","next":{"name":"Bob"}} `, person, ""},
		"not of it":              {`{"name":1}`, person, ReasonMismatch},
		"not of it, further in":  {`{"name":"Ada","next":{"next":{"name":"x"}}}`, person, ReasonMismatch},
		"cut":                    {`{"name":"Ada"`, person, ReasonInvalid},
		"in a fence":             {"```json\n{}\n```", person, ReasonInvalid},
		"a grammar":              {"x", `{"type":"structural_tag"}`, ReasonUnusable},
		"a schema that is none":  {`{}`, `{"type":"json_schema","json_schema":{"schema":{"type":"thing"}}}`, ReasonUnusable},
		"no schema":              {`{}`, `{"type":"json_schema","json_schema":{"name":"x"}}`, ReasonUnusable},
		"a format that is none":  {`{}`, `[1]`, ReasonUnusable},
		"everything is allowed":  {`7`, `{"type":"json_schema","json_schema":{"schema":true}}`, ""},
		"nothing is":             {`7`, `{"type":"json_schema","json_schema":{"schema":false}}`, ReasonMismatch},
		"too long for the check": {`"` + strings.Repeat("x", maxAnswer) + `"`, person, ReasonUnusable},
	} {
		if got := CheckFormat([]byte(c.text), []byte(c.format)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
