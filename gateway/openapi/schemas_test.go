package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite admin.schemas.json")

// folders are the packages with types of answers, by what the names of their schemas begin with.
var folders = map[string]string{"": "..", "Usage": "../usage"}

// ownForms are types that encode themselves as another type of JSON.
var ownForms = map[string]object{"UsageNanos": {"type": "number"}}

// goType is a type of a package. Its schema is found by its name.
type goType struct {
	*ast.TypeSpec
	prefix string // of its package's schemas
}

// source are the types by the names of their schemas.
type source struct {
	types  map[string]goType
	values map[string][]string // constants by their types
}

// readSource parses the packages.
func readSource(t *testing.T) source {
	t.Helper()
	s := source{types: map[string]goType{}, values: map[string][]string{}}
	for prefix, dir := range folders {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			s.read(t, file, prefix)
		}
	}
	return s
}

// read adds the types and constants of a file.
func (s source) read(t *testing.T, file *ast.File, prefix string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			name := prefix + schemaName(n.Name.Name)
			if _, known := s.types[name]; !known || isView(n.Name.Name) {
				s.types[name] = goType{n, prefix}
			}
		case *ast.ValueSpec:
			kind, named := n.Type.(*ast.Ident)
			if !named || len(n.Values) != 1 {
				return true
			}
			if value, isLiteral := n.Values[0].(*ast.BasicLit); isLiteral && value.Kind == token.STRING {
				name := prefix + schemaName(kind.Name)
				s.values[name] = append(s.values[name], unquoted(t, value.Value))
			}
		}
		return true
	})
}

// schemaName returns the name of a Go type's schema: receiptJSON is Receipt, planJSON, which is a part of it, is
// ReceiptPlan, actionResult is ActionResult.
func schemaName(goName string) string {
	part, isJSON := strings.CutSuffix(goName, "JSON")
	name := strings.ToUpper(part[:1]) + part[1:]
	if isJSON && part != "receipt" {
		return "Receipt" + name
	}
	return name
}

// isView reports whether a type is one of answers: another one may have the same schema's name.
func isView(goName string) bool { return ast.IsExported(goName) || strings.HasSuffix(goName, "JSON") }

