package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/yamlfile"
)

// kind says how a setting's value is parsed, checked, stored and shown.
type kind struct {
	words string // the range, for people
	set   func(v *Values, text string) error
	get   func(v *Values) string
}

// form is how a type of value is written.
type form[T cmp.Ordered] struct {
	name  string // before the range
	parse func(string) (T, error)
	spell func(T) string
}

var (
	number   = form[float64]{"", parseNumber, decimal}
	whole    = form[int]{"whole number, ", parseWhole, strconv.Itoa}
	duration = form[time.Duration]{"duration, ", parseDuration, yamlfile.Short}
	millis   = form[time.Duration]{"whole milliseconds, ", parseMillis, func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }}
)

// of is a value of lo … hi.
func (f form[T]) of(lo, hi T, at func(*Values) *T) kind {
	words := f.name + f.spell(lo) + " … " + f.spell(hi)
	return kind{
		words: words,
		set: func(v *Values, text string) error {
			x, err := f.parse(text)
			switch { // two mistakes are hard to see in a shell
			case text == "":
				err = errors.New("empty")
			case strings.ContainsAny(text, " \t\r\n"):
				err = errors.New("there is white space in it")
			case err == nil && (x < lo || x > hi):
				err = errors.New("out of range")
			}
			if err != nil {
				return fmt.Errorf("%w; want %s", err, words)
			}
			*at(v) = x
			return nil
		},
		get: func(v *Values) string { return f.spell(*at(v)) },
	}
}

// choice is one of a few words.
func choice[T ~string](at func(*Values) *T, of ...T) kind {
	names := make([]string, len(of))
	for i, w := range of {
		names[i] = string(w)
	}
	return oneOf(names, func(v *Values, i int) { *at(v) = of[i] }, func(v *Values) string { return string(*at(v)) })
}

// either is one of two words, the first of which is true.
func either(at func(*Values) *bool, yes, no string) kind {
	return oneOf([]string{yes, no}, func(v *Values, i int) { *at(v) = i == 0 }, func(v *Values) string {
		if *at(v) {
			return yes
		}
		return no
	})
}

// oneOf is one of a few words, which put knows by its index.
func oneOf(names []string, put func(*Values, int), get func(*Values) string) kind {
	words := strings.Join(names, ", ")
	return kind{
		words: words,
		set: func(v *Values, text string) error {
			i := slices.Index(names, text)
			if i < 0 {
				return errors.New("not one of " + words)
			}
			put(v, i)
			return nil
		},
		get: get,
	}
}

// parseNumber parses ordinary numbers, and refuses the other forms of strconv.ParseFloat: NaN, infinities,
// hexadecimal, underscores.
func parseNumber(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if strings.Trim(text, "0123456789+-.eE") != "" {
		err = strconv.ErrSyntax
	}
	return f + 0, wrong(err, "not a decimal number") // −0 becomes 0
}

// parseWhole reads a decimal integer.
func parseWhole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	return n, wrong(err, "not a whole number")
}

// wrong says what is wrong with a number.
func wrong(err error, syntax string) error {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("too large a number")
	case err != nil:
		return errors.New(syntax)
	}
	return nil
}

func parseMillis(text string) (time.Duration, error) {
	const longest = int(time.Hour / time.Millisecond) // beyond every range, and no overflow
	n, err := parseWhole(text)
	return time.Duration(min(max(n, -longest), longest)) * time.Millisecond, err
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := parseNumber(text); err == nil {
		return 0, errors.New(`no unit; write "10s" or "1200ms"`)
	}
	return 0, errors.New("not a duration")
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
