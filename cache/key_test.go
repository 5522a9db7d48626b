package cache

import (
	"testing"
)

func BenchmarkKeyOf4kB(b *testing.B) {
	p := &Parts{Kind: "/v1/chat/completions", Tenant: "acme", Route: "chat", Draft: "small@1", Target: "big@1", Tier: "auto", Request: make([]byte, 4096)}
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		keyNo1 = KeyOf(p)
	}
}

func BenchmarkKeyName(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = keyNo1.Name()
	}
}
