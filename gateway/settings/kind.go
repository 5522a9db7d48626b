package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind says how a type of value is parsed, checked, stored and shown.
type kind struct {
	words string // the range, for people
	set   func(v *Values, text string) error
	get   func(v *Values) string
}

// ranged is a value of lo … hi; words names the range. parse reads it, put and get store it.
func ranged[T int | float64 | time.Duration](words string, lo, hi T, parse func(string) (T, error), put func(*Values, T), get func(*Values) string) kind {
	return kind{
		words: words,
		set: func(v *Values, text string) error {
			n, err := parse(text)
			if err == nil && (n < lo || n > hi) {
				err = errors.New("out of range")
			}
			if err != nil {
				return fmt.Errorf("%w; want %s", err, words)
			}
			put(v, n)
			return nil
		},
		get: get,
	}
}

// number is a finite decimal number of lo … hi.
func number[T ~float64](lo, hi float64, at func(*Values) *T) kind {
	return ranged(decimal(lo)+" … "+decimal(hi), lo, hi, parseNumber,
		func(v *Values, f float64) { *at(v) = T(f + 0) }, // −0 becomes 0
		func(v *Values) string { return decimal(float64(*at(v))) })
}

// whole is a whole number of lo … hi.
func whole(lo, hi int, at func(*Values) *int) kind {
	return ranged(fmt.Sprintf("whole number, %d … %d", lo, hi), lo, hi, parseWhole,
		func(v *Values, n int) { *at(v) = n },
		func(v *Values) string { return strconv.Itoa(*at(v)) })
}

// millis is a duration written as whole milliseconds.
func millis(lo, hi int, at func(*Values) *time.Duration) kind {
	return ranged(fmt.Sprintf("whole milliseconds, %d … %d", lo, hi), lo, hi, parseWhole,
		func(v *Values, n int) { *at(v) = time.Duration(n) * time.Millisecond },
		func(v *Values) string { return strconv.FormatInt(at(v).Milliseconds(), 10) })
}

// duration is a duration of lo … hi with its unit.
func duration(lo, hi time.Duration, at func(*Values) *time.Duration) kind {
	return ranged(fmt.Sprintf("duration, %s … %s", spell(lo), spell(hi)), lo, hi, parseDuration,
		func(v *Values, d time.Duration) { *at(v) = d },
		func(v *Values) string { return spell(*at(v)) })
}

// choice is one of a few words.
func choice[T ~string](at func(*Values) *T, of ...T) kind {
	names := make([]string, len(of))
	for i, w := range of {
		names[i] = string(w)
	}
	return oneOf(names, func(v *Values, i int) { *at(v) = of[i] }, func(v *Values) int { return slices.Index(of, *at(v)) })
}

// yesNo is one of two words.
func yesNo(at func(*Values) *bool) kind { return either(at, "yes", "no") }

// onOff is one of two words.
func onOff(at func(*Values) *bool) kind { return either(at, "on", "off") }

func either(at func(*Values) *bool, yes, no string) kind {
	return oneOf([]string{yes, no}, func(v *Values, i int) { *at(v) = i == 0 }, func(v *Values) int {
		if *at(v) {
			return 0
		}
		return 1
	})
}

// oneOf is one of a few words, which put and get know by its index.
func oneOf(names []string, put func(*Values, int), get func(*Values) int) kind {
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
		get: func(v *Values) string { return names[get(v)] },
	}
}

var (
	errTooLarge = errors.New("too large a number")
	errNumber   = errors.New("not a decimal number")
)

// parseNumber parses ordinary numbers, and refuses the other forms of strconv.ParseFloat: NaN, infinities,
// hexadecimal, underscores.
func parseNumber(text string) (float64, error) {
	if err := plain(text); err != nil {
		return 0, err
	}
	if strings.Trim(text, "0123456789+-.eE") != "" || strings.ContainsAny(text, "xX_") {
		return 0, errNumber
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errTooLarge
	}
	if err != nil {
		return 0, errNumber
	}
	return f, nil
}

// parseWhole reads a decimal integer.
func parseWhole(text string) (int, error) {
	if err := plain(text); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case err != nil:
		return 0, errors.New("not a whole number")
	}
	return n, nil
}

func parseDuration(text string) (time.Duration, error) {
	if err := plain(text); err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := parseNumber(text); err == nil {
		return 0, errors.New(`no unit; write "10s" or "1200ms"`)
	}
	return 0, errors.New("not a duration")
}

// plain refuses two mistakes that are hard to see in a shell.
func plain(text string) error {
	if text == "" {
		return errors.New("empty")
	}
	if strings.ContainsAny(text, " \t\r\n") {
		return errors.New("there is white space in it")
	}
	return nil
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// spell formats a duration without the zero parts of Duration.String.
func spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
