package openapi

import (
	"strings"
	"unicode"
)

// operation is one method of one path.
type operation struct {
	method, path string
	tag          string
	summary      string
	about        string // more about it; "" is nothing
	parameters   []parameter
	body         object // schema of the request's body, which is JSON; nil is no body
	optional     bool   // the body may be left out
	answers      []answer
	refusals     []int // statuses with an error body, besides those of all operations
	kind         kind
}

// kind says what an operation has in common with others of its listener.
type kind uint8

const (
	plain     kind = iota // needs the caller's identity or an operator's token
	open                  // needs neither
	generates             // answers from a model
)

// answer is a response that is not a refusal in the usual form.
type answer struct {
	status  int
	about   string
	content map[string]object // schemas by media type; a nil schema is any body
	headers []string          // in components.headers, besides the usual ones
}

// id returns the name of the operation for generated clients: getAdminRiskFrontier.
func (o operation) id() string {
	words := strings.FieldsFunc(o.path, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	var b strings.Builder
	b.WriteString(strings.ToLower(o.method))
	for _, word := range words {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// parameter is one parameter of an operation.
type parameter struct {
	name     string
	in       string // header or path; "" is query
	required bool
	meaning  string
	schema   object // nil is a string
}

func (p parameter) object() object {
	in, schema := p.in, p.schema
	if in == "" {
		in = "query"
	}
	if schema == nil {
		schema = object{"type": "string"}
	}
	return object{"name": p.name, "in": in, "required": p.required, "description": p.meaning, "schema": schema}
}

// view refers to a schema of the schemas' file.
func view(name string) object { return reference("schemas", name) }

// list is a list of them.
func list(name string) object { return object{"type": "array", "items": view(name)} }

// members is an object that has all of these members.
func members(properties object) object {
	return object{"type": "object", "required": names(properties), "properties": properties}
}

// text is a string of these values, of any if there are none.
func text(values ...string) object {
	if len(values) == 0 {
		return object{"type": "string"}
	}
	return object{"type": "string", "enum": values}
}

// texts is a list of strings.
var texts = object{"type": "array", "items": text()}

// whole is a whole number of at least minimum.
func whole(minimum int) object { return object{"type": "integer", "minimum": minimum} }

// ok is the usual answer.
func ok(about string, schema object) []answer {
	return []answer{{status: 200, about: about, content: map[string]object{"application/json": schema}}}
}

// page is an answer that is not JSON.
func page(status int, about, kind string) answer {
	return answer{status: status, about: about, content: map[string]object{kind: text()}}
}
