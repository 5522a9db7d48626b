package pool

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/pressure"
)

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{8, 100} {
		b.Run(fmt.Sprintf("backends=%d", n), func(b *testing.B) {
			var urls []string
			for i := range n {
				urls = append(urls, fmt.Sprintf("http://10.0.0.%d:8000", i))
			}
			p := fixed(b, Options{Backends: urls, Open: func(string) bool { return false }})
			for i := range n {
				p.give(i, pressure.Reading{KVUsage: float64(i) / float64(n), Running: i, BlockSize: 16, Blocks: 28130})
			}
			d := Demand{PromptTokens: 800, OutputTokens: 200}
			b.ReportAllocs()
			for b.Loop() {
				l, err := p.Pick(d)
				if err != nil {
					b.Fatal(err)
				}
				l.Done(0)
			}
		})
	}
}

func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{8, 100} {
		b.Run(fmt.Sprintf("backends=%d", n), func(b *testing.B) {
			cands := make([]Candidate, n)
			for i := range cands {
				cands[i] = idle()
				cands[i].Waiting = float64(i % 7)
			}
			turn := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				Choose(DefaultConfig(), cands, Demand{PromptTokens: 800}, turn)
				turn++
			}
		})
	}
}
