package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Into reads the value into what to points to: a struct, or a list or mapping of structs. The tags of a struct's fields say
// what is read:
//
//	yaml:"NAME"        the field's name in the file; without the tag the field is not read
//	yaml:"NAME,opaque" text that may look like a number
//	default:"…"        its value where the file gives none, spelled as in the file; of a list of texts the words, with commas
//	min:"…" max:"…"    the bounds of a number, a duration or a size; required with these
//	choice:"a,b"       the words that a text may be
//	without:"a,b"      fields of a nested struct that are unknown here
//
// An int is a whole number, an int64 a size. Into panics where a type or a tag is none of these: the first test that reads the
// struct tells.
func (v Value) Into(to any) { v.into(reflect.ValueOf(to).Elem(), "") }

// into reads a value that may have its own fields; tag is that of the struct's field that it is read into.
func (v Value) into(to reflect.Value, tag reflect.StructTag) {
	switch {
	case to.Kind() == reflect.Struct:
		v.intoStruct(to, strings.Split(tag.Get("without"), ","))
	case to.Kind() == reflect.Map:
		v.intoMap(to)
	case to.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Struct:
		for _, item := range v.Items() {
			one := reflect.New(to.Type().Elem()).Elem()
			item.into(one, "")
			to.Set(reflect.Append(to, one))
		}
	default:
		if text, ok := tag.Lookup("default"); ok {
			setDefault(to, text)
		}
		v.intoLeaf(to, tag)
	}
}

func (v Value) intoStruct(to reflect.Value, without []string) {
	b := v.Fields()
	for i := range to.NumField() {
		tag := to.Type().Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name != "" && !slices.Contains(without, name) {
			b.At(name).into(to.Field(i), tag)
		} else if text, ok := tag.Lookup("default"); ok {
			setDefault(to.Field(i), text)
		}
	}
	b.Done()
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

// intoLeaf reads a value without fields.
func (v Value) intoLeaf(to reflect.Value, tag reflect.StructTag) {
	_, option, _ := strings.Cut(tag.Get("yaml"), ",")
	switch p := to.Addr().Interface().(type) {
	case *string:
		if words, ok := tag.Lookup("choice"); ok {
			v.Choice(p, strings.Split(words, ",")...)
			return
		}
		v.Text(p)
	case *[]string:
		if option == "" {
			v.Texts(p)
			return
		}
		for _, item := range v.Items() {
			var s string
			item.Opaque(&s)
			*p = append(*p, s)
		}
	case *bool:
		v.Bool(p)
	case *int:
		v.Whole(p, int(number(tag, "min")), int(number(tag, "max")))
	case *float64:
		v.Number(p, number(tag, "min"), number(tag, "max"))
	case *time.Duration:
		v.Duration(p, parsed(time.ParseDuration(tag.Get("min"))), parsed(time.ParseDuration(tag.Get("max"))))
	case *int64:
		v.Size(p, size(tag.Get("min")), size(tag.Get("max")))
	default:
		panic(fmt.Sprintf("yamlfile: %s is read into a %s", v.path, to.Type()))
	}
}

// setDefault sets a value to the text of its tag.
func setDefault(to reflect.Value, text string) {
	switch p := to.Addr().Interface().(type) {
	case *string:
		*p = text
	case *[]string:
		*p = strings.Split(text, ",")
	case *int:
		*p = parsed(strconv.Atoi(text))
	case *float64:
		*p = parsed(strconv.ParseFloat(text, 64))
	case *time.Duration:
		*p = parsed(time.ParseDuration(text))
	case *int64:
		*p = size(text)
	default:
		panic(fmt.Sprintf("yamlfile: a %s has a default", to.Type()))
	}
}

// number is the number of a tag.
func number(tag reflect.StructTag, key string) float64 {
	return parsed(strconv.ParseFloat(tag.Get(key), 64))
}

// size is the size of a tag.
func size(text string) int64 {
	n, ok := ParseSize(text)
	if !ok {
		panic("yamlfile: no size: " + strconv.Quote(text))
	}
	return n
}

// parsed is what a tag says.
func parsed[T any](x T, err error) T {
	if err != nil {
		panic("yamlfile: a tag: " + err.Error())
	}
	return x
}
