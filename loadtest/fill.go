package loadtest

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/internal/yamlfile"
)

// The tags that name fields: of a struct, of cases alone, and of arrivals' bursts. The kinds of arrivals are names, too.
const (
	byName   = "yaml"
	ofCases  = "case"
	inBursts = "burst"
)

// fill reads the fields of a mapping into those of a struct that a tag names. What the file does not give stays as it is.
// Other tags of a field say what is read:
//
//	need:"…"       it must be given, and what is wanted
//	min:"…" max:"…" the bounds of a number or a duration; max is also the bytes of a text, and the entries of a list
//	all:"-1"       the word all is this number
//	choice:"a,b"   the words that a text may be, or the names that a mapping may have
//	word:"yes"     a text that a header, a label or a path can hold
//	default:"1"    a number, or true, of the members of a list
func fill(b *yamlfile.Fields, to any, key string) {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get(key)
		if name == "" {
			continue
		}
		p := b.At(name)
		if want, needed := tag.Lookup("need"); needed && b.Opened() && !p.IsSet() && v.Field(i).IsZero() {
			p.Fail("missing; want %s", want)
		}
		if p.IsSet() {
			readInto(p, v.Field(i).Addr().Interface(), tag)
		}
	}
}

// readInto reads one value.
func readInto(p yamlfile.Value, to any, tag reflect.StructTag) {
	switch to := to.(type) {
	case *int:
		if word, ok := tag.Lookup("all"); ok && isWord(p, "all") {
			*to = int(bound(word))
			return
		}
		p.Whole(to, int(bound(tag.Get("min"))), int(bound(tag.Get("max"))))
	case *uint64:
		if text, ok := p.Scalar("a whole number", yamlfile.KindNumber); ok {
			var err error
			if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
				p.Fail("want a whole number of 0 … %d", uint64(math.MaxUint64))
			}
		}
	case *float64:
		p.Number(to, bound(tag.Get("min")), bound(tag.Get("max")))
	case *time.Duration:
		p.Duration(to, duration(tag.Get("min")), duration(tag.Get("max")))
	case *bool:
		p.Bool(to)
	case *string:
		readText(p, to, tag)
	case *Spread:
		to.read(p, bound(tag.Get("min")), bound(tag.Get("max")))
	case *map[string]float64:
		b := p.Fields()
		*to = map[string]float64{}
		for name := range strings.SplitSeq(tag.Get("choice"), ",") {
			if w := 0.0; b.At(name).IsSet() {
				b.At(name).Number(&w, 0, 1e6)
				(*to)[name] = w
			}
		}
		b.Done()
	case interface{ read(v yamlfile.Value) }:
		to.read(p)
	default:
		readStruct(p, reflect.ValueOf(to).Elem(), tag)
	}
}

// readStruct reads a struct, a list of them, or a pointer to one, which the word none takes away.
func readStruct(p yamlfile.Value, to reflect.Value, tag reflect.StructTag) {
	switch to.Kind() {
	case reflect.Slice:
		items(p, int(bound(tag.Get("max"))), func(item yamlfile.Value) {
			one := reflect.New(to.Type().Elem())
			defaults(one.Elem())
			readInto(item, one.Interface(), "")
			to.Set(reflect.Append(to, one.Elem()))
		})
	case reflect.Pointer:
		if isWord(p, "none") {
			to.SetZero()
			return
		}
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			if pool, ok := to.Interface().(*Pool); ok {
				*pool = freshPool("draft")
			}
		}
		readInto(p, to.Interface(), tag)
	default:
		if pool, ok := to.Addr().Interface().(*Pool); ok && *pool == (Pool{}) {
			*pool = freshPool("target")
		}
		b := p.Fields()
		fill(b, to.Addr().Interface(), byName)
		b.Done()
	}
}

// defaults sets what the members of a list are when the file does not say.
func defaults(one reflect.Value) {
	for i := range one.NumField() {
		text, ok := one.Type().Field(i).Tag.Lookup("default")
		switch f := one.Field(i); {
		case ok && f.Kind() == reflect.Bool:
			f.SetBool(true)
		case ok:
			f.SetFloat(bound(text))
		}
	}
}

// isWord tells whether a value is a word that stands for something else.
func isWord(p yamlfile.Value, word string) bool {
	if !p.IsScalar() {
		return false
	}
	text, _ := p.Scalar(word)
	return text == word
}

// readText reads one of some words, a word, or a text.
func readText(p yamlfile.Value, to *string, tag reflect.StructTag) {
	if words, ok := tag.Lookup("choice"); ok {
		p.Choice(to, strings.Split(words, ",")...)
		return
	}
	text, ok := p.Scalar("text", yamlfile.KindText)
	_, word := tag.Lookup("word")
	switch text = strings.TrimSpace(text); {
	case !ok:
	case word && !(text != "" && len(text) <= 64 && yamlfile.Only(text, "._:-")):
		p.Fail("want 1 … 64 of A-Z a-z 0-9 . _ : -")
	case !word && (text == "" || len(text) > int(bound(tag.Get("max"))) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })):
		p.Fail("want 1 … %s bytes, without control characters", tag.Get("max"))
	default:
		*to = text
	}
}

// bound is the number of a tag.
func bound(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("loadtest: a tag: %v", err))
	}
	return x
}

// duration is the duration of a tag.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("loadtest: a tag: %v", err))
	}
	return d
}
