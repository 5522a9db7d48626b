package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// vllmChunk is a chunk of one token as vLLM 0.28 writes it, with what a judge asks for: ids, the logprob and five
// alternatives.
func vllmChunk(i int, judged bool) string {
	word := fmt.Sprintf(" wo%cd", 'a'+rune(i%26))
	logprobs, ids := "null", "null"
	if judged {
		var tops []string
		for k, lp := range []string{"-0.021345678269863129", "-4.6123456954956055", "-6.0371236801147461", "-7.4623456001281738", "-8.1248750686645508"} {
			tops = append(tops, fmt.Sprintf(`{"token":"%s%d","logprob":%s,"bytes":[32,119,111,%d,100,%d]}`, word, k, lp, 97+i%26, 48+k))
		}
		logprobs = fmt.Sprintf(`{"content":[{"token":"%s","logprob":-0.0213456782%06d,"bytes":[32,119,111,%d,100],"top_logprobs":[%s]}]}`, word, i, 97+i%26, strings.Join(tops, ","))
		ids = fmt.Sprintf("[%d]", 1000+i)
	}
	return `{"id":"chatcmpl-4f2c9a1b7d3e48f6a5c0b1d2e3f40516","object":"chat.completion.chunk","created":1795219200,"model":"sim/llama-3","choices":[` +
		`{"index":0,"delta":{"content":"` + word + `"},"logprobs":` + logprobs + `,"finish_reason":null,"token_ids":` + ids + `}]}`
}

// vllmStream is a stream of so many chunks.
func vllmStream(chunks int, judged bool) []byte {
	var b bytes.Buffer
	for i := range chunks {
		b.WriteString("data: " + vllmChunk(i, judged) + "\n\n")
	}
	b.WriteString("data: " + Done + "\n\n")
	return b.Bytes()
}

// BenchmarkStream reads a stream that came at once, per chunk: a relayed one; one that is judged, with the
// alternatives of the first eight tokens, as its score wants them, or of all; and each chunk in a read of its own.
func BenchmarkStream(b *testing.B) {
	const chunks = 100
	for _, bc := range []struct {
		name   string
		judged bool
		tops   int
		paced  bool
	}{{"relayed", false, 0, false}, {"judged", true, 8, false}, {"alternatives", true, chunks, false}, {"relayed-paced", false, 0, true}, {"judged-paced", true, 8, true}} {
		b.Run(bc.name, func(b *testing.B) {
			stream := vllmStream(chunks, bc.judged)
			unit := len(stream)
			if bc.paced {
				unit = bytes.Index(stream, []byte("\n\n")) + 2
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				r := NewEventReader(&unitReader{stream, unit}, 1<<20)
				p := ChunkParser{Judged: bc.judged}
				for i := 0; ; i++ {
					data, err := r.Next()
					if err != nil {
						b.Fatal(err)
					}
					if string(data) == Done {
						break
					}
					p.NoTop = i >= bc.tops
					if _, err = p.Parse(data); err != nil {
						b.Fatal(err)
					}
					r.Buffered()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
		})
	}
}
