package openapi

import (
	_ "embed" // of the schemas
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/fields"
)

//go:embed public.schemas.json
var publicSchemas []byte

// publicInfo introduces the document.
var publicInfo = object{
	"title": "Foregate", "version": "1",
	"description": "An OpenAI-compatible gateway for vLLM pools. Clients of OpenAI work unchanged; this document has what Foregate " +
		"adds, removes and refuses. Members of requests and answers that it does not name are passed on as they are. " +
		"The paths with the tag passthrough are those of `passthrough` in the gateway's configuration. " +
		"A path that is not here is answered as the response Refused404 says, another method as Refused405.",
}

// publicOperations are the operations that are always there.
var publicOperations = []operation{
	{
		method: http.MethodPost, path: "/v1/chat/completions", tag: "generation", kind: generates,
		summary: "Answer a chat.",
		about: "With `stream: true` the answer is a stream of events: `data: ` with a ChatCompletionChunk each, or with an Error that ends " +
			"the stream, and `data: [DONE]` after a whole answer.",
		body:     view("ChatCompletionRequest"),
		answers:  generated("ChatCompletion"),
		refusals: generationRefusals,
	},
	{
		method: http.MethodPost, path: "/v1/completions", tag: "generation", kind: generates,
		summary:  "Continue a prompt.",
		about:    "With `stream: true` the answer is a stream of events, as for chats; each holds a Completion.",
		body:     view("CompletionRequest"),
		answers:  generated("Completion"),
		refusals: generationRefusals,
	},
	{
		method: http.MethodPost, path: "/v1/responses", tag: "generation", kind: generates,
		summary: "Answer a request of the Responses API.",
		about: "It is answered as a chat. Nothing is stored: what needs stored state, or a tool that the server runs, is refused by name, or " +
			"forwarded to the target if `passthrough` lists the path. With `stream: true` the answer is a stream of that API's events.",
		body:     view("ResponsesRequest"),
		answers:  generated("ResponsesAnswer"),
		refusals: generationRefusals,
	},
	{
		method: http.MethodPost, path: "/v1/messages", tag: "generation", kind: generates,
		summary: "Answer a request of the Messages API.",
		about: "It is answered as a chat. What needs a tool or a memory of the server is refused by name, or forwarded to the target if " +
			"`passthrough` lists the path. With `stream: true` the answer is a stream of that API's events. A refusal has that API's form: " +
			"`{\"type\": \"error\", \"error\": {\"type\", \"message\"}}`.",
		body:     view("MessagesRequest"),
		answers:  generated("MessagesAnswer"),
		refusals: generationRefusals,
	},
	{
		method: http.MethodGet, path: "/v1/models", tag: "generation",
		summary: "List the models that the caller may use.",
		about:   "With the header `Anthropic-Version` the list has the form of the Messages API.",
		answers: ok("The models.", view("ModelList")),
	},
	{
		method: http.MethodGet, path: "/v1/models/{model}", tag: "generation",
		summary:    "Show one model.",
		about:      "With the header `Anthropic-Version` it has the form of the Messages API.",
		parameters: []parameter{{name: "model", in: "path", required: true, meaning: "A model of the list.", schema: text()}},
		answers:    ok("The model.", view("Model")),
		refusals:   []int{404},
	},
	liveness(http.MethodGet),
	liveness(http.MethodHead),
	readiness(http.MethodGet),
	readiness(http.MethodHead),
	self(http.MethodGet, "/openapi.json", open),
	self(http.MethodHead, "/openapi.json", open),
}

// generationRefusals are the statuses of refusals of a request to a model, besides those of all operations.
var generationRefusals = []int{404, 408, 413, 415, 422, 501, 502, 503, 504}

// generated is the answer of a model: one object, or a stream.
func generated(schema string) []answer {
	return []answer{{status: 200, about: "The answer, whole or as a stream.", content: map[string]object{
		"application/json": view(schema), "text/event-stream": text(),
	}}}
}

// liveness is /livez.
func liveness(method string) operation {
	return operation{
		method: method, path: "/livez", tag: "probes", kind: open,
		summary: "Tell whether the process runs.",
		answers: []answer{page(200, "It does.", "text/plain")},
	}
}

// readiness is /readyz.
func readiness(method string) operation {
	return operation{
		method: method, path: "/readyz", tag: "probes", kind: open,
		summary: "Tell whether new requests should come here.",
		answers: []answer{
			page(200, "It should; then a line for each route, and for Redis.", "text/plain"),
			page(404, "There is no such route.", "text/plain"),
			page(503, "It should not; the first line says why.", "text/plain"),
		},
		parameters: []parameter{{name: "route", meaning: "A route that must be able to serve, too. It may be given many times.", schema: texts}},
	}
}

