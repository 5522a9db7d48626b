package openai

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzQuoteWritesWhatTheLibraryWrites compares quote with jsontext's, byte for byte.
func FuzzQuoteWritesWhatTheLibraryWrites(f *testing.F) {
	for _, text := range []string{
		"", "plain", "a line\nand \"another\", of more than eight bytes", "\\", "\x1f\x20\x7f\x80", "tab\t, bell\a",
		"caf\u00e9 \u65e5\u672c\u8a9e \U0001f600", "cut \xe6\x97", "seven b\xff", "\u2028<&>", strings.Repeat("x", 64) + "\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, _ := jsontext.AppendQuote([]byte("before"), text)
		if got := quote([]byte("before"), text); !bytes.Equal(got, want) {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
		if got := quote([]byte("before"), string(text)); !bytes.Equal(got, want) {
			t.Errorf("the string %q becomes %q, not %q", text, got, want)
		}
	})
}

// TestEveryByteIsQuotedAlikeAtEveryOffset finds what looking at eight bytes at once might miss.
func TestEveryByteIsQuotedAlikeAtEveryOffset(t *testing.T) {
	for b := range 256 {
		for c := range 256 {
			for at := range 9 {
				text := bytes.Repeat([]byte{'x'}, 17)
				text[at], text[at+1] = byte(b), byte(c)
				want, _ := jsontext.AppendQuote(nil, text)
				if got := quote(nil, text); !bytes.Equal(got, want) {
					t.Fatalf("%q becomes %q, not %q", text, got, want)
				}
			}
		}
	}
}
