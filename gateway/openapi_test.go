package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/tiers/openai"
)

// TestTheDocumentsHaveTheTables holds the generated components of both documents. A new path goes into public.json or admin.json,
// with a request that the test in gateway/app/openapi_test.go sends; a new header, error code or field of an
// answer (schemas_test.go) is a row of its table, and make golden.
func TestTheDocumentsHaveTheTables(t *testing.T) {
	parameters, headers, asked, answered := object{}, object{}, object{}, object{}
	var table struct{ Request, Response []headerRow }
	text, err := os.ReadFile("testdata/headers.json")
	if err = cmp.Or(err, json.Unmarshal(text, &table)); err != nil {
		t.Fatal(err)
	}
	for _, h := range flatten(table.Request) {
		if h.Name != "Authorization" && h.Name != "X-Api-Key" { // those are security schemes
			parameters[h.Name] = object{"name": h.Name, "in": "header", "required": false, "description": h.Meaning, "schema": valuesSchema(h.Values)}
			for _, group := range h.On {
				of, _ := asked[group].([]any)
				asked[group] = append(of, reference("parameters", h.Name))
			}
		}
	}
	for _, h := range flatten(table.Response) {
		headers[h.Name] = object{"description": h.Meaning, "schema": valuesSchema(h.Values)}
		for _, group := range h.On {
			of, _ := answered[group].(object)
			answered[group] = with(of, h.Name, reference("headers", h.Name))
		}
	}
	public := refusals(t, "public", slices.Collect(maps.Keys(answered["refusal"].(object))))
	public["headers"], public["parameters"] = headers, parameters
	public["schemas"].(object)["FieldRules"] = fieldRules()
	admin := refusals(t, "admin", []string{"Retry-After", "X-Should-Retry", "WWW-Authenticate"})
	maps.Copy(admin["schemas"].(object), schemasOf(t, answersOfAdmin))
	text, err = json.MarshalIndent(object{
		"public": public, "admin": admin,
		"headers": object{"request": asked, "response": answered},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "openapi/generated.json", string(text)+"\n")
}

// refusals are the responses with an error body, one for each status, and the schema of the body with the codes.
func refusals(t *testing.T, at string, headers []string) object {
	t.Helper()
	all, byStatus, meanings := []string{}, map[int][]string{http.StatusNotFound: {}, http.StatusMethodNotAllowed: {}}, map[int]string{}
	for _, c := range ErrorCodes {
		if c.At != "" && c.At != at {
			continue
		}
		all = append(all, c.Code)
		for _, status := range c.Statuses {
			byStatus[status] = append(byStatus[status], c.Code)
			meanings[status] += fmt.Sprintf("\n- `%s`: %s", c.Code, c.Meaning)
		}
	}
	references, responses := object{}, object{}
	for _, name := range headers {
		references[name] = reference("headers", name)
	}
	for status, codes := range byStatus {
		code := object{"properties": object{"error": object{"properties": object{"code": object{"enum": codes}}}}}
		responses["Refused"+strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ". The code in the body says more:" + meanings[status],
			"headers":     references,
			"content":     object{"application/json": object{"schema": object{"allOf": []any{reference("schemas", "Error"), code}}}},
		}
	}
	body := readDocument(at + ".json")["components"].(object)["schemas"].(object)["ErrorBody"].(object)
	body["properties"].(object)["code"].(object)["enum"] = all
	return object{"responses": responses, "schemas": object{"ErrorBody": body}}
}

// with returns o with a member more.
func with(o object, name string, value any) object {
	if o == nil {
		o = object{}
	}
	o[name] = value
	return o
}

func reference(kind, name string) object {
	return object{"$ref": "#/components/" + kind + "/" + name}
}

// headerRow is a header in testdata/headers.json, which the reference shows, too.
type headerRow struct {
	Name            string   // two headers that differ in the last word: "X-RateLimit-Limit-Requests, -Tokens"
	Values, Meaning string   // in Markdown
	On              []string // groups of openapi/public.json that it is in
}

// flatten returns a row for each header, two for a row that describes two.
func flatten(headers []headerRow) (all []headerRow) {
	for _, h := range headers {
		first, last, two := strings.Cut(h.Name, ", -")
		h.Name = first
		all = append(all, h)
		if two {
			h.Name = first[:strings.LastIndexByte(first, '-')+1] + last
			all = append(all, h)
		}
	}
	return all
}

var (
	// literals are values such as `a`, `b`.
	literals = regexp.MustCompile("^`[A-Za-z_-]+`(, `[A-Za-z_-]+`)*$")
	// pattern is one regular expression such as `[a-z]{1,64}`.
	pattern = regexp.MustCompile("^`(\\[[^`]+\\}|\\[[^`]+\\])`$")
)

// valuesSchema returns the schema of a header's values from their description.
func valuesSchema(values string) object {
	switch {
	case values == "a number", values == "whole seconds":
		return object{"type": "integer", "minimum": 0}
	case literals.MatchString(values):
		return object{"type": "string", "enum": strings.Split(strings.ReplaceAll(values, "`", ""), ", ")}
	case pattern.MatchString(values):
		return object{"type": "string", "pattern": "^" + strings.Trim(values, "`") + "$"}
	}
	return object{"type": "string"}
}

// noEffect are the values with which no field is refused.
var noEffect = []any{nil, false, []any{}, object{}, ""}

// fieldRules is the schema of the request fields that are not simply forwarded.
func fieldRules() object {
	rules := object{}
	for _, f := range openai.FieldTable {
		does := "An engine (" + f.Engines + ") " + f.Effect + "."
		switch f.Verdict {
		case openai.FieldTarget:
			rules[f.Name] = object{"description": "The target answers unless it asks for nothing. " + does}
		case openai.FieldStripped:
			rules[f.Name] = object{"description": "Removed. " + does}
		case openai.FieldRefused:
			rules[f.Name] = object{"description": "Refused with 400 unless it asks for nothing or the route lists it in allow_fields. " + does}
		default:
			rules[f.Name] = object{"description": "Refused with 400 unless it asks for nothing. " + does, "enum": noEffect}
		}
	}
	return object{"type": "object", "properties": rules}
}

// load parses a document, which must be valid.
func load(t *testing.T, document []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestTheDocumentRefusesWhatTheGatewayRefuses gives each field that the document describes values of all types. Only of
// the fields that a route may allow does the document not know what becomes of them.
func TestTheDocumentRefusesWhatTheGatewayRefuses(t *testing.T) {
	document := makeDocument("public", []string{"/v1/embeddings"})
	doc := load(t, document)
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", decoded); err != nil {
		t.Fatal(err)
	}
	for _, request := range []struct {
		kind   openai.Kind
		schema string
		body   string
	}{
		{openai.Chat, "ChatCompletionRequest", `{"model":"m","messages":[{"role":"user"}]`},
		{openai.Completion, "CompletionRequest", `{"model":"m","prompt":"hi"`},
	} {
		schema := compiler.MustCompile("openapi.json#/components/schemas/" + request.schema)
		names := map[string]bool{}
		for _, s := range []string{request.schema, "GenerationFields", "FieldRules"} {
			for name := range doc.Components.Schemas[s].Value.Properties {
				names[name] = true
			}
		}
		for name := range names {
			switch name {
			case "model", "messages", "prompt":
				continue
			}
			if openai.LookupField(name).Verdict == openai.FieldRefused {
				continue
			}
			for _, value := range []string{`null`, `false`, `"x"`, `""`, `-1`, `3`, `1.5`, `[]`, `[{}]`, `["x"]`, `[1]`, `{}`, `{"1":200}`} {
				agree(t, schema, request.kind, request.body+`,"`+name+`":`+value+`}`)
			}
		}
	}
	schema := compiler.MustCompile("openapi.json#/components/schemas/ChatCompletionRequest")
	for _, body := range []string{
		`{}`,
		`{"model":"m"}`,
		`{"model":"","messages":[{"role":"user"}]}`,
		`{"model":1,"messages":[{"role":"user"}]}`,
		`{"model":"m","messages":[]}`,
		`{"model":"m","messages":null}`,
		`{"model":"m","messages":[{}]}`,
		`{"model":"m","messages":[{"role":1}]}`,
		`{"model":"m","messages":["x"]}`,
		`{"model":"m","messages":[{"role":"user","content":1}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`,
		`{"model":"m","messages":[{"role":"user"}],"stream_options":{"include_usage":1}}`,
		`{"model":"m","messages":[{"role":"user"}],"unknown":{"a":1}}`,
	} {
		agree(t, schema, openai.Chat, body)
	}
	schema = compiler.MustCompile("openapi.json#/components/schemas/CompletionRequest")
	for _, body := range []string{
		`{"model":"m"}`,
		`{"model":"m","prompt":null}`,
		`{"model":"m","prompt":1}`,
		`{"model":"m","prompt":["a"]}`,
		`{"model":"m","prompt":[1,2]}`,
		`{"model":"m","prompt":[[1],[2]]}`,
		`{"model":"m","prompt":[{}]}`,
	} {
		agree(t, schema, openai.Completion, body)
	}
}

// agree fails if one of document and gateway refuses a body and the other does not.
func agree(t *testing.T, schema *jsonschema.Schema, kind openai.Kind, body string) {
	t.Helper()
	decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	ofDocument := schema.Validate(decoded)
	_, ofGateway := openai.Scan(kind, []byte(body), openai.DefaultLimits())
	if refused := (*openai.RequestError)(nil); errors.As(ofGateway, &refused) != (ofDocument != nil) {
		t.Errorf("%s of %v: the gateway says %v, the document %v: correct gateway/openapi/public.json", body, kind, ofGateway, ofDocument)
	}
}

func TestTheDocumentsAreValidAndWithoutNulls(t *testing.T) {
	for _, listener := range []string{"public", "admin"} {
		document := makeDocument(listener, nil)
		if load(t, document); bytes.Contains(document, []byte(":null")) {
			t.Errorf("%s: a member is null, which OpenAPI does not know", listener)
		}
	}
}
