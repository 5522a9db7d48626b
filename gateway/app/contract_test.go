package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// contract is an OpenAPI document that requests and answers are held to.
type contract struct {
	doc    *openapi3.T
	router routers.Router
	base   string // URL of the listener
	called map[string]bool
}

// call is a request that is sent, and the status that answers it.
type call struct {
	method, path string // the path with its query
	body         string // JSON
	headers      []string
	status       int
	wrong        bool // the request is not as the document wants it
}

// closedSchemas are the schemas of the public document without further members; those of engines' answers are open.
var closedSchemas = []string{"Error", "ErrorBody", "ModelList", "Outcome"}

// contractOf gets the document of a listener and checks it. closed: no answer has members that the document does not
// name.
func contractOf(t *testing.T, base, path string, closed bool, headers ...string) *contract {
	t.Helper()
	for _, kind := range []string{"text/event-stream", "application/x-ndjson", "application/openmetrics-text", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
	status, _, text := apptest.Send(t, http.MethodGet, base+path, "", headers...)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d: %s", path, status, text)
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	if closed {
		closeObjects(decoded)
	}
	schemas := decoded["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range closedSchemas {
		closeObjects(schemas[name])
	}
	strict, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(strict)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatalf("%s is no OpenAPI document: %v", path, err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &contract{doc: doc, router: router, base: base, called: map[string]bool{}}
}

// closeObjects forbids members that a schema of an object does not name.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, said := v["additionalProperties"]; v["type"] == "object" && v["properties"] != nil && !said {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, element := range v {
			closeObjects(element)
		}
	}
}

// options are those of all checks.
var options = &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}

func (c *call) request(t *testing.T, base string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(c.headers); i += 2 {
		req.Header.Set(c.headers[i], c.headers[i+1])
	}
	return req
}

// What to do about an answer that is not as the document has it.
const (
	correctAnswer = "the answer is not as the document has it: correct gateway/openapi/*.json, or the tables (gateway/testdata/headers.json, gateway/errorcodes.go)"
	correctHeader = "add it to gateway/testdata/headers.json, or to the answer in gateway/openapi/*.json"
)

// check sends a request and holds both it and its answer to the document. It returns the answer's body.
func (c *contract) check(t *testing.T, k call) string {
	t.Helper()
	resp, err := apptest.Client.Do(k.request(t, c.base))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or its error counts
	if err != nil {
		t.Fatalf("%s %s: %v", k.method, k.path, err)
	}
	body := string(text)
	where := fmt.Sprintf("%s %.80s: %d: %.300s", k.method, k.path, resp.StatusCode, body)
	if resp.StatusCode != k.status {
		t.Errorf("%s: want %d", where, k.status)
		return body
	}
	input := c.find(t, k)
	if k.status != http.StatusNotFound && k.status != http.StatusMethodNotAllowed || input.Route.Path != "" {
		if err := openapi3filter.ValidateRequest(t.Context(), input); (err != nil) != k.wrong {
			t.Errorf("%s: the document says of the request: %.500v; wrong: %v", where, err, k.wrong)
		}
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Options: options,
		Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(strings.NewReader(body)),
	})
	if err != nil {
		t.Errorf("%s: %s: %.2000v", where, correctAnswer, err)
	}
	c.checkHeaders(t, where, input.Route.Operation, resp)
	if resp.StatusCode < http.StatusBadRequest {
		c.called[k.method+" "+input.Route.Path] = true
		c.checkLines(t, where, input.Route.Path, resp.Header.Get("Content-Type"), body)
	}
	return body
}

// find returns the operation of a request. For a path or a method that is not there, the answers are those for such.
func (c *contract) find(t *testing.T, k call) *openapi3filter.RequestValidationInput {
	t.Helper()
	req := k.request(t, c.base)
	route, parameters, err := c.router.FindRoute(req)
	if err != nil {
		if k.status != http.StatusNotFound && k.status != http.StatusMethodNotAllowed {
			t.Fatalf("%s %s is answered %d and not in the document: %v", k.method, k.path, k.status, err)
		}
		refusal := c.doc.Components.Responses["Refused"+strconv.Itoa(k.status)]
		responses := openapi3.NewResponses(openapi3.WithStatus(k.status, refusal))
		route = &routers.Route{Spec: c.doc, Method: k.method, Operation: &openapi3.Operation{Responses: responses}}
	}
	return &openapi3filter.RequestValidationInput{Request: req, PathParams: parameters, Route: route, Options: options}
}

// usualHeaders are headers of HTTP and of browsers that documents do not list.
var usualHeaders = []string{
	"Accept-Ranges", "Allow", "Cache-Control", "Connection", "Content-Disposition", "Content-Length", "Content-Security-Policy", "Content-Type",
	"Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Date", "Last-Modified", "Location", "Referrer-Policy", "Set-Cookie", "Vary",
	"X-Accel-Buffering", "X-Content-Type-Options", "X-Go-Pprof",
}

// checkHeaders fails for a header that the document does not have for a response.
func (c *contract) checkHeaders(t *testing.T, where string, o *openapi3.Operation, resp *http.Response) {
	t.Helper()
	described := o.Responses.Status(resp.StatusCode)
	for name := range resp.Header {
		if described == nil || slices.Contains(usualHeaders, name) {
			continue
		}
		listed := false
		for header := range described.Value.Headers {
			listed = listed || http.CanonicalHeaderKey(header) == name
		}
		if !listed {
			t.Errorf("%s: the document does not have the header %s of this answer: %s", where, name, correctHeader)
		}
	}
}

// lineSchemas are the schemas of the events and lines in answers that are no JSON documents.
var lineSchemas = map[string]string{
	"/v1/chat/completions": "ChatCompletionChunk", "/v1/completions": "Completion", "/admin/receipts": "Receipt",
}

// checkLines holds each event of a stream, and each line of JSON lines, to its schema.
func (c *contract) checkLines(t *testing.T, where, path, kind, body string) {
	t.Helper()
	if lineSchemas[path] == "" || strings.HasPrefix(kind, "application/json") {
		return
	}
	schema := c.doc.Components.Schemas[lineSchemas[path]].Value
	n := 0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var decoded any
		if err := json.Unmarshal([]byte(line), &decoded); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := schema.VisitJSON(decoded, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: a line is no %s: %v", where, lineSchemas[path], err)
		}
		n++
	}
	if n == 0 {
		t.Errorf("%s: it has no line", where)
	}
}

// checkAllCalled fails for an operation that no call has reached. table is where to add one.
func (c *contract) checkAllCalled(t *testing.T, table string, except ...string) {
	t.Helper()
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			if name := method + " " + path; !c.called[name] && !slices.Contains(except, name) {
				t.Errorf("no test calls %s with success: add a call to %s in gateway/app/openapi_test.go", name, table)
			}
		}
	}
}
