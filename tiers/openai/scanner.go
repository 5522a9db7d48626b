package openai

import (
	"bytes"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads the members of a generation request.
type scanner struct {
	walker

	req           *Request
	maxCompletion int // max_completion_tokens, -1 when absent
}

// reader reads the value of one top-level field, and returns its span.
type reader func(s *scanner, name string) (Span, *RequestError)

// read consumes a value of the wanted kind.
func (s *scanner) read(name, want string, kinds ...jsontext.Kind) ([]byte, Span, *RequestError) {
	got := s.cur.kind()
	for _, k := range kinds {
		if k == got {
			raw, at := s.cur.value()
			return raw, at, nil
		}
	}
	if got == 0 {
		s.cur.token()
		return nil, Span{}, nil // the caller reports the syntax error
	}
	return nil, Span{}, wrongType(name, want, got)
}

func flag(set func(*Request, bool)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "a boolean", 't', 'f')
		if err == nil {
			set(s.req, string(raw) == "true")
		}
		return at, err
	}
}

// whole reads a non-negative integer.
func whole(set func(*scanner, int)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "an integer", '0')
		if err != nil || raw == nil {
			return at, err
		}
		v, err := s.integer(name, raw, 0, s.lim.Tokens)
		if err == nil {
			set(s, v)
		}
		return at, err
	}
}

func (s *scanner) integer(name string, raw []byte, minimum, maximum int) (int, *RequestError) {
	if len(raw) > longestNumber {
		return 0, badField(name, "invalid_value", "%s has more than %d digits.", name, longestNumber)
	}
	v, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, badField(name, "invalid_type", "%s must be an integer, but is %s.", name, clip(string(raw), longestNumber))
	}
	if v < minimum || v > maximum {
		return 0, badField(name, "invalid_value", "%s must be between %d and %d, but is %d.", name, minimum, maximum, v)
	}
	return v, nil
}

func number(minimum, maximum float64, set func(*Request, float64)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "a number", '0')
		if err != nil || raw == nil {
			return at, err
		}
		v, perr := strconv.ParseFloat(string(raw), 64)
		if len(raw) > longestNumber || perr != nil || math.IsNaN(v) || v < minimum || v > maximum {
			return at, badField(name, "invalid_value", "%s must be between %g and %g, but is %s.", name, minimum, maximum, clip(string(raw), longestNumber))
		}
		if set != nil {
			set(s.req, v)
		}
		return at, nil
	}
}

// list reads an array whose elements are of one kind; set is called if there are any.
func list(kind byte, set func(*Request)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "an array", '[')
		if err != nil || raw == nil {
			return at, err
		}
		if !only(raw, kind) {
			return at, badField(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord(jsontext.Kind(kind)))
		}
		if len(raw) > s.lim.Grammar {
			return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
		}
		if !harmless(raw) {
			set(s.req)
		}
		return at, nil
	}
}

// only reports whether every element of a JSON array is of one kind.
func only(raw []byte, kind byte) bool {
	var in cursor
	in.reset(raw)
	for range in.array() {
		if byte(in.kind()) != kind {
			return false
		}
		in.skip()
	}
	return bytes.HasPrefix(raw, []byte{'['})
}
