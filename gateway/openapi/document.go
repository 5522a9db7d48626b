package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Header is one header of the public listener.
type Header struct {
	Name    string // two headers that differ in the last word: "X-RateLimit-Limit-Requests, -Tokens"
	Values  string // in Markdown
	Meaning string
}

// Listener is the listener at which an error code occurs.
type Listener uint8

// The listeners.
const (
	AtBoth Listener = iota
	AtPublic
	AtAdmin
)

// String names the listener: public, admin, or both.
func (l Listener) String() string { return [...]string{"both", "public", "admin"}[l] }

// ErrorCode is one code of an error body.
type ErrorCode struct {
	Code     string
	Statuses []int // HTTP statuses that it occurs with
	At       Listener
	Meaning  string // a sentence
}

// Tables is what the documents are made from, besides this package's own tables.
type Tables struct {
	RequestHeaders  []Header
	ResponseHeaders []Header
	ErrorCodes      []ErrorCode
	Forward         []string                 // paths that are passed through to the target
	Scope           func(path string) string // scope that a path of the admin listener requires, "" for none
}

// object is a JSON object.
type object = map[string]any

// document collects one document.
type document struct {
	tables  Tables
	at      Listener
	info    object
	schemas map[string]json.RawMessage

	parameters object // components.parameters
	headers    object // components.headers
	security   object // components.securitySchemes

	requirement func(operation) []object // security of an operation
	kinds       map[kind]common
	refusing    []string // names in headers that a refusal may have
}

// common is what the operations of a kind have in common.
type common struct {
	parameters []string // names in parameters
	headers    []string // names in headers that a good answer may have
	refusals   []int    // statuses of refusals
}

// encode returns the document with these operations.
func (d *document) encode(operations []operation) ([]byte, error) {
	paths := map[string]object{}
	statuses := map[int]bool{http.StatusNotFound: true, http.StatusMethodNotAllowed: true} // of paths and methods that are not there
	for _, o := range operations {
		if paths[o.path] == nil {
			paths[o.path] = object{}
		}
		paths[o.path][strings.ToLower(o.method)] = d.operation(o)
		for _, status := range d.refusals(o) {
			statuses[status] = true
		}
	}
	responses := object{}
	for status := range statuses {
		responses[refusalName(status)] = d.refusal(status)
	}
	schemas := object{"Error": errorSchema, "ErrorBody": d.errorBody()}
	for name, schema := range d.schemas {
		schemas[name] = schema
	}
	return json.Marshal(object{
		"openapi": "3.1.0", "info": d.info, "paths": paths,
		"components": object{
			"schemas": schemas, "responses": responses, "parameters": d.parameters, "headers": d.headers, "securitySchemes": d.security,
		},
	})
}

// operation returns one operation.
func (d *document) operation(o operation) object {
	responses := object{}
	for _, a := range o.answers {
		responses[strconv.Itoa(a.status)] = d.answer(o, a)
	}
	for _, status := range d.refusals(o) {
		name := strconv.Itoa(status)
		if _, own := responses[name]; !own {
			responses[name] = reference("responses", refusalName(status))
		}
	}
	out := object{
		"operationId": o.id(), "summary": o.summary, "tags": []string{o.tag}, "responses": responses, "security": d.requirement(o),
	}
	if o.about != "" {
		out["description"] = o.about
	}
	var parameters []object
	for _, p := range o.parameters {
		parameters = append(parameters, p.object())
	}
	for _, name := range d.kinds[o.kind].parameters {
		parameters = append(parameters, reference("parameters", name))
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if o.body != nil {
		out["requestBody"] = object{"required": !o.optional, "content": object{"application/json": object{"schema": o.body}}}
	}
	return out
}

// refusals returns the statuses of an operation's refusals, ascending.
func (d *document) refusals(o operation) []int {
	all := slices.Concat(d.kinds[o.kind].refusals, o.refusals)
	slices.Sort(all)
	return slices.Compact(all)
}

// answer returns a response that is no refusal in the usual form.
func (d *document) answer(o operation, a answer) object {
	out := object{"description": a.about}
	names := d.kinds[o.kind].headers
	if a.status >= http.StatusBadRequest {
		names = d.refusing
	}
	if headers := d.headerReferences(append(slices.Clone(names), a.headers...)); len(headers) > 0 {
		out["headers"] = headers
	}
	content := object{}
	for kind, schema := range a.content {
		content[kind] = object{}
		if schema != nil {
			content[kind] = object{"schema": schema}
		}
	}
	if len(content) > 0 && o.method != http.MethodHead {
		out["content"] = content
	}
	return out
}

// refusal returns the response with an error body and a status.
func (d *document) refusal(status int) object {
	codes, lines := []string{}, []string{}
	for _, c := range d.tables.ErrorCodes {
		if d.occurs(c) && slices.Contains(c.Statuses, status) {
			codes = append(codes, c.Code)
			lines = append(lines, fmt.Sprintf("- `%s`: %s", c.Code, c.Meaning))
		}
	}
	code := object{"properties": object{"error": object{"properties": object{"code": object{"enum": codes}}}}}
	return object{
		"description": http.StatusText(status) + ". The code in the body says more:\n" + strings.Join(lines, "\n"),
		"headers":     d.headerReferences(d.refusing),
		"content":     object{"application/json": object{"schema": object{"allOf": []any{reference("schemas", "Error"), code}}}},
	}
}

// errorSchema is the body of all refusals, in OpenAI's form.
var errorSchema = object{"type": "object", "required": []string{"error"}, "properties": object{
	"error":    view("ErrorBody"),
	"problems": object{"type": "array", "items": text(), "description": "With settings_refused: one line for each setting."},
}}

// errorBody returns the schema of what an error says.
func (d *document) errorBody() object {
	codes := []string{}
	for _, c := range d.tables.ErrorCodes {
		if d.occurs(c) {
			codes = append(codes, c.Code)
		}
	}
	return object{
		"type": "object", "required": []string{"message", "type", "code"},
		"properties": object{
			"message": object{"type": "string", "description": "For people."},
			"type":    object{"type": "string", "description": errorTypes},
			"param":   object{"type": []string{"string", "null"}, "description": "The field, header or parameter at fault; null if none is."},
			"code":    object{"type": "string", "description": "For programs.", "enum": codes},
		},
	}
}

const errorTypes = "The kind, as OpenAI names it: invalid_request_error, authentication_error, permission_error, overloaded_error, …"

func (d *document) occurs(c ErrorCode) bool { return c.At == AtBoth || c.At == d.at }

// headerReferences refers to headers by their names.
func (d *document) headerReferences(names []string) object {
	out := object{}
	for _, name := range names {
		out[name] = reference("headers", name)
	}
	return out
}

func refusalName(status int) string { return "Refused" + strconv.Itoa(status) }

func reference(kind, name string) object {
	return object{"$ref": "#/components/" + kind + "/" + name}
}

// parseSchemas parses a file of schemas.
func parseSchemas(name string, data []byte) (map[string]json.RawMessage, error) {
	var schemas map[string]json.RawMessage
	if err := json.Unmarshal(data, &schemas); err != nil {
		return nil, fmt.Errorf("openapi: %s: %w", name, err)
	}
	return schemas, nil
}

// names returns the names of components in order.
func names(components object) []string { return slices.Sorted(maps.Keys(components)) }