func unquoted(t *testing.T, literal string) string {
	t.Helper()
	text, err := strconv.Unquote(literal)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// generator makes schemas of Go types.
type generator struct {
	t    *testing.T
	from source
	made object
}

// make makes the schema of a name, and of all that it refers to.
func (g *generator) make(name string) {
	if g.made[name] != nil || name == "ErrorBody" { // document.go makes that one
		return
	}
	spec, known := g.from.types[name]
	if !known {
		g.t.Errorf("the admin operations refer to the schema %s, and no package in folders has such a type", name)
		return
	}
	of, isStruct := spec.Type.(*ast.StructType)
	if !isStruct {
		g.t.Errorf("%s is not a struct", name)
		return
	}
	g.made[name] = object{} // it may refer to itself
	schema := object{"type": "object"}
	properties, required := object{}, []string{}
	g.fields(of, spec.prefix, properties, &required)
	schema["properties"], schema["required"] = properties, required
	g.made[name] = schema
}

// fields adds the members of a struct, and of those embedded in it.
func (g *generator) fields(of *ast.StructType, prefix string, properties object, required *[]string) {
	for _, f := range of.Fields.List {
		if len(f.Names) == 0 {
			embedded := g.from.types[prefix+schemaName(f.Type.(*ast.Ident).Name)]
			g.fields(embedded.Type.(*ast.StructType), prefix, properties, required)
			continue
		}
		if f.Tag == nil {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(unquoted(g.t, f.Tag.Value)).Get("json"), ",")
		left := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		schema := g.schemaOf(f.Type, prefix, !left)
		if about := strings.Join(strings.Fields(f.Comment.Text()+" "+onlyIf(f.Comment.Text() == "", f.Doc.Text())), " "); about != "" {
			schema["description"] = about
		}
		properties[name] = schema
		if !left {
			*required = append(*required, name)
		}
	}
}

func onlyIf(ok bool, text string) string {
	if ok {
		return text
	}
	return ""
}

// schemaOf returns the schema of a field's type in a package. nullable: a nil pointer is encoded as null.
func (g *generator) schemaOf(of ast.Expr, prefix string, nullable bool) object {
	switch of := of.(type) {
	case *ast.StarExpr:
		return orNull(g.schemaOf(of.X, prefix, false), nullable)
	case *ast.ArrayType:
		return object{"type": "array", "items": g.schemaOf(of.Elt, prefix, true)}
	case *ast.MapType:
		return object{"type": "object", "additionalProperties": g.schemaOf(of.Value, prefix, true)}
	case *ast.SelectorExpr:
		if of.Sel.Name == "Time" {
			return object{"type": "string", "format": "date-time"}
		}
	case *ast.Ident:
		switch of.Name {
		case "string", "bool":
			return object{"type": map[string]string{"string": "string", "bool": "boolean"}[of.Name]}
		case "float64":
			return object{"type": "number"}
		case "int", "int64", "uint64":
			return object{"type": "integer"}
		}
		name := prefix + schemaName(of.Name)
		if form := ownForms[name]; form != nil {
			return maps.Clone(form)
		}
		if values := g.from.values[name]; values != nil {
			return object{"type": "string", "enum": values}
		}
		g.make(name)
		return reference("schemas", name)
	}
	g.t.Errorf("teach schemaOf the type %T %v", of, of)
	return object{}
}

func orNull(schema object, nullable bool) object {
	switch kind, simple := schema["type"].(string); {
	case !nullable:
		return schema
	case simple:
		schema["type"] = []string{kind, "null"}
		return schema
	}
	return object{"anyOf": []any{schema, object{"type": "null"}}}
}

var schemaReference = regexp.MustCompile(`"#/components/schemas/([A-Za-z]+)"`)

func TestTheSchemasOfTheAdminListenerAreThoseOfItsTypes(t *testing.T) {
	g := &generator{t: t, from: readSource(t), made: object{}}
	var rows []object
	for _, o := range adminOperations {
		rows = append(rows, o.body)
		for _, a := range o.answers {
			for _, schema := range a.content {
				rows = append(rows, schema)
			}
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range schemaReference.FindAllSubmatch(text, -1) {
		g.make(string(found[1]))
	}
	g.make("Receipt") // of a list with one in each line
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(g.made); err != nil {
		t.Fatal(err)
	}
	const golden = "admin.schemas.json"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the schemas are not those of the Go types; go test ./gateway/openapi -update writes them. -file +types:\n%s", diff)
	}
}

// TestEachFieldThatTheGatewayReadsIsInTheRequestsSchema compares the schema with the names in tiers/openai/fields.go.
func TestEachFieldThatTheGatewayReadsIsInTheRequestsSchema(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../tiers/openai/fields.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if !isValue || spec.Names[0].Name != "readers" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			read[unquoted(t, e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)] = true
		}
		return false
	})
	if len(read) < 30 {
		t.Fatalf("found %d fields", len(read))
	}
	var schemas map[string]struct{ Properties object }
	if err := json.Unmarshal(publicSchemas, &schemas); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"GenerationFields", "ChatCompletionRequest", "CompletionRequest"} {
		for name := range schemas[schema].Properties {
			if !read[name] {
				t.Errorf("%s has %q, which the gateway does not read: remove it, it is passed on as it is", schema, name)
			}
		}
	}
	for name := range read {
		_, both := schemas["GenerationFields"].Properties[name]
		_, chat := schemas["ChatCompletionRequest"].Properties[name]
		_, completion := schemas["CompletionRequest"].Properties[name]
		if !both && !chat && !completion {
			t.Errorf("the gateway reads %q, which public.schemas.json does not have: add it to GenerationFields", name)
		}
	}
}
