package openai

import (
	"encoding/binary"
	"math/bits"
)

// shape is a JSON value with holes. An engine writes the chunks of a stream alike: they differ in few values. A chunk is
// compared with the shape of the one before, and only the values in the holes are parsed (BenchmarkStream). That is as
// strict as parsing all of it: the rest is equal, byte for byte, to what was parsed before. The zero value matches nothing.
type shape struct {
	start int    // offset of the value that is being learned
	text  []byte // the value that was learned; empty: none
	holes []hole // in order
	odd   bool   // the value being learned says something outside of its holes
}

// hole is a value that differs.
type hole struct {
	kind     holeKind
	from, to int // in shape.text
}

// holeKind says what a hole means.
type holeKind uint8

const (
	holeText         holeKind = iota // string: new text
	holeString                       // string without a meaning
	holeInts                         // list of integers without a meaning
	holeOther                        // any value without a meaning that is not harmless
	holeNumber                       // number without a meaning
	holeID                           // number: the id of a token
	holeIDs                          // list of token ids
	holeTokens                       // list of tokens with their logprobs
	holeLogprob                      // number: the logprob of a token
	holeSize                         // list of a token's bytes
	holeAlternatives                 // list of the alternatives of a token
	holeTop                          // number: the logprob of an alternative
)

// begin starts to learn the value at an offset.
func (s *shape) begin(start int) {
	s.start, s.text, s.holes, s.odd = start, s.text[:0], s.holes[:0], false
}

// hole records a hole of the value that is being learned.
func (s *shape) hole(kind holeKind, at Span) {
	s.holes = append(s.holes, hole{kind, at.Start - s.start, at.End - s.start})
}

// list is hole for a value that should be a list.
func (s *shape) list(kind holeKind, raw []byte, at Span) {
	if len(raw) > 0 && raw[0] == '[' {
		s.hole(kind, at)
	}
}

// string is hole for a value without a meaning, if it is a string.
func (s *shape) string(raw []byte, at Span) {
	if len(raw) > 0 && raw[0] == '"' {
		s.hole(holeString, at)
	}
}

// other is hole for a value without a meaning, if it is a string or a number.
func (s *shape) other(raw []byte, at Span) {
	if len(raw) > 0 && kindOf[raw[0]] == '0' {
		s.hole(holeNumber, at)
		return
	}
	s.string(raw, at)
}

// number is hole for a value that should be a number. Another value means something, too.
func (s *shape) number(kind holeKind, raw []byte, at Span) {
	if len(raw) == 0 || kindOf[raw[0]] != '0' {
		s.odd = true
		return
	}
	s.hole(kind, at)
}

// end completes the value that is being learned, which the cursor has read, unless it is not valid.
func (s *shape) end(c *cursor) {
	if !s.odd && c.err == nil {
		s.text = append(s.text, c.data[s.start:c.last]...)
	}
}

// learned is what the chunk that was learned says outside of its holes.
type learned struct {
	shape
	plain, foreign bool
	model          Span
	stop           []byte
	tail           int // bytes from its last brace on
}

// skipSame returns the offset behind text, which stands in data at an offset; −1 if it does not.
func skipSame(data []byte, at int, text []byte) int {
	n, end := len(text), at+len(text)
	switch {
	case end > len(data):
		return -1
	case n >= 8 && n <= 16: // as most are: two comparisons in place of a call
		a := data[at:end]
		if binary.LittleEndian.Uint64(a) != binary.LittleEndian.Uint64(text) || binary.LittleEndian.Uint64(a[n-8:]) != binary.LittleEndian.Uint64(text[n-8:]) {
			return -1
		}
	case string(data[at:end]) != string(text):
		return -1
	}
	return end
}

// skipList skips a list whose elements have the shape and no lists of tokens, and returns its size; 0 if it is none. It is
// as strict as [ChunkParser.fillList], but it keeps nothing: most of a judged chunk is alternatives that no score reads.
func (s *shape) skipList(b []byte) (size int) {
	if len(b) < 2 || b[0] != '[' || len(s.text) == 0 {
		return 0
	}
	if b[1] == ']' {
		return 2
	}
	for at := 1; ; at++ {
		same := 0
		for i := range s.holes {
			h := &s.holes[i]
			if at = skipSame(b, at, s.text[same:h.from]); at < 0 {
				return 0
			}
			if at, same = h.kind.skip(b, at), h.to; at < 0 {
				return 0
			}
		}
		at = skipSame(b, at, s.text[same:])
		switch {
		case at < 0 || at == len(b):
			return 0
		case b[at] == ']':
			return at + 1
		case b[at] != ',':
			return 0
		}
	}
}

// skip returns the end of a value of an alternative that begins at an offset; −1 if it is not as expected.
func (k holeKind) skip(b []byte, at int) (end int) {
	switch k {
	case holeString:
		if end = shortTextEnd(b, at); end > 0 {
			return end
		}
		if at < len(b) && b[at] == '"' {
			if t := readText(b, at+1); t.end >= 0 {
				return t.end + 1
			}
		}
	case holeTop, holeNumber:
		return numberEnd(b, at)
	case holeInts:
		if _, size := countBytes(b[at:]); size > 0 {
			return at + size
		}
	}
	return -1
}

// shortTextEnd returns the end of a string at an offset if it has at most 7 bytes, all of them plain; else 0.
func shortTextEnd(b []byte, at int) int {
	if at+9 > len(b) || b[at] != '"' {
		return 0
	}
	quote := at + 1 + bits.TrailingZeros64(odd(binary.LittleEndian.Uint64(b[at+1:]))&highBits)/8
	if quote == at+9 || b[quote] != '"' {
		return 0
	}
	return quote + 1
}

// readIDs appends a list of token ids without white space at the beginning of b, and returns its size; 0 if it is none.
func readIDs(ids []int32, b []byte) (_ []int32, size int) {
	if len(b) < 2 || b[0] != '[' {
		return ids, 0
	}
	if b[1] == ']' {
		return ids, 2
	}
	const most = 9 // digits of an id below any limit
	for at := 1; ; at++ {
		end, id := at, int32(0)
		for ; end < len(b) && end < at+most && b[end]-'0' <= 9; end++ {
			id = id*10 + int32(b[end]-'0')
		}
		if end == at || end == len(b) || b[at] == '0' && end > at+1 {
			return ids, 0
		}
		ids, at = append(ids, id), end
		switch b[end] {
		case ',':
		case ']':
			return ids, end + 1
		default:
			return ids, 0
		}
	}
}

// countBytes counts the elements of a list of integers from 0 to 999 without white space at the beginning of b, and returns
// its size; 0 if it is none.
func countBytes(b []byte) (n, size int) {
	if len(b) < 2 || b[0] != '[' {
		return 0, 0
	}
	if b[1] == ']' {
		return 0, 2
	}
	for at := 1; at < len(b)-1; at++ {
		first := b[at]
		if first-'0' > 9 {
			return 0, 0
		}
		if at++; first != '0' && at < len(b)-1 && b[at]-'0' <= 9 {
			if at++; b[at]-'0' <= 9 {
				at++
			}
		}
		n++
		switch {
		case at == len(b):
			return 0, 0
		case b[at] == ']':
			return n, at + 1
		case b[at] != ',':
			return 0, 0
		}
	}
	return 0, 0
}
