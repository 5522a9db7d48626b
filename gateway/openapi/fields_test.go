package openapi

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/foregate/foregate/tiers/openai"
)

// tables are what documents need: package gateway has the real ones.
var tables = Tables{
	RequestHeaders: named("X-Tenant-ID", "X-Priority", "X-Request-ID", "X-Tier", "X-RAG-Hash", "X-Acceptance-Mode", "X-Stainless-Retry-Count", "Cache-Control", "traceparent"),
	ResponseHeaders: named("X-Request-ID", "Request-Id", "X-Content-Type-Options", "X-Tier", "X-Acceptance", "X-Cache", "Age", "Server-Timing", "Retry-After",
		"X-Should-Retry", "X-Shed-Reason", "X-RateLimit-Limit-Requests, -Tokens", "X-RateLimit-Remaining-Requests, -Tokens", "X-RateLimit-Reset-Requests, -Tokens"),
	Forward:    []string{"/v1/embeddings"},
	ErrorCodes: []ErrorCode{{Code: "any", Statuses: []int{400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 431, 500, 501, 502, 503, 504}, Meaning: "All."}},
}

func named(names ...string) (headers []Header) {
	for _, name := range names {
		headers = append(headers, Header{Name: name})
	}
	return headers
}

// load parses a document, which must be valid.
func load(t *testing.T, document []byte, err error) *openapi3.T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	document, err := Public(tables)
	doc := load(t, document, err)
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

func TestTheSameTablesGiveTheSameDocumentWithoutNulls(t *testing.T) {
	for range 5 {
		for name, encode := range map[string]func(Tables) ([]byte, error){"public": Public, "admin": Admin} {
			first, err := encode(tables)
			load(t, first, err)
			if second, _ := encode(tables); string(first) != string(second) {
				t.Errorf("%s: two documents differ", name)
			}
			if bytes.Contains(first, []byte(":null")) {
				t.Errorf("%s: a member is null, which OpenAPI does not know", name)
			}
		}
	}
}

func TestAHeaderWithAKeyIsASecuritySchemeAndNoParameter(t *testing.T) {
	withKeys := tables
	withKeys.RequestHeaders = append([]Header{{Name: "Authorization", Values: "`Bearer KEY`"}, {Name: "X-Api-Key", Values: "`KEY`"}}, tables.RequestHeaders...)
	document, err := Public(withKeys)
	doc := load(t, document, err)
	schemes := map[string]string{} // by header
	for name, s := range doc.Components.SecuritySchemes {
		schemes[s.Value.Name] = name
	}
	for _, header := range []string{"Authorization", "X-Api-Key"} {
		if doc.Components.Parameters[header] != nil {
			t.Errorf("%s is a parameter", header)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/models", "/v1/models/{model}", "/v1/embeddings"} {
		for method, o := range doc.Paths.Value(path).Operations() {
			for _, header := range []string{"X-Api-Key"} {
				accepted := slices.ContainsFunc(*o.Security, func(r openapi3.SecurityRequirement) bool { return r[schemes[header]] != nil })
				if schemes[header] == "" || !accepted {
					t.Errorf("%s %s does not accept %s", method, path, header)
				}
			}
		}
	}
}
