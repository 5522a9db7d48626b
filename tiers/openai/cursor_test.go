package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// walk reads the next value of a valid text with a cursor and with jsontext, whole or member by member as the
// bits of way say. It returns an error where the two differ.
func walk(c *cursor, ref *jsontext.Decoder, way uint64) error {
	kind := ref.PeekKind()
	if got := c.kind(); got != kind {
		return fmt.Errorf("kind %v, not %v", got, kind)
	}
	if (kind == '{' || kind == '[') && way>>(ref.InputOffset()%64)&1 == 1 {
		return walkInside(c, ref, way)
	}
	return readBoth(c, ref)
}

// readBoth reads the next value or name whole.
func readBoth(c *cursor, ref *jsontext.Decoder) error {
	want, err := ref.ReadValue()
	got, at := c.value()
	if err != nil || c.err != nil || !bytes.Equal(got, want) || at.End != int(ref.InputOffset()) {
		return fmt.Errorf("%q up to %d (%w), not %q up to %d (%w)", got, at.End, c.err, want, ref.InputOffset(), err)
	}
	return samePlace(c, ref)
}

func samePlace(c *cursor, ref *jsontext.Decoder) error {
	if int64(c.last) != ref.InputOffset() || c.pointer() != string(ref.StackPointer()) {
		return fmt.Errorf("at %d %s, not %d %s", c.last, c.pointer(), ref.InputOffset(), ref.StackPointer())
	}
	return nil
}

// walkInside reads an object or array member by member.
func walkInside(c *cursor, ref *jsontext.Decoder, way uint64) error {
	open := ref.PeekKind()
	_, err := ref.ReadToken()
	if !c.enter(open) || err != nil {
		return fmt.Errorf("not entered: %w, %w", c.err, err)
	}
	for ref.PeekKind() != '}' && ref.PeekKind() != ']' {
		if !c.more() {
			return fmt.Errorf("no more, but %v", ref.PeekKind())
		}
		if open == '{' {
			if err := readBoth(c, ref); err != nil {
				return err
			}
		}
		if err := walk(c, ref, way); err != nil {
			return err
		}
	}
	if _, err = ref.ReadToken(); c.more() || err != nil || c.err != nil {
		return fmt.Errorf("it does not end: %w, %w", c.err, err)
	}
	return samePlace(c, ref)
}

// walkAlone reads the next value of a text that is not valid with a cursor.
func walkAlone(c *cursor, way uint64) {
	switch k := c.kind(); {
	case way>>(c.last%64)&1 == 0:
		c.skip()
	case k == '{':
		for range c.object() {
			walkAlone(c, way)
		}
	case k == '[':
		for range c.array() {
			walkAlone(c, way)
		}
	default:
		c.skip()
	}
}

// sameReading compares a cursor and jsontext on one text.
func sameReading(data []byte, lenient bool, way uint64) error {
	var c cursor
	if c.reset(data); lenient {
		c.resetLenient(data)
	}
	option := jsontext.AllowDuplicateNames(lenient)
	if why := explain(data, option); !errors.Is(why, errTooDeep) { // jsontext refuses it
		if walkAlone(&c, way); c.err == nil {
			c.end()
		}
		if c.err == nil || c.err.Error() != why.Error() && !errors.Is(why, io.EOF) {
			return fmt.Errorf("error %w, not %w", c.err, why)
		}
		return nil
	}
	if err := walk(&c, jsontext.NewDecoder(bytes.NewBuffer(data), option), way); err != nil {
		return err
	}
	c.end()
	return c.err
}

// cursorTexts are valid and invalid texts for both readers.
var cursorTexts = []string{
	``, ` `, `0`, `-0.5e+10`, `01`, `-`, `1.`, `1e`, `.5`, `+1`, `1x`, `tru`, `true`, `nul`, `null `, `falsee`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[]`,
	`{}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{1:2}`, `{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`, `{"a":1}}`, `[}`, `{]`,
	`"\u12"`, `"\ud800"`, `"\udc00"`, `"\ud83d\ude00"`, `"\ud83dx"`, `"\ud83d\u0061"`, `"\x"`, `"\`, `"a`, `"\"\\\/\b\f\n\r\t"`, "\"\x7f\"", "\"\x00\"", "\"\x1f\"",
	"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf0\x9f\x98\x80\"", "\"\xe0\x80\x80\"", "\"\xe2\x82\"", "\"\xc3\"", "\"\xef\xbf\xbd\"",
	`[{"role":"user","content":"hi"},{"a":[1,2,{"b":null}]}]`, "\ufeff{}", "{\"\xff\":1}", `{"a~b":{"c/d":[1]}}`, "[1]\x00", "\"a\x00", "[1\x00]", `{"a" :1 , "b":2 } `,
}

func TestACursorReadsWhatJsontextReads(t *testing.T) {
	long := func(n int, tail string) string { return `"` + strings.Repeat("x", n) + tail + `"` }
	texts := cursorTexts
	for n := range 70 { // each place in a word and a block
		for _, odd := range []string{"", "é", "阀", "😀", `\n`, `\u0041`, `\ud83d\ude00`, `\ud83d`, `\q`, "\x01", "\x1f", "\xff", "\xc3", "\xe9\x98", "\xf0\x9f\x98", "\x7f", `\`} {
			texts = append(texts, long(n, odd), long(n, odd+strings.Repeat("y", 40)), `{`+long(n, odd)+`:1,`+long(n, odd)+`:2}`)
		}
	}
	many := func(n int, last string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"f%d":{"a":%d},`, i, i)
		}
		return `{` + b.String() + `"` + last + `":1}`
	}
	for _, n := range []int{fewNames - 1, fewNames, fewNames + 1, 3 * fewNames} {
		texts = append(texts, many(n, "x"), many(n, "f0"), many(n, fmt.Sprintf("f%d", n-1)), many(n, `f\u0030`))
	}
	for _, n := range []int{deepest, deepest + 1} {
		if err := sameReading([]byte(strings.Repeat("[", n)+strings.Repeat("]", n)), false, 0); err != nil {
			t.Errorf("%d levels: %v", n, err)
		}
	}
	for _, text := range texts {
		for _, way := range []uint64{0, ^uint64(0), 0x5a5a1234f00dbeef} {
			for _, lenient := range []bool{false, true} {
				if err := sameReading([]byte(text), lenient, way); err != nil {
					t.Errorf("%.200q lenient %v: %v", text, lenient, err)
				}
			}
		}
	}
}

// FuzzCursor: a cursor accepts exactly what jsontext accepts, and reads the same values at the same places.
func FuzzCursor(f *testing.F) {
	for _, text := range cursorTexts {
		f.Add([]byte(text), false, uint64(0x5a5a1234f00dbeef))
	}
	f.Fuzz(func(t *testing.T, data []byte, lenient bool, way uint64) {
		if err := sameReading(data, lenient, way); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
