package gateway

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/pool"
)

// answersOfAdmin are parts of the admin listener's answers whose schemas are made from the Go type: each field with its type and
// its comment. A field without omitempty or omitzero is required, and its pointer may be null. Other schemas are in admin.json.
var answersOfAdmin = map[string]any{
	"ActionResult": ActionResult{}, "BackendView": pool.Backend{}, "BreakerView": BreakerView{}, "BudgetView": BudgetView{},
	"CacheTotals": CacheTotals{}, "DraftView": DraftView{}, "EngineView": EngineView{}, "FallbackView": FallbackView{},
	"FileView": files.State{}, "PoolView": PoolView{}, "PurgeResult": PurgeResult{}, "RedisView": RedisView{}, "RefitView": RefitView{},
	"RejectedSettingView": settings.RejectedValue{}, "ReloadResult": ReloadResult{}, "RouteState": RouteState{}, "SessionView": SessionView{},
	"SettingChange": settings.Change{}, "SettingView": SettingView{}, "SettingsEditResult": settingsEditResult{}, "SettingsView": SettingsView{},
	"SheddingView": SheddingView{}, "Status": Status{}, "TargetView": TargetView{}, "TargetsView": TargetsView{},
	"UnavailableView": UnavailableView{}, "UsageRow": ledger.Row{},
}

// schemas makes schemas from Go types, with the comments of their fields.
type schemas struct {
	t        *testing.T
	names    map[reflect.Type]string
	comments map[string]map[string]string // by package path, then by TYPE.FIELD
}

// schemasOf returns the schemas of some answers by their names.
func schemasOf(t *testing.T, answers map[string]any) object {
	s := schemas{t, map[reflect.Type]string{}, map[string]map[string]string{}}
	for name, of := range answers {
		s.names[reflect.TypeOf(of)] = name
	}
	all := object{}
	for of, name := range s.names {
		all[name] = s.object(of)
	}
	return all
}

// object is the schema of a struct.
func (s *schemas) object(of reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		always := !strings.Contains(options, "omit")
		if always {
			required = append(required, name)
		}
		schema := s.schema(f.Type, always)
		if comment := s.comment(of, f); comment != "" {
			schema["description"] = comment
		}
		properties[name] = schema
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// schema is the schema of a value; null says that a pointer may be null.
func (s *schemas) schema(of reflect.Type, null bool) object {
	if of.Kind() == reflect.Pointer {
		schema := s.schema(of.Elem(), false)
		if null {
			schema["type"] = []any{schema["type"], "null"}
		}
		return schema
	}
	if name := s.names[of]; name != "" {
		return reference("schemas", name)
	}
	switch k := of.Kind(); {
	case of == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case k == reflect.Bool:
		return object{"type": "boolean"}
	case k == reflect.String:
		return object{"type": "string"}
	case of == reflect.TypeFor[ledger.Nanos](): // null: unknown
		return object{"type": []any{"number", "null"}}
	case k == reflect.Float64:
		return object{"type": "number"}
	case k == reflect.Slice:
		return object{"type": "array", "items": s.schema(of.Elem(), false)}
	case of.ConvertibleTo(reflect.TypeFor[int64]()):
		return object{"type": "integer"}
	}
	s.t.Fatalf("%s has no schema", of)
	return nil
}

// comment is what stands beside a field of a struct, or of one that is embedded in it.
func (s *schemas) comment(of reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		of = of.Field(i).Type
	}
	known := s.comments[of.PkgPath()]
	if known == nil {
		known = map[string]string{}
		s.comments[of.PkgPath()] = known
		s.read(filepath.Join("..", strings.TrimPrefix(of.PkgPath(), "github.com/foregate/foregate/")), known)
	}
	return known[of.Name()+"."+f.Name]
}

// read reads the comments of the fields of a package: those beside them, or else above.
func (s *schemas) read(dir string, into map[string]string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			s.t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, _ := n.(*ast.TypeSpec)
			if spec == nil {
				return true
			}
			if of, is := spec.Type.(*ast.StructType); is {
				fieldComments(of, spec.Name.Name, into)
			}
			return false
		})
	}
}

func fieldComments(of *ast.StructType, name string, into map[string]string) {
	for _, f := range of.Fields.List {
		for _, field := range f.Names {
			text := cmp.Or(f.Comment.Text(), f.Doc.Text())
			into[name+"."+field.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}
