package openai

import (
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads the members of a generation request.
type scanner struct {
	walker

	req           *Request
	maxCompletion int // max_completion_tokens, -1 when absent
}

// reader reads the value of one top-level field.
type reader func(s *scanner, name string)

// read consumes a value of one of the wanted kinds; nil if it is of another, which is refused.
func (s *scanner) read(name, want string, kinds ...jsontext.Kind) []byte {
	got := s.cur.kind()
	if got != 0 && !slices.Contains(kinds, got) {
		s.cur.fail(wrongType(name, want, got))
	}
	raw, _ := s.cur.value()
	return raw
}

func flag(set func(*Request, bool)) reader {
	return func(s *scanner, name string) { set(s.req, string(s.read(name, "a boolean", 't', 'f')) == "true") }
}

// whole reads a non-negative integer.
func whole(set func(*scanner, int)) reader {
	return func(s *scanner, name string) { set(s, s.integer(name, 0, s.lim.Tokens)) }
}

func (s *scanner) integer(name string, minimum, maximum int) int {
	raw := s.read(name, "an integer", '0')
	v, err := strconv.Atoi(string(raw))
	switch {
	case len(raw) > longestNumber:
		s.bad(name, "invalid_value", "%s has more than %d digits.", name, longestNumber)
	case err != nil:
		s.bad(name, "invalid_type", "%s must be an integer, but is %s.", name, clip(string(raw), longestNumber))
	case v < minimum || v > maximum:
		s.bad(name, "invalid_value", "%s must be between %d and %d, but is %d.", name, minimum, maximum, v)
	}
	return v
}

func number(minimum, maximum float64, set func(*Request, float64)) reader {
	return func(s *scanner, name string) {
		raw := s.read(name, "a number", '0')
		v, err := strconv.ParseFloat(string(raw), 64)
		if len(raw) > longestNumber || err != nil || math.IsNaN(v) || v < minimum || v > maximum {
			s.bad(name, "invalid_value", "%s must be between %g and %g, but is %s.", name, minimum, maximum, clip(string(raw), longestNumber))
		}
		if set != nil {
			set(s.req, v)
		}
	}
}

// list reads an array whose elements are of one kind; set is called if there are any.
func list(kind jsontext.Kind, set func(*Request)) reader {
	return func(s *scanner, name string) {
		raw := s.read(name, "an array", '[')
		var in cursor
		in.reset(raw)
		for range in.array() {
			if in.kind() != kind {
				s.bad(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord(kind))
			}
			in.skip()
		}
		if s.bounded(name, raw); !harmless(raw) {
			set(s.req)
		}
	}
}

// bounded refuses a value that is larger than a grammar may be.
func (s *scanner) bounded(name string, raw []byte) {
	if len(raw) > s.lim.Grammar {
		s.bad(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
}
