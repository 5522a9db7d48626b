package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/internal/yamlfile"
)

// Spec describes one setting. The tags of a field of [Values] declare it:
//
//	setting:"NAME"       its name; name@route may override it
//	setting:"NAME,fleet" it is the same for every route
//	setting:"NAME,application" name@route#application may override it, too
//	doc:"…"              what it means; a word between two ' is printed as code
//
// and default, choice, min, max and scale, as [yamlfile.Value.Into] reads them. A field with a value for each priority is as many
// settings: the * in its name and doc is the priority, and its defaults are parted by commas.
type Spec struct {
	Name     string
	Default  string
	Range    string // valid values, in words
	Doc      string
	PerRoute bool // name@route may override it

	PerApplication bool // name@route#application may override it; without PerRoute nothing else may set it

	tag   reflect.StructTag
	field []int             // its index in Values
	class identity.Priority // of a field with a value for each priority
}

// Specs returns every setting that may be set for all routes, sorted by name.
func Specs() []Spec { return slices.Clone(specs) }

// Names of the settings that the code knows: of applications, and in the rules between fields.
const (
	mode          = "speculation.mode"
	shedLow       = "shed.low"
	shedNormal    = "shed.normal"
	shedHigh      = "shed.high"
	shedRelease   = "shed.hysteresis"
	shedAllowHigh = "shed.allow_high"
)

// specs are all settings, sorted by name. They are read-only.
var specs = slices.SortedFunc(slices.Values(declared(reflect.TypeFor[Values](), nil)), func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })

// declared are the settings that the tags of a struct's fields declare; index is where the struct is in [Values].
func declared(t reflect.Type, index []int) (all []Spec) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		name, scope, _ := strings.Cut(f.Tag.Get("setting"), ",")
		s := Spec{
			Name: name, Default: f.Tag.Get("default"), Range: rangeOf(f), Doc: yamlfile.Code(f.Tag.Get("doc")), PerRoute: scope != "fleet", PerApplication: scope == "application",
			tag: f.Tag, field: at,
		}
		switch {
		case name == "" && f.Type.Kind() == reflect.Struct:
			all = append(all, declared(f.Type, at)...)
		case name == "":
		case f.Type.Kind() != reflect.Array:
			all = append(all, s)
		default:
			for class, value := range strings.Split(s.Default, ",") {
				one := s
				one.class, one.Default = identity.Priority(class), value
				one.Name, one.Doc = strings.ReplaceAll(s.Name, "*", one.class.String()), strings.ReplaceAll(s.Doc, "*", one.class.String())
				all = append(all, one)
			}
		}
	}
	return all
}

// rangeOf says in words what a field may be.
func rangeOf(f reflect.StructField) string {
	t, bounds := f.Type, f.Tag.Get("min")+" … "+f.Tag.Get("max")
	if t.Kind() == reflect.Array {
		t = t.Elem()
	}
	switch words := f.Tag.Get("choice"); {
	case words != "":
		return strings.ReplaceAll(words, ",", ", ")
	case f.Tag.Get("scale") != "":
		return "milliseconds, " + bounds
	case t == reflect.TypeFor[time.Duration]():
		return "duration, " + bounds
	case t.Kind() == reflect.Int:
		return "whole number, " + bounds
	}
	return bounds
}

// in is the setting's field in v.
func (s *Spec) in(v *Values) reflect.Value {
	f := reflect.ValueOf(v).Elem().FieldByIndex(s.field)
	if f.Kind() == reflect.Array {
		return f.Index(int(s.class))
	}
	return f
}

// set reads a text into v.
func (s *Spec) set(v *Values, text string) error {
	if strings.ContainsAny(text, " \t\r\n") { // a mistake that is hard to see in a shell
		return errors.New("there is white space in it; want " + s.Range)
	}
	return yamlfile.Leaf(s.in(v), s.tag, text)
}

// Value returns the setting's value in v, spelled as an operator would.
func (s Spec) Value(v *Values) string {
	switch x := s.in(v); {
	case x.Kind() == reflect.Bool:
		yes, no, _ := strings.Cut(s.tag.Get("choice"), ",")
		if x.Bool() {
			return yes
		}
		return no
	case s.tag.Get("scale") != "":
		return decimal(time.Duration(x.Int()).Seconds() * 1000)
	case x.Type() == reflect.TypeFor[time.Duration]():
		return yamlfile.Short(time.Duration(x.Int()))
	case x.Kind() == reflect.Float64:
		return decimal(x.Float())
	default:
		return fmt.Sprint(x.Interface())
	}
}

// DefaultValue is the setting's default in the spelling of [Spec.Value].
func (s Spec) DefaultValue() string {
	var v Values
	_ = s.set(&v, s.Default) // [Defaults] has tried it
	return s.Value(&v)
}

// maxName is the longest name of an application, a tenant, and a part of either, in bytes.
const maxName = 64

// applicationName is the setting for the name of one application.
var applicationName = Spec{Name: "application.name", Range: "1 to 64 of A-Z a-z 0-9 . _ : -", PerApplication: true}

// isName reports whether a text is a name of a tenant or of an application, by which headers go, too.
func isName(text string) bool { return words.IsName(text, maxName, "._:-") }

// cutScope divides what follows the @ in the name of a field: a route, and one of its applications, tenant/name, if it names one.
func cutScope(scope string) (route, application string) {
	route, application, _ = strings.Cut(scope, "#") // no route has one in its name
	if tenant, name, ok := strings.Cut(application, "/"); ok && isName(tenant) && isName(name) {
		return route, application
	}
	return scope, ""
}

// IsOfApplication reports whether a field is of one application.
func IsOfApplication(name string) bool {
	_, scope, _ := strings.Cut(name, "@")
	_, app := cutScope(scope)
	return app != ""
}

// lookup finds a setting by its name without @route.
func lookup(name string) (*Spec, bool) {
	if name == applicationName.Name {
		return &applicationName, true
	}
	i, ok := slices.BinarySearchFunc(specs, name, func(s Spec, n string) int { return strings.Compare(s.Name, n) })
	if !ok {
		return nil, false
	}
	return &specs[i], true
}

// check parses value and discards the result.
func check(spec *Spec, value string) error {
	if len(value) > maxValue {
		return fmt.Errorf("longer than the %d bytes that are read", maxValue)
	}
	if spec == &applicationName {
		if !isName(value) {
			return errors.New("want " + spec.Range)
		}
		return nil
	}
	return spec.set(new(Values), value)
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