// self is the path of a document.
func self(method, path string, k kind) operation {
	etag := []string{"ETag"}
	return operation{
		method: method, path: path, tag: "document", kind: k,
		summary:    "Get this document.",
		parameters: []parameter{{name: "If-None-Match", in: "header", meaning: "The ETag of a copy: 304 if that is still the document."}},
		answers: []answer{
			{status: 200, about: "This document.", content: map[string]object{"application/json": {"type": "object"}}, headers: etag},
			{status: 304, about: "The copy is the document.", headers: etag},
		},
	}
}

// forwarded is a path that is passed through.
func forwarded(path string) operation {
	return operation{
		method: http.MethodPost, path: path, tag: "passthrough", kind: generates,
		summary: "Ask the target's engine.",
		about: "The request goes to an engine of the model's target pool, with the model's name there, after the same checks of its fields " +
			"as a chat. The engine's documentation describes it.",
		body: view("PassthroughRequest"),
		answers: []answer{{status: 200, about: "The engine's answer.", content: map[string]object{
			"application/json": {}, "text/event-stream": text(),
		}}},
		refusals: generationRefusals,
	}
}

// Public returns the document of the public listener.
func Public(t Tables) ([]byte, error) {
	schemas, err := parseSchemas("public.schemas.json", publicSchemas)
	if err != nil {
		return nil, err
	}
	if schemas["FieldRules"], err = json.Marshal(fieldRules()); err != nil {
		return nil, fmt.Errorf("openapi: the rules of request fields: %w", err)
	}
	operations := slices.Clone(publicOperations)
	for _, path := range t.Forward {
		if !slices.ContainsFunc(operations, func(o operation) bool { return o.path == path }) {
			operations = append(operations, forwarded(path))
		}
	}
	d := &document{
		tables: t, at: AtPublic, info: publicInfo, schemas: schemas, security: publicSecurity,
		headers: headerComponents(t.ResponseHeaders), parameters: headerParameters(t.RequestHeaders),
	}
	d.headers["ETag"] = object{"description": "Of this document.", "schema": text()}
	d.requirement = func(o operation) []object {
		if o.kind == open {
			return []object{}
		}
		return []object{{"key": []string{}}, {"bareKey": []string{}}, {}}
	}
	d.refusing = without(names(d.headers), "ETag", "Age", "X-Tier", "X-Acceptance", "Server-Timing")
	always, anybody := []string{"X-Request-ID", "X-Content-Type-Options"}, []int{400, 403, 431, 500}
	known := append([]int{401, 429}, anybody...)
	d.kinds = map[kind]common{
		open:  {parameters: []string{"X-Request-ID"}, headers: always, refusals: anybody},
		plain: {parameters: []string{"X-Priority", "X-Request-ID", "X-Tenant-ID"}, headers: always, refusals: known},
		generates: {
			parameters: names(d.parameters), refusals: known,
			headers: without(names(d.headers), "ETag", "Retry-After", "X-Should-Retry", "X-Shed-Reason"),
		},
	}
	return d.encode(operations)
}

// publicSecurity are the ways in which a client says who it is (identity.mode).
var publicSecurity = object{
	"key": object{"type": "http", "scheme": "bearer",
		"description": "A tenant's key (identity mode keys) or a JSON Web Token (mode jwt). In mode trusted_headers, X-Tenant-ID " +
			"names the tenant; without tenants nobody is asked.",
	},
	"bareKey": object{
		"type": "apiKey", "in": "header", "name": "X-Api-Key",
		"description": "The same key or token as with the scheme key, for clients that send it here (Anthropic's). Only one of both may be given.",
	},
}

// without returns the names except some.
func without(all []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

// fieldRules is the schema of the fields that are not simply forwarded.
func fieldRules() object {
	rules := object{}
	for _, f := range fields.Table {
		rules[f.Name] = fieldSchema(f)
	}
	return object{"type": "object", "properties": rules}
}

// noEffect are the values with which no field is refused.
var noEffect = []any{nil, false, []any{}, object{}, ""}

// fieldSchema returns the schema of a field by its verdict.
func fieldSchema(f fields.Field) object {
	does := "An engine (" + f.Engines + ") " + f.Effect + "."
	switch f.Verdict {
	case fields.Stripped:
		return object{"description": "Removed. " + does}
	case fields.Refused:
		return object{"description": "Refused with 400 unless it asks for nothing or the route lists it in allow_fields. " + does}
	}
	return object{"description": "Refused with 400 unless it asks for nothing. " + does, "enum": noEffect}
}
