package yamlfile

import (
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scalar returns the value as it is written when it is of one of the kinds (of any without kinds), and
// otherwise says what is wanted.
func (v Value) Scalar(want string, kinds ...Kind) (written string, ok bool) {
	switch {
	case !v.reads():
		return "", false
	case v.IsScalar() && (len(kinds) == 0 || slices.Contains(kinds, kindOf(v.node))):
		return v.node.Value, true
	}
	hint := ""
	if v.IsScalar() && want == string(KindText) {
		hint = "; put it in quotes"
	}
	v.Fail("want %s, got %s%s", want, kindOf(v.node), hint)
	return "", false
}

// Leaf reads a value without fields into what to points to, as a struct's field with this tag.
func (v Value) Leaf(to any, tag reflect.StructTag) { v.intoLeaf(reflect.ValueOf(to).Elem(), tag) }

func (v Value) intoLeaf(to reflect.Value, tag reflect.StructTag) {
	want, kinds := written(to.Type(), tag)
	if word, _, ok := strings.Cut(tag.Get("word"), "="); ok && v.isWord(word) {
		kinds = nil
	}
	text, ok := v.Scalar(want, kinds...)
	if !ok {
		return
	}
	var err error
	if name := tag.Get("form"); name != "" && v.file.forms != nil {
		text, err = v.file.forms[name](text)
	}
	if err == nil {
		err = Leaf(to, tag, text)
	}
	if err != nil {
		v.Fail("%v", err)
	}
}

// written says what a type is in YAML, and of which kinds; any without kinds.
func written(t reflect.Type, tag reflect.StructTag) (want string, kinds []Kind) {
	words, chosen := tag.Lookup("choice")
	_, scaled := tag.Lookup("scale")
	switch kind := t.Kind(); {
	case chosen:
		return "one of " + strings.ReplaceAll(words, ",", ", "), []Kind{KindText}
	case isText(t):
	case kind == reflect.Bool:
		return string(KindTruth), []Kind{KindTruth}
	case kind == reflect.Int || kind == reflect.Uint64:
		return "a whole number", []Kind{KindNumber}
	case kind == reflect.Float64 || scaled:
		return string(KindNumber), []Kind{KindNumber}
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "5s"`, nil
	case kind == reflect.Int64:
		return "a size such as 4MiB", nil
	case kind == reflect.Array:
		return string(KindText), nil
	}
	return string(KindText), []Kind{KindText}
}

// Leaf reads a text into to, a value without fields, as a struct's field with this tag. Its error says what is wanted, and never
// repeats the text. What could not be read stays as it is.
func Leaf(to reflect.Value, tag reflect.StructTag, text string) error {
	words, chosen := tag.Lookup("choice")
	choices := strings.Split(words, ",")
	if chosen && !slices.Contains(choices, text) {
		return errors.New("want one of " + strings.Join(choices, ", ") + strings.TrimSuffix("; "+tag.Get("hint"), "; "))
	}
	if own, is := to.Addr().Interface().(encoding.TextUnmarshaler); is {
		return own.UnmarshalText([]byte(text))
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		to.SetBool(chosen && text == choices[0] || !chosen && strings.EqualFold(text, "true"))
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("want a whole number of 0 … %d", uint64(math.MaxUint64))
		}
		to.SetUint(n)
	case reflect.Array:
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != to.Len() {
			return fmt.Errorf("want the 64 hex digits of the key's SHA-256 (printf %%s \"$KEY\" | sha256sum), got %d characters", len(text))
		}
		reflect.Copy(to, reflect.ValueOf(sum))
	case reflect.Int, reflect.Int64, reflect.Float64:
		return number(to, tag, text)
	default:
		panic("yamlfile: a text is read into a " + to.Type().String())
	}
	return nil
}

// number reads a number, which has bounds.
func number(to reflect.Value, tag reflect.StructTag, text string) error {
	scale, scaled := tag.Lookup("scale")
	word, stands, hasWord := strings.Cut(tag.Get("word"), "=")
	switch {
	case hasWord && text == word:
		to.SetInt(int64(parsed(strconv.Atoi(stands))))
	case to.Kind() == reflect.Float64 || scaled:
		x, err := within(tag, text, "a plain decimal number", parseDecimal)
		switch {
		case err != nil:
			return err
		case !scaled:
			to.SetFloat(x)
		case scale == "1" && x != math.Trunc(x):
			return errors.New("want a whole number")
		default:
			to.SetInt(int64(math.Round(x * parsed(parseDecimal(scale)))))
		}
	default:
		form, parse := "a whole number in plain decimal digits", parseWhole
		switch {
		case to.Type() == reflect.TypeFor[time.Duration]():
			form, parse = `a duration with its unit, such as "5s" or "1500ms"`, parseDuration
		case to.Kind() == reflect.Int64:
			form, parse = "bytes or a size such as 16KiB or 4MiB", parseSize
		}
		n, err := within(tag, text, form, parse)
		if err != nil {
			return err
		}
		to.SetInt(n)
	}
	return nil
}

// within reads a number between the bounds of a tag, which are written as the number itself.
func within[T int64 | float64](tag reflect.StructTag, text, form string, parse func(string) (T, error)) (T, error) {
	lo, hi := parsed(parse(tag.Get("min"))), parsed(parse(tag.Get("max")))
	bounds := tag.Get("min") + " … " + tag.Get("max")
	switch x, err := parse(text); {
	case err != nil:
		return 0, fmt.Errorf("want %s, %s", form, bounds)
	case x < 0 && lo >= 0:
		return 0, errors.New("must not be negative; want " + bounds)
	case x < lo || x > hi:
		return 0, errors.New("out of range; want " + bounds)
	default:
		return x, nil
	}
}

// parsed is what a tag says.
func parsed[T any](x T, err error) T {
	if err != nil {
		panic("yamlfile: a tag: " + err.Error())
	}
	return x
}

// parseDecimal parses ordinary numbers, and refuses the other forms of strconv.ParseFloat: NaN, infinities, hexadecimal,
// underscores. −0 becomes 0.
func parseDecimal(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if strings.Trim(s, "0123456789+-.eE") != "" {
		err = strconv.ErrSyntax
	}
	return x + 0, err
}

func parseWhole(s string) (int64, error) { return strconv.ParseInt(s, 10, 0) }

func parseDuration(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	return int64(d), err
}

// units of sizes; the longest suffix comes first.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// parseSize reads bytes, such as 4096 or 4MiB. The number may be negative.
func parseSize(s string) (bytes int64, err error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		if err == nil && (n < math.MinInt64/u.bytes || n > math.MaxInt64/u.bytes) {
			err = strconv.ErrRange
		}
		return n * u.bytes, err
	}
	return 0, strconv.ErrSyntax
}

// Short prints a duration without trailing zero units: 10m, not 10m0s.
func Short(d time.Duration) string {
	s := d.String()
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}
