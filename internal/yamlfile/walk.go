package yamlfile

import (
	"cmp"
	"encoding"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Form checks a text, and returns it as it is kept. Its error says what is wanted, and never repeats the text.
type Form func(text string) (kept string, err error)

// Into reads the value into what to points to: a struct, or a list or mapping of structs or of leaves. The tags of a struct's
// fields declare them; doc and absent are for the reference (cmd/foregate/referenceconfig_test.go).
//
//	yaml:"NAME"         its name in the file; without one it is not read
//	yaml:"NAME,distinct" a list has no member twice; one of structs none with the same first field
//	yaml:",inline"      a struct, or a pointer to one, whose fields stand here, those in without excepted
//	default:"…"         its value if it has none, spelled as in the file; of a list its members, with commas
//	need:"…"            it must be given if it has no value, and how
//	empty:"…"           a list or mapping has a member, and which
//	with:"NAME, …"      it needs another field, and what for
//	min:"…" max:"…"     bounds of a number, a duration or a size; required with these; of a list of structs, the number of members, at least 1
//	word:"all=-1"       a word that stands for a whole number
//	choice:"a,b"        the words that a text may be; a bool is the first
//	hint:"…"            what else to tell who chose another word
//	form:"NAME"         the text has this form of [Options]
//	scale:"1e9"         an int64 is this multiple of a number, without a fraction
//	without:"a,b"       fields of a nested struct that are unknown here
//
// An int is a whole number, an int64 without scale a size, a [32]byte a digest. Types with a text of their own read it, a [Reader]
// reads itself, and a Value is read later. A pointer is followed, if the file gives something to point to; the word none makes it
// nil. Into panics where a type or a tag is none of these: the first test that reads the struct tells.
func (v Value) Into(to any) { v.into(reflect.ValueOf(to).Elem(), "") }

// Reader is a type that reads itself, from a value that is given.
type Reader interface {
	ReadYAML(v Value, tag reflect.StructTag)
}

// into reads a value; tag is that of the struct's field that it is read into.
func (v Value) into(to reflect.Value, tag reflect.StructTag) {
	self, reads := to.Addr().Interface().(Reader)
	switch {
	case to.Type() == reflect.TypeFor[Value]():
		to.Set(reflect.ValueOf(v))
	case reads && v.IsSet():
		self.ReadYAML(v, tag)
	case reads:
	case to.Kind() == reflect.Pointer:
		v.intoPointer(to, tag)
	case isText(to.Type()):
		v.intoLeaf(to, tag)
	case to.Kind() == reflect.Struct:
		b := v.Fields()
		v.intoStruct(b, to, strings.Split(tag.Get("without"), ","))
		b.Done()
	case to.Kind() == reflect.Map:
		v.intoMap(to)
	case to.Kind() == reflect.Slice:
		v.intoList(to, tag)
	default:
		v.intoLeaf(to, tag)
	}
	hint, ok := tag.Lookup("empty")
	if ok && (to.Kind() == reflect.Slice || to.Kind() == reflect.Map) && v.reads() && v.Sound() && to.Len() == 0 {
		v.Fail("is empty; %s", hint)
	}
}

// isText tells whether a type has a text of its own.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (v Value) intoStruct(b *Fields, to reflect.Value, without []string) {
	for i := range to.NumField() {
		field, tag := to.Field(i), to.Type().Field(i).Tag
		name, option := names(tag)
		if option == "inline" {
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					field.Set(reflect.New(field.Type().Elem()))
				}
				field = field.Elem()
			}
			v.intoStruct(b, field, append(strings.Split(tag.Get("without"), ","), without...))
			continue
		}
		zero := field.IsZero() || field.Kind() == reflect.Pointer && field.Elem().IsZero()
		if text, ok := tag.Lookup("default"); ok && zero {
			setDefault(field, tag, text)
		}
		if name == "" || slices.Contains(without, name) {
			continue
		}
		one := b.At(name)
		one.into(field, tag)
		if hint, ok := tag.Lookup("need"); ok && b.Opened() && b.Sound() && !one.IsSet() && zero {
			one.Fail("missing; %s", hint)
		}
		if other, why, ok := strings.Cut(tag.Get("with"), ", "); ok && one.IsSet() && !b.At(other).IsSet() {
			one.Fail("needs %s, %s", b.pathOf(other), why)
		}
	}
}

// intoPointer reads what a pointer points to.
func (v Value) intoPointer(to reflect.Value, tag reflect.StructTag) {
	switch {
	case v.isWord("none"):
		to.SetZero()
		return
	case to.IsNil() && !v.IsSet():
		return
	case to.IsNil():
		to.Set(reflect.New(to.Type().Elem()))
	}
	v.into(to.Elem(), tag)
}

// isWord tells whether the value is a word that stands for something else.
func (v Value) isWord(word string) bool { return v.IsScalar() && v.node.Value == word }

// names are the name and the option of a field.
func names(tag reflect.StructTag) (name, option string) {
	name, option, _ = strings.Cut(tag.Get("yaml"), ",")
	return name, option
}

// intoMap reads a mapping whose names are free. A member with a mistake is in it, too, so that it is not taken for missing.
func (v Value) intoMap(to reflect.Value) {
	b := v.Fields()
	to.Set(reflect.MakeMap(to.Type()))
	for _, name := range b.Names() {
		one := reflect.New(to.Type().Elem()).Elem()
		b.At(name).into(one, "")
		to.SetMapIndex(reflect.ValueOf(name), one)
	}
}

// intoList reads a list. A member with a mistake is in it, too, so that the others keep their places.
func (v Value) intoList(to reflect.Value, tag reflect.StructTag) {
	if v.reads() {
		to.SetZero() // in the place of the default
	}
	_, option := names(tag)
	items := v.Items()
	if most := tag.Get("max"); most != "" && to.Type().Elem().Kind() == reflect.Struct && v.IsList() {
		least := cmp.Or(tag.Get("min"), "1")
		if n := len(items); n < parsed(strconv.Atoi(least)) || n > parsed(strconv.Atoi(most)) {
			v.Fail("has %d entries; want %s … %s", n, least, most)
		}
	}
	first := map[any]string{}
	for _, item := range items {
		one := reflect.New(to.Type().Elem()).Elem()
		item.into(one, tag)
		to.Set(reflect.Append(to, one))
		at := item.path
		if option == "distinct" && one.Kind() == reflect.Struct && !isText(one.Type()) {
			name, _ := names(one.Type().Field(0).Tag)
			one, at = one.Field(0), at+"."+name
		}
		if option != "distinct" || !item.Sound() || !v.file.Has(at) || !v.file.Sound(at) {
			continue
		}
		if before, twice := first[one.Interface()]; twice {
			v.file.Fail(at, "is the same as %s; remove one", before)
			continue
		}
		first[one.Interface()] = at
	}
}

// setDefault sets a field to the text of its tag, of a list the members.
func setDefault(to reflect.Value, tag reflect.StructTag, text string) {
	switch to.Kind() {
	case reflect.Pointer:
		setDefault(to.Elem(), tag, text)
	case reflect.Slice:
		for word := range strings.SplitSeq(text, ",") {
			one := reflect.New(to.Type().Elem()).Elem()
			setDefault(one, tag, word)
			to.Set(reflect.Append(to, one))
		}
	default:
		parsed(text, Leaf(to, tag, text))
	}
}

// quoted is a word between two ' that are no apostrophes.
var quoted = regexp.MustCompile(`\B'([^']+)'\B`)

// Code makes code of the words between two '.
func Code(s string) string { return quoted.ReplaceAllString(s, "`$1`") }
