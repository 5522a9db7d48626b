package openai

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// bodySizes are the sizes of the benchmarks' bodies, in bytes.
var bodySizes = []int{200, 1 << 10, 16 << 10, 128 << 10}

// chatOfSize is a chat of this many bytes: a system prompt, and a question with retrieved text, whose words,
// line ends and quotes come at irregular distances. Some words are not ASCII, unless plain.
func chatOfSize(size int, plain bool) []byte {
	head := `{"model":"llama-3","messages":[{"role":"system","content":"You answer."},{"role":"user","content":"`
	tail := `"}],"max_tokens":300,"temperature":0.2,"top_p":0.95}`
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(head)
	for room := size - len(tail); b.Len() < room; {
		word := "abcdefghijklmnopqrstuvwxyz"[r.IntN(16):][:1+r.IntN(9)]
		switch n := r.IntN(200); {
		case n < 10:
			word += `.\n`
		case n < 14:
			word = `\"` + word + `\"`
		case n < 24 && !plain:
			word += "größer"
		case n < 26 && !plain:
			word = "阀门每两千小时检查一次"
		default:
			word += " "
		}
		if b.Len()+len(word) > room {
			word = strings.Repeat("x", room-b.Len())
		}
		b.WriteString(word)
	}
	return []byte(b.String() + tail)
}

// benchBodies runs a benchmark with each body.
func benchBodies(b *testing.B, run func(b *testing.B, body []byte)) {
	for _, plain := range []bool{false, true} {
		for _, size := range bodySizes {
			body := chatOfSize(size, plain)
			b.Run(fmt.Sprintf("%s/%dB", map[bool]string{true: "ascii", false: "mixed"}[plain], size), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				run(b, body)
			})
		}
	}
}

func BenchmarkBodyScan(b *testing.B) {
	benchBodies(b, func(b *testing.B, body []byte) {
		for b.Loop() {
			if _, err := Scan(Chat, body, DefaultLimits()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkBodyDigest(b *testing.B) {
	benchBodies(b, func(b *testing.B, body []byte) {
		r, err := Scan(Chat, body, DefaultLimits())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := r.Digest(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
