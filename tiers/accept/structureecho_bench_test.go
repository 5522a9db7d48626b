package accept

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkIsEcho looks for copies of prompts of several lengths in an answer of 1 KiB that has none.
func BenchmarkIsEcho(b *testing.B) {
	answer := textOf(1<<10, "answer")
	for _, size := range []int{200, 1 << 10, 64 << 10} {
		prompt := textOf(size, "prompt")
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if isEcho(answer, prompt) {
					b.Fatal("an echo")
				}
			}
		})
	}
}

func textOf(size int, word string) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%s %x ", word, uint32(i)*2654435761)
	}
	return b.Bytes()[:size]
}
