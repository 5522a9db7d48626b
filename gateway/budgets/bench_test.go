package budgets

import (
	"testing"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redistest"
)

// BenchmarkReserve is a request from its entry to its end.
func BenchmarkReserve(b *testing.B) {
	day := Request{Tenant: "acme", Budgets: []identity.Budget{tokensPer(maxAmount, identity.Day)}, Tokens: 700, USD: 0.001}
	for _, c := range []struct {
		name string
		a    Request
		l    *Ledger
	}{
		{"no budgets", Request{Tenant: "acme", Tokens: 700, USD: 0.001}, New(Options{})},
		{"in memory", day, New(Options{})},
		{"redis", day, New(Options{Redis: redistest.Client(b, redistest.OnRequests(redistest.Start(b).Addr))})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g, err := c.l.Reserve(b.Context(), c.a)
				if err != nil {
					b.Fatal(err)
				}
				g.Settle(600, 0.0005)
			}
		})
	}
}
