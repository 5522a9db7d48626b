package live

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// BenchmarkBody makes the body of a request with 16 KiB of text.
func BenchmarkBody(b *testing.B) {
	q := &loadtest.Request{Stream: true, Messages: []loadtest.Message{{Role: "user", Content: strings.Repeat("some words in a line\n", 780)}}}
	b.ReportAllocs()
	for b.Loop() {
		_ = appendBody(make([]byte, 0, bodySize(q)), "lab", q)
	}
}
