package limits

import (
	"testing"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redistest"
)

// BenchmarkEnter is a request from its entry to its end, without Redis.
func BenchmarkEnter(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit Limit
	}{
		{"unlimited", Limit{}},
		{"concurrent", Limit{Concurrent: 100}},
		{"local", Limit{RPM: 1_000_000_000, TPM: 1_000_000_000_000, Concurrent: 100, HighShare: 0.2}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := join(b, nil, 3)
			a := Request{Tenant: "acme", Limit: c.limit, Tokens: 700, High: true}
			b.ReportAllocs()
			for b.Loop() {
				g, err := r.Reserve(b.Context(), a)
				if err != nil {
					b.Fatal(err)
				}
				g.Settle(600)
			}
		})
	}
	b.Run("skipped", func(b *testing.B) { // Redis is away
		o := redistest.OnRequests("127.0.0.1:1")
		o.Dialer = refuse
		r := join(b, o, 3)
		a := Request{Tenant: "acme", Limit: Limit{RPM: 1_000_000_000}, Tokens: 700}
		for range lookup.MaxFailures {
			r.ask(b, a)
		}
		b.ReportAllocs()
		for b.Loop() {
			g, err := r.Reserve(b.Context(), a)
			if err != nil {
				b.Fatal(err)
			}
			g.Settle(-1)
		}
	})
	b.Run("redis", func(b *testing.B) {
		r := join(b, redistest.OnRequests(redistest.Start(b).Addr), 3)
		r.run(b)
		a := Request{Tenant: "acme", Limit: Limit{RPM: 1_000_000_000}, Tokens: 700}
		b.ReportAllocs()
		for b.Loop() {
			r.ask(b, a)
		}
	})
}
