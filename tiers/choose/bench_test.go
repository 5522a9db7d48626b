package choose

import (
	"fmt"
	"testing"
)

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
				Choose(PolicyFit, cands, Request{PromptTokens: 800}, turn)
				turn++
			}
		})
	}
}
