// Package openapi makes the two OpenAPI 3.1 documents of the gateway: of the public listener (/openapi.json) and of the
// admin listener (/admin/openapi.json). Start at [Public] and [Admin]. It opens no files and uses no network; the same
// tables give the same bytes.
//
// public.json and admin.json are written by hand: paths and bodies, and the headers of the admin listener. What the
// gateway has as a table is added to them: headers and error codes of package gateway (headers.go, errorcodes.go), and
// the request fields of tiers/openai that are removed, refused or forbidden.
//
// A new path goes into public.json or admin.json, with a request that the test in gateway/app/openapi_test.go sends. That
// test holds each answer to its schema: a member that the schema does not have fails it. A new error code is one row of
// gateway.ErrorCodes, and make docs. Tests fail until this is done, and their messages say what is missing.
package openapi

import (
	_ "embed" // of the documents
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

//go:embed public.json
var publicDocument []byte

//go:embed admin.json
var adminDocument []byte

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
	Statuses []int  // HTTP statuses that it occurs with
	Type     string // of the error body; "" is that of its status
	Final    bool   // a retry does not help, although the status is of the 5xx
	At       Listener
	Meaning  string // a sentence
}

// Tables is what is added to the documents.
type Tables struct {
	RequestHeaders  []Header
	ResponseHeaders []Header
	ErrorCodes      []ErrorCode
	Forward         []string // paths that are passed through to the target
}

// object is a JSON object.
type object = map[string]any

// document is an OpenAPI document.
type document struct {
	OpenAPI     string            `json:"openapi"`
	Info        object            `json:"info"`
	Paths       map[string]object `json:"paths"`
	Passthrough object            `json:"passthrough,omitempty"` // the path item of paths that are passed through
	Components  struct {
		Headers         object            `json:"headers"`
		Parameters      object            `json:"parameters"`
		Responses       object            `json:"responses"`
		Schemas         map[string]object `json:"schemas"`
		SecuritySchemes map[string]object `json:"securitySchemes"`
	} `json:"components"`
}

func parse(name string, data []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("openapi: %s: %w", name, err)
	}
	d.Components.Responses, d.Components.Parameters = object{}, object{}
	return d, nil
}

// Admin returns the document of the admin listener.
func Admin(t Tables) ([]byte, error) {
	d, err := parse("admin.json", adminDocument)
	if err != nil {
		return nil, err
	}
	d.addRefusals(t.ErrorCodes, AtAdmin, []string{"Retry-After", "X-Should-Retry", "WWW-Authenticate"})
	return json.Marshal(d)
}

// ofAnswers are headers of the public listener that no refusal has.
var ofAnswers = []string{"ETag", "Age", "X-Tier", "X-Acceptance", "Server-Timing"}

// Public returns the document of the public listener.
func Public(t Tables) ([]byte, error) {
	d, err := parse("public.json", publicDocument)
	if err != nil {
		return nil, err
	}
	for _, path := range t.Forward {
		if d.Paths[path] == nil {
			d.Paths[path] = forwarded(path, d.Passthrough)
		}
	}
	d.Passthrough = nil
	d.Components.Schemas["FieldRules"] = fieldRules()
	for _, h := range flatten(t.RequestHeaders) {
		if !d.isCredential(h.Name) {
			d.Components.Parameters[h.Name] = object{
				"name": h.Name, "in": "header", "required": false, "description": h.Meaning, "schema": valuesSchema(h.Values),
			}
		}
	}
	for _, h := range flatten(t.ResponseHeaders) {
		d.Components.Headers[h.Name] = object{"description": h.Meaning, "schema": valuesSchema(h.Values)}
	}
	refusing := slices.DeleteFunc(slices.Sorted(maps.Keys(d.Components.Headers)), func(name string) bool { return slices.Contains(ofAnswers, name) })
	d.addRefusals(t.ErrorCodes, AtPublic, refusing)
	return json.Marshal(d)
}

// forwarded returns the item of a path that is passed through.
func forwarded(path string, template object) object {
	post := maps.Clone(template["post"].(object))
	words := strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/_.-", c) })
	id := "post"
	for _, word := range words {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	post["operationId"] = id
	return object{"post": post}
}

// addRefusals adds the responses with an error body, one for each status, and the codes to the schema of the body.
func (d *document) addRefusals(codes []ErrorCode, at Listener, headers []string) {
	all, byStatus, meanings := []string{}, map[int][]string{http.StatusNotFound: {}, http.StatusMethodNotAllowed: {}}, map[int]string{}
	for _, c := range codes {
		if c.At != AtBoth && c.At != at {
			continue
		}
		all = append(all, c.Code)
		for _, status := range c.Statuses {
			byStatus[status] = append(byStatus[status], c.Code)
			meanings[status] += fmt.Sprintf("\n- `%s`: %s", c.Code, c.Meaning)
		}
	}
	references := object{}
	for _, name := range headers {
		references[name] = reference("headers", name)
	}
	for status, codes := range byStatus {
		code := object{"properties": object{"error": object{"properties": object{"code": object{"enum": codes}}}}}
		d.Components.Responses["Refused"+strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ". The code in the body says more:" + meanings[status],
			"headers":     references,
			"content":     object{"application/json": object{"schema": object{"allOf": []any{reference("schemas", "Error"), code}}}},
		}
	}
	d.Components.Schemas["ErrorBody"]["properties"].(object)["code"].(object)["enum"] = all
}

func reference(kind, name string) object {
	return object{"$ref": "#/components/" + kind + "/" + name}
}

// isCredential reports whether a header is described by a security scheme, so it is no parameter.
func (d *document) isCredential(name string) bool {
	for _, scheme := range d.Components.SecuritySchemes {
		if scheme["name"] == name {
			return true
		}
	}
	return name == "Authorization"
}

// flatten returns a row for each header, two for a row that describes two.
func flatten(headers []Header) (all []Header) {
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
