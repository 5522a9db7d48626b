package openai

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

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
