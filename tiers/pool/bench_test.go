package pool

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{8, 100, 1000} {
		b.Run(fmt.Sprintf("backends=%d", n), func(b *testing.B) {
			var urls []string
			for i := range n {
				urls = append(urls, fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250))
			}
			p := fixed(b, Options{Backends: urls, Open: func(string) bool { return false }})
			for i := range n {
				p.give(i, pressure.Reading{KVUsage: float64(i) / float64(n), Running: i, BlockSize: 16, Blocks: 28130})
			}
			d := Demand{PromptTokens: 800, OutputTokens: 200, Parts: prefix.Head{Tenant: "t", System: make([]byte, 2000), First: []byte("x")}.Parts(3200)}
			b.ReportAllocs()
			var l Lease
			for b.Loop() {
				if err := p.PickInto(&l, &d); err != nil {
					b.Fatal(err)
				}
				l.Done(0)
			}
		})
	}
}
